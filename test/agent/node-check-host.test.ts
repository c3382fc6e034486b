// The host's facts judged: what is fine is one line, what is not says what to do.
import t from 'tap';
import type { PinDirFacts } from '../../src/agent/node-check-deps.ts';
import { judgeEnvoys, judgeKernel, judgePins, judgeRemovals, judgeSocket } from '../../src/agent/node-check-host.ts';
import type { Finding } from '../../src/core/finding.ts';
import { parseContainerId } from '../../src/core/identifiers.ts';

const NOW = new Date('2026-11-29T12:00:00Z');
const agoMs = (ms: number): Date => new Date(NOW.getTime() - ms);
const id = (text: string) => {
  const parsed = parseContainerId(text);
  if (typeof parsed === 'object') throw new Error(parsed.problem);
  return parsed;
};

const socket = { path: '/run/aether/xds.sock', what: 'Envoy', wantedMode: 0o600 };
const GOOD_SOCKET = { kind: 'socket', mode: 0o600, uid: 0, isAnswered: true } as const;
const PINS: PinDirFacts = {
  ...{ isThere: true, mode: 0o700, mountPoint: '/run', isMount: false, isShared: true },
  containerIds: [id('c1')],
};
const pinsOf = (facts: PinDirFacts, known: readonly string[] = ['c1']): readonly Finding[] =>
  judgePins(facts, { path: '/run/aether/netns', known: new Set(known), pinned: known.length });
const queue = { path: '/var/lib/aether/delete-queue', now: NOW };

const CASES: readonly {
  readonly name: string;
  readonly findings: readonly Finding[];
  readonly want: readonly (readonly [status: string, message: RegExp])[];
}[] = [
  { name: 'a good socket', findings: judgeSocket(GOOD_SOCKET, socket), want: [['ok', /answers, mode 0600 \(Envoy\)/]] },
  {
    name: 'no socket',
    findings: judgeSocket({ ...GOOD_SOCKET, kind: 'absent' }, socket),
    want: [['fail', /is not there/]],
  },
  { name: 'a file', findings: judgeSocket({ ...GOOD_SOCKET, kind: 'other' }, socket), want: [['fail', /no socket/]] },
  {
    name: 'a dead socket',
    findings: judgeSocket({ ...GOOD_SOCKET, isAnswered: false }, socket),
    want: [['fail', /nobody answers/]],
  },
  {
    name: 'a socket open to all, of somebody else',
    findings: judgeSocket({ ...GOOD_SOCKET, mode: 0o666, uid: 1000 }, socket),
    want: [
      ['fail', /belongs to uid 1000/],
      ['fail', /has mode 0666, should be 0600: others can reach it/],
    ],
  },
  {
    name: 'a socket that is meant to be open',
    findings: judgeSocket({ ...GOOD_SOCKET, mode: 0o660 }, { ...socket, wantedMode: 0o660 }),
    want: [['ok', /mode 0660/]],
  },
  {
    name: 'a socket that is too closed',
    findings: judgeSocket(GOOD_SOCKET, { ...socket, wantedMode: 0o660 }),
    want: [['warn', /has mode 0600, should be 0660/]],
  },
  { name: 'a new kernel', findings: judgeKernel('6.18.44-x', []), want: [['ok', /takes both tables/]] },
  { name: 'kernel 6.3', findings: judgeKernel('6.3.0', []), want: [['ok', /./]] },
  {
    name: 'an old kernel',
    findings: judgeKernel('6.1.0-18-amd64', []),
    want: [
      ['ok', /./],
      ['warn', /before 6\.3/],
    ],
  },
  {
    name: 'a kernel that lacks a module (K083)',
    findings: judgeKernel('6.18.0', ['try table inet aether: rule 7: kernel lacks nft_redir (ENOENT)']),
    want: [['fail', /kernel lacks nft_redir/]],
  },
  {
    name: 'an Envoy with room',
    findings: judgeEnvoys([{ pid: 7, openFileLimit: 65_536, workers: 4 }], 250),
    want: [['ok', /250 pods take 10000 sockets on 4 workers/]],
  },
  {
    name: 'an Envoy without',
    findings: judgeEnvoys([{ pid: 7, openFileLimit: 1024, workers: 4 }], 100),
    want: [['warn', /may open 1024 files; its 100 pods take 4000 sockets on 4 workers/]],
  },
  {
    name: 'an Envoy that cannot be seen',
    findings: judgeEnvoys([{ pid: 7, openFileLimit: undefined, workers: 0 }], 1),
    want: [],
  },
  { name: 'pins in order', findings: pinsOf(PINS), want: [['ok', /1 pins; on the mount above it, shared/]] },
  {
    name: 'pins that others do not see',
    findings: pinsOf({ ...PINS, isMount: true, isShared: false }),
    want: [['warn', /which is not shared/]],
  },
  {
    name: 'pins of nobody',
    findings: pinsOf({ ...PINS, containerIds: [id('c1'), id('c2')] }),
    want: [
      ['warn', /pins of no recorded pod.*: 1, such as c2/],
      ['ok', /2 pins/],
    ],
  },
  {
    name: 'a directory of pins open to others',
    findings: pinsOf({ ...PINS, mode: 0o755 }),
    want: [
      ['warn', /has mode 0755/],
      ['ok', /./],
    ],
  },
  {
    name: 'no directory of pins, no pods',
    findings: pinsOf({ ...PINS, isThere: false, containerIds: [] }, []),
    want: [['ok', /no pod is pinned/]],
  },
  {
    name: 'no directory of pins, but pods',
    findings: pinsOf({ ...PINS, isThere: false, containerIds: [] }),
    want: [['fail', /although 1 pods are recorded with a pin/]],
  },
  { name: 'no removals', findings: judgeRemovals([], { ...queue, isAgentThere: true }), want: [['ok', /no removal/]] },
  {
    name: 'a fresh removal',
    findings: judgeRemovals([agoMs(3000)], { ...queue, isAgentThere: true }),
    want: [['ok', /1 removal waits, the oldest for 3 s/]],
  },
  {
    name: 'a stuck removal',
    findings: judgeRemovals([agoMs(90_000), agoMs(10)], { ...queue, isAgentThere: true }),
    want: [['fail', /2 removals wait, the oldest for 90 s/]],
  },
  {
    name: 'removals that wait for the agent',
    findings: judgeRemovals([agoMs(90_000)], { ...queue, isAgentThere: false }),
    want: [['warn', /1 removal waits/]],
  },
];

for (const { name, findings, want } of CASES) {
  t.test(`judges ${name}`, async (t) => {
    t.match(
      findings,
      want.map(([status, message]) => ({ status, message })),
    );
    t.equal(findings.length, want.length, JSON.stringify(findings));
    for (const { status, remedy } of findings) if (status !== 'ok') t.not(remedy, '');
  });
}
