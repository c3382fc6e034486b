// The runtime's configuration against the agent's own word: each way in which new pods miss the mesh.
import { Buffer } from 'node:buffer';
import t from 'tap';
import { type ConfFacts, judgeConf } from '../../src/agent/node-check-conflist.ts';
import type { NodePlaces } from '../../src/agent/node-check-deps.ts';
import { readConfDir } from '../../src/cni/conf-list.ts';
import { makeIp } from '../support/services.ts';

const PLACES: NodePlaces = {
  adminSocket: '/run/aether/admin.sock',
  cniSocket: '/run/aether/cni.sock',
  relaySocket: '/run/aether/relay.sock',
  xdsSocket: '/run/aether/xds.sock',
  xdsSocketMode: 0o600,
  recordDir: '/var/lib/aether/registry',
  pinDir: '/run/aether/netns',
  deleteQueueDir: '/var/lib/aether/delete-queue',
  meshDns: [{ address: makeIp('10.0.0.1'), port: 18054 }],
  meshDomain: 'aether.internal',
};
const BRIDGE = { type: 'bridge' };
const OURS = { type: 'aether-cni', capabilities: { 'io.kubernetes.cri.pod-annotations': true } };
const FULL = { isThere: true, isExecutable: true, sizeBytes: 127_000_000 };
const RELAY = { isThere: true, isExecutable: true, sizeBytes: 40_000 };
const NONE = { isThere: false, isExecutable: false, sizeBytes: 0 };

function facts(plugins: readonly object[] | undefined, more: Partial<ConfFacts> = {}): ConfFacts {
  const text = JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins });
  const files = plugins === undefined ? [] : [{ name: '10-pods.conflist', bytes: Buffer.from(text) }];
  return {
    ...{ confDir: '/etc/cni/net.d', binDir: '/opt/cni/bin', reading: readConfDir(files) },
    ...{ plugin: RELAY, standalone: FULL },
    ...more,
  };
}

interface Case {
  readonly name: string;
  readonly facts: ConfFacts;
  readonly places?: NodePlaces;
  /** `<status> <area> <what the message says>` of what is not fine. */
  readonly want: readonly (readonly [status: 'warn' | 'fail', area: string, message: RegExp])[];
}

