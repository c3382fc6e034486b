// The kernel's half of the rule, held against the two tables as planned, walked rule by rule: random policies and packets.
import fc from 'fast-check';
import t from 'tap';
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { parseIpRange } from '../../src/core/ip.ts';
import { planMeshSets } from '../../src/mesh/plan-mesh-sets.ts';
import { type KernelAnswer, type ResolveContext, resolveInKernel } from '../../src/mesh/resolve-in-kernel.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { findVerdict } from '../../src/nft/find-verdict.ts';
import type { Verdict } from '../../src/nft/model.ts';
import { anyPolicy, anyPort } from '../support/resolve-arbitraries.ts';
import { exampleServices, makeIp, makeView } from '../support/services.ts';

const { shop, db, web, idle } = exampleServices();
const edge = makeView(
  'demo/edge',
  ['10.96.0.80', 'fd96::80'],
  [{ ip: '10.1.2.6', primary: 53, ports: { 53: 'tcp', 443: 'tcp', 18082: 'http' } }],
);
const SERVICES: readonly ServiceView[] = [db, edge, idle, shop, web];
const RANGES = ['10.96.0.0/16', 'fd96::/112'].flatMap((text) => parseIpRange(text) ?? []);
const ADDRESSES = [
  ...SERVICES.flatMap(({ vips }) => vips),
  ...[
    '192.0.2.1',
    '10.96.200.1',
    '2001:db8::1',
    '127.0.0.1',
    '127.1.2.3',
    '::1',
    '169.254.20.10',
    'fe80::1',
    '224.0.0.1',
    'ff02::1',
  ].map(makeIp),
];

const anyDial = fc.record({
  address: fc.constantFrom(...ADDRESSES),
  port: anyPort,
  bytes: fc.constantFrom('http', 'tls', 'raw', 'silent'),
  mark32: fc.constantFrom(0, 0, 0, 0xae7e, 1),
});

const anyNode = fc.record({ tcp: fc.boolean(), unanswered: fc.constantFrom([], RANGES) });

/** What the two tables, as planned, make of the packet: the first translation or refusal, else nothing. */
function walkTables(
  policy: CapturePolicy,
  packet: Parameters<typeof findVerdict>[1],
  { tcp, unanswered }: Pick<ResolveContext, 'tcp' | 'unanswered'>,
): string {
  const mesh = planMeshTable(policy, planMeshSets(SERVICES, { tcp }), unanswered === undefined ? {} : { unanswered });
  const tables = [mesh, planPluginTable(policy)];
  const verdicts = tables.map((table) => findVerdict(table, packet));
  return showVerdict(verdicts.find((verdict) => verdict !== undefined && verdict.kind !== 'accept'));
}

function showVerdict(verdict: Verdict | undefined): string {
  switch (verdict?.kind) {
    case 'redirect':
      return `redirect ${verdict.port}`;
    case 'dnat':
      return 'dns';
    case 'reset':
      return 'reset';
    default:
      return 'direct';
  }
}

function showAnswer(answer: KernelAnswer): string {
  return answer.kind === 'redirect' ? `redirect ${answer.port}` : answer.kind;
}

t.test('resolveInKernel() says what the two tables as planned do with any packet', (t) => {
  const property = fc.property(anyPolicy, fc.array(anyDial, { minLength: 20 }), anyNode, (scope, dials, node) => {
    for (const dial of dials) {
      const answer = resolveInKernel(dial, { scope, services: SERVICES, domain: 'aether.internal', ...node });
      const packet = { protocol: 'tcp', destination: dial.address, port: dial.port, mark32: dial.mark32 } as const;
      const walked = walkTables(scope, packet, node);
      if (showAnswer(answer) !== walked) throw new Error(`${dial.address.text} ${dial.port}: tables say ${walked}`);
    }
  });
  t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
  t.end();
});

t.test('resolveInKernel() names the rule that let a packet pass', (t) => {
  const scope: CapturePolicy = {
    redirectAll: true,
    excludePorts: [
      { first: 53, last: 53 },
      { first: 9000, last: 9010 },
    ],
    excludeRanges: [],
    dns: { address: makeIp('192.168.0.1'), port: 18054 },
  };
  const cases: readonly (readonly [string, number, string])[] = [
    // The pod's exclusions end only the agent's table; the plugin's looks at DNS before them.
    ['8.8.8.8', 53, 'dns'],
    ['10.96.0.80', 53, 'dns'],
    ['2001:db8::1', 53, 'direct excluded-port'],
    ['169.254.1.1', 9000, 'direct link-local'],
    ['10.96.0.50', 9000, 'direct excluded-port'],
    ['10.96.0.50', 18004, 'direct capture-port'],
  ];
  for (const [ip, port, want] of cases) {
    const dial = { address: makeIp(ip), port, bytes: 'raw' } as const;
    const answer = resolveInKernel(dial, { scope, services: SERVICES, domain: 'aether.internal', tcp: true });
    t.equal(answer.kind === 'direct' ? `direct ${answer.reason}` : showAnswer(answer), want, `${ip} ${port}`);
  }
  t.end();
});
