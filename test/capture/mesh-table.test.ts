// The agent's table as a value: its rules follow from the pod's policy and the node's ranges, never from the services, which
// change its elements alone.
import t from 'tap';
import { planMeshChange, planMeshTable } from '../../src/capture/mesh-table.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { knownRange } from '../../src/capture/shared-rules.ts';
import type { MeshSets } from '../../src/mesh/mesh-sets.ts';
import { formatElementChange, formatRule } from '../../src/nft/text.ts';
import { EXCLUDING, ip, MESH, REDIRECT_ALL, SCOPED } from '../support/capture-cases.ts';

const EMPTY: MeshSets = { tcp: [], vip: [], shim: [] };

const rulesOf = (table: ReturnType<typeof planMeshTable>): readonly string[] =>
  (table.chains[0]?.rules ?? []).map(formatRule);

t.test('planMeshTable() gives the same shape whatever the mesh', (t) => {
  for (const policy of [SCOPED, REDIRECT_ALL, EXCLUDING]) {
    const [full, empty] = [planMeshTable(policy, MESH), planMeshTable(policy, EMPTY)];
    t.strictSame(rulesOf(full), rulesOf(empty));
    t.strictSame(
      full.sets.map(({ name }) => name),
      empty.sets.map(({ name }) => name),
    );
  }
  t.end();
});

t.test('planMeshTable() has nothing of exclusions that a policy does not have', (t) => {
  const setsOf = (policy: CapturePolicy) => planMeshTable(policy, MESH).sets.map(({ name }) => name);
  const mesh = setsOf(SCOPED);
  t.equal(mesh.length, 6);
  t.strictSame(setsOf(EXCLUDING), [...mesh, 'exclude_ports', 'exclude4', 'exclude6']);
  const onlyPorts = { ...EXCLUDING, excludeRanges: [] };
  t.strictSame(setsOf(onlyPorts), [...mesh, 'exclude_ports']);
  const excluding = rulesOf(planMeshTable(onlyPorts, MESH)).filter((text) => text.includes('exclude'));
  t.strictSame(excluding, ['tcp dport @exclude_ports accept']);
  t.end();
});

t.test('planMeshTable() resets what is not captured of a range that nobody answers for', (t) => {
  const unanswered = ['10.254.0.0/16', 'fd0a:e7e0::/112'].map(knownRange);
  const unansweredOf = (policy: CapturePolicy) => {
    const without = planMeshTable(policy, MESH).chains[0]?.rules ?? [];
    const rules = planMeshTable(policy, MESH, { unanswered }).chains[0]?.rules ?? [];
    t.strictSame(rules.slice(2, 2 + without.length), without, 'all other rules stay as they are');
    return [...rules.slice(0, 2), ...rules.slice(2 + without.length)].map(formatRule);
  };
  const passthrough = [
    'meta mark 0x0000ae7e ip daddr 10.254.0.0/16 meta l4proto tcp reject with tcp reset',
    'meta mark 0x0000ae7e ip6 daddr fd0a:e7e0::/112 meta l4proto tcp reject with tcp reset',
  ];
  t.strictSame(unansweredOf(REDIRECT_ALL), passthrough);
  t.strictSame(unansweredOf(SCOPED), [
    ...passthrough,
    // Goes on to the plugin's table.
    'tcp dport 18081 accept',
    'ip daddr 10.254.0.0/16 meta l4proto tcp reject with tcp reset',
    'ip6 daddr fd0a:e7e0::/112 meta l4proto tcp reject with tcp reset',
  ]);
  t.end();
});

t.test('planMeshChange() is undefined when nothing changes', (t) => {
  t.equal(planMeshChange(MESH, { ...MESH, tcp: [...MESH.tcp] }), undefined);
  t.equal(planMeshChange(EMPTY, EMPTY), undefined);
  t.end();
});

t.test('planMeshChange() names only the elements that differ, in each family’s set', (t) => {
  const after: MeshSets = {
    tcp: [...MESH.tcp.slice(1), { address: ip('fd96::52'), port: 7000 }],
    vip: MESH.vip,
    shim: MESH.shim.slice(1),
  };
  const change = planMeshChange(MESH, after);
  t.equal(
    change === undefined ? '' : formatElementChange(change),
    [
      'add element inet aether_mesh mesh_tcp6 { fd96::52 . 7000 }\n',
      'delete element inet aether_mesh mesh_tcp4 { 10.96.0.50 . 9000 }\n',
      'delete element inet aether_mesh mesh_shim4 { 10.96.0.51 }\n',
    ].join(''),
  );
  t.end();
});

t.test('planMeshChange() from nothing adds what planMeshTable() would hold', (t) => {
  const change = planMeshChange(EMPTY, MESH);
  const planned = planMeshTable(SCOPED, MESH).sets.filter((set) => set.elements.length > 0);
  t.strictSame(change?.add, planned);
  t.strictSame(change?.remove, []);
  t.strictSame(planMeshChange(MESH, EMPTY)?.remove, planned);
  t.end();
});