const CASES: readonly Case[] = [
  { name: 'our entry behind the primary', facts: facts([BRIDGE, OURS]), want: [] },
  { name: 'the full file alone', facts: facts([BRIDGE, OURS], { plugin: FULL, standalone: NONE }), want: [] },
  {
    name: 'no directory',
    facts: facts(undefined, { reading: undefined }),
    want: [['warn', 'conflist', /no network configuration is here/]],
  },
  { name: 'an empty directory', facts: facts(undefined), want: [['warn', 'conflist', /no network configuration/]] },
  {
    name: 'no entry of ours',
    facts: facts([BRIDGE], { plugin: NONE }),
    want: [
      ['warn', 'conflist', /does not call aether-cni: new pods start outside of the mesh/],
      ['warn', 'binary', /is not there$/],
    ],
  },
  {
    name: 'an entry in a file that is not used',
    facts: facts([BRIDGE], {
      reading: readConfDir([
        { name: '05-x.conflist', bytes: Buffer.from(JSON.stringify({ name: 'x', plugins: [BRIDGE] })) },
        { name: '99-y.conflist', bytes: Buffer.from(JSON.stringify({ name: 'y', plugins: [BRIDGE, OURS] })) },
      ]),
    }),
    want: [['warn', 'conflist', /99-y\.conflist has it, which the runtime does not use/]],
  },
  {
    name: 'our entry first (K046)',
    facts: facts([OURS, BRIDGE]),
    want: [['fail', 'conflist', /is the first plugin/]],
  },
  {
    name: 'our entry twice (K046)',
    facts: facts([BRIDGE, OURS, OURS]),
    want: [['fail', 'conflist', /is listed 2 times/]],
  },
  {
    name: 'an entry without annotations',
    facts: facts([BRIDGE, { type: 'aether-cni' }]),
    want: [['fail', 'conflist', /none is taken into the mesh/]],
  },
  {
    name: 'an entry with wrong keys',
    facts: facts([BRIDGE, { ...OURS, agent_timeout_ms: -1 }]),
    want: [['fail', 'conflist', /every new pod is refused for the entry "aether-cni": agent_timeout_ms/]],
  },
  {
    name: 'a plugin that asks another socket',
    facts: facts([BRIDGE, { ...OURS, agent_cni_path: '/run/other/cni.sock' }]),
    want: [['fail', 'conflist', /agent_cni_path: the plugin uses \/run\/other\/cni\.sock, the agent \/run\/aether/]],
  },
  {
    name: 'a queue that the agent does not read',
    facts: facts([BRIDGE, { ...OURS, delete_queue_dir: '/var/tmp/q' }]),
    want: [['fail', 'conflist', /delete_queue_dir: the plugin uses \/var\/tmp\/q/]],
  },
  {
    name: 'pins that are made elsewhere',
    facts: facts([BRIDGE, { ...OURS, netns_pin_dir: '/run/netns2' }]),
    want: [['fail', 'conflist', /netns_pin_dir/]],
  },
  {
    name: 'no pins at all',
    facts: facts([BRIDGE, { ...OURS, netns_pin_dir: '/run/netns2', netns_pin_disabled: true }]),
    want: [],
  },
  {
    name: 'DNS of pods that is answered',
    facts: facts([BRIDGE, { ...OURS, mesh_dns_enabled: true, host_ip: '10.0.0.1' }]),
    want: [],
  },
  {
    name: 'DNS of pods that is answered on any address',
    facts: facts([BRIDGE, { ...OURS, mesh_dns_enabled: true, host_ip: '10.0.0.1' }]),
    places: { ...PLACES, meshDns: [{ address: makeIp('0.0.0.0'), port: 18054 }] },
    want: [],
  },
  {
    name: 'DNS of pods to where nobody listens',
    facts: facts([BRIDGE, { ...OURS, mesh_dns_enabled: true, host_ip: '10.0.0.9' }]),
    want: [['fail', 'conflist', /DNS to 10\.0\.0\.9:18054, where .* does not listen \(10\.0\.0\.1:18054\)/]],
  },
  {
    name: 'DNS of pods with mesh DNS off',
    facts: facts([BRIDGE, { ...OURS, mesh_dns_enabled: true, host_ip: '10.0.0.1' }]),
    places: { ...PLACES, meshDns: [] },
    want: [['fail', 'conflist', /does not listen \(off\)/]],
  },
  {
    name: 'no executable, though it is called',
    facts: facts([BRIDGE, OURS], { plugin: NONE, standalone: NONE }),
    want: [['fail', 'binary', /is not there: the runtime refuses every new pod/]],
  },
  {
    name: 'a file that is not executable',
    facts: facts([BRIDGE, OURS], { plugin: { ...FULL, isExecutable: false } }),
    want: [['fail', 'binary', /is not executable/]],
  },
  {
    name: 'a relay alone',
    facts: facts([BRIDGE, OURS], { standalone: NONE }),
    want: [['warn', 'binary', /nothing to fall back to/]],
  },
];

for (const { name, facts: given, places = PLACES, want } of CASES) {
  t.test(`judgeConf() of ${name}`, async (t) => {
    const troubles = judgeConf(given, places).filter(({ status }) => status !== 'ok');
    t.match(
      troubles,
      want.map(([status, area, message]) => ({ status, area, message })),
    );
    t.equal(troubles.length, want.length, JSON.stringify(troubles));
    for (const { remedy } of troubles) t.not(remedy, '');
  });
}

t.test('judgeConf() without the agent compares nothing with it', async (t) => {
  const conf = facts([BRIDGE, { ...OURS, agent_cni_path: '/run/other/cni.sock' }]);
  t.ok(judgeConf(conf, undefined).every(({ status }) => status === 'ok'));
});
