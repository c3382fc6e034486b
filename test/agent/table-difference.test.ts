// An agent that comes back, against the real kernel: it reads what is in the pods' namespaces and changes only what differs,
// whatever somebody did there meanwhile.
import t, { type Test } from 'tap';
import { createRules } from '../../src/adapters/kernel/rules.ts';
import { type AgentPod, parseAgentPod, recordOfRequest } from '../../src/agent/agent-pod.ts';
import type { MeshTables } from '../../src/agent/deps.ts';
import { PodTables } from '../../src/agent/pod-tables.ts';
import type { MeshSets } from '../../src/mesh/mesh-sets.ts';
import { compareTable, formatDifference } from '../../src/nft/compare.ts';
import { FACTS, podRequest, TestClock, TestKernel } from '../support/agent-world.ts';
import { openNative } from '../support/native.ts';
import { execIn, makeNetns, nftIn, type TestNetns } from '../support/netns.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { makeIp } from '../support/services.ts';

const REDIRECTING = { ...FACTS, redirectAllDefault: true };
const rules = createRules(openNative());

function serviceSets(...texts: readonly string[]): MeshSets {
  const vip = texts.map(makeIp);
  return { tcp: vip.flatMap((address) => [9000, 18082].map((port) => ({ address, port }))), vip, shim: vip.slice(1) };
}

const SETS = serviceSets('10.254.0.5', '10.254.0.6', 'fd0a:e7e0::5', 'fd0a:e7e0::6');

interface Node {
  readonly netns: readonly TestNetns[];
  readonly pods: readonly AgentPod[];
  /** A new agent's tables; `calls` is what it told the kernel. */
  boot(): { readonly tables: PodTables; readonly calls: string[]; readonly log: RecordingLog };
  /** What of the pods' tables is not as planned. */
  differences(tables: PodTables): Promise<readonly string[]>;
}

// The second pod has exclusions, the third is scoped.
const ANNOTATIONS = [
  {},
  { 'capture.aether.io/exclude-outbound-ports': '25,8000-8100' },
  { 'capture.aether.io/redirect-all': 'false' },
];

async function makeNode(t: Test): Promise<Node> {
  const netns = ANNOTATIONS.map(() => makeNetns(t, 'tdiff'));
  const pods = netns.map(({ path }, index) => {
    const request = podRequest(new TestKernel(), `demo/p-${index}`, {
      ip: `10.1.2.${index + 3}`,
      annotations: ANNOTATIONS[index] ?? {},
    });
    const record = recordOfRequest({ ...request, networkNamespace: path });
    const parsed = record === undefined ? undefined : parseAgentPod(record, REDIRECTING);
    if (parsed?.kind !== 'value') throw new Error(JSON.stringify(parsed));
    return parsed.value;
  });
  const indexOf = (path: string): number => netns.findIndex((one) => one.path === path);
  const boot: Node['boot'] = () => {
    const calls: string[] = [];
    const log = new RecordingLog();
    const tables: MeshTables = {
      readTable: (path, planned) => rules.readTable(path, planned),
      destroyTable: (path, name) => rules.destroyTable(path, name),
      replaceTable: (path, table) => {
        calls.push(`table ${indexOf(path)}`);
        return rules.replaceTable(path, table);
      },
      changeElements: (paths, change) => {
        calls.push(`elements ${paths.map(indexOf).join(' ')}`);
        return rules.changeElements(paths, change);
      },
    };
    const options = { unanswered: [], clock: new TestClock(), log, onBroken: () => {} };
    return { tables: new PodTables({ tables, ...options }), calls, log };
  };
  const differences: Node['differences'] = async (tables) => {
    const all = pods.map(async (pod) => {
      const plan = tables.plan(pod);
      return compareTable(plan, await rules.readTable(pod.netns, plan)).map(formatDifference);
    });
    return (await Promise.all(all)).flat();
  };
  const first = boot();
  await first.tables.addAll(pods, SETS);
  await first.tables.change(SETS);
  return { netns, pods, boot, differences };
}

t.test('addAll() on a node without tables makes them, and waits with the elements', async (t) => {
  const netns = makeNetns(t, 'tdiff');
  const node = await makeNode(t);
  for (const one of node.netns) nftIn(one, 'delete', 'table', 'inet', 'aether_mesh');
  const { tables, calls } = node.boot();
  await tables.addAll(node.pods, SETS);
  t.strictSame([...calls].sort(), ['table 0', 'table 1', 'table 2']);
  t.strictSame(tables.sets, { tcp: [], vip: [], shim: [] }, 'Envoy may have no cluster yet');
  t.strictSame(await node.differences(tables), []);
  await tables.change(SETS);
  t.strictSame(await node.differences(tables), []);
  t.notMatch(nftIn(netns, 'list', 'ruleset'), /aether/, 'and nothing elsewhere');
});

const table = 'inet aether_mesh';
const TAMPERING: readonly { readonly name: string; readonly nft: string; readonly calls: readonly string[] }[] = [
  { name: 'nothing', nft: '', calls: [] },
  {
    name: 'an element taken out',
    nft: `delete element ${table} mesh_tcp4 { 10.254.0.5 . 9000 }`,
    calls: ['elements 0'],
  },
  { name: 'an element put in', nft: `add element ${table} mesh_tcp6 { fd00::1 . 22 }`, calls: ['elements 0'] },
  {
    name: 'elements taken out and put in',
    nft: [
      `delete element ${table} mesh_vip6 { fd0a:e7e0::5 }`,
      `add element ${table} mesh_vip4 { 192.0.2.1, 192.0.2.2 }`,
      `flush set ${table} mesh_shim4`,
    ].join('\n'),
    calls: ['elements 0'],
  },
  { name: 'a rule put in', nft: `insert rule ${table} output tcp dport 9000 accept`, calls: ['table 0'] },
  { name: 'all rules taken out', nft: `flush chain ${table} output`, calls: ['table 0'] },
  { name: 'a set of somebody else', nft: `add set ${table} other { type mark; }`, calls: ['table 0'] },
  { name: 'the table asleep', nft: `add table ${table} { flags dormant; }`, calls: ['table 0'] },
  { name: 'the table gone', nft: `delete table ${table}`, calls: ['table 0'] },
];

for (const { name, nft, calls: wanted } of TAMPERING) {
  t.test(`addAll() mends ${name} in that pod, and touches no other`, async (t) => {
    const node = await makeNode(t);
    const [first] = node.netns;
    if (first !== undefined) execIn(first, ['nft', '-f', '-'], { input: `${nft}\n` });
    const { tables, calls, log } = node.boot();
    await tables.addAll(node.pods, SETS);
    t.strictSame(calls, wanted);
    t.equal(tables.sets, SETS);
    t.strictSame(await node.differences(tables), []);
    t.strictSame(
      log.entries.filter(({ level }) => level === 'error'),
      [],
    );
  });
}

t.test('addAll() mends exclusions that are not the pod’s', async (t) => {
  const node = await makeNode(t);
  const [, second] = node.netns;
  if (second !== undefined) nftIn(second, 'add', 'element', ...table.split(' '), 'exclude_ports', '{ 9000 }');
  const { tables, calls } = node.boot();
  await tables.addAll(node.pods, SETS);
  t.strictSame(calls, ['table 1']);
  t.strictSame(await node.differences(tables), []);
});

t.test(
  'addAll() after a change of the services takes away at once, and puts in what Envoy has to have first later',
  async (t) => {
    const node = await makeNode(t);
    const { tables, calls } = node.boot();
    const now = serviceSets('10.254.0.6', '10.254.0.7', 'fd0a:e7e0::6');
    await tables.addAll(node.pods, now);
    t.strictSame([...calls].sort(), ['elements 0', 'elements 1', 'elements 2']);
    t.strictSame(
      tables.sets.vip.map(({ text }) => text),
      ['10.254.0.6', 'fd0a:e7e0::6'],
      'what went is gone, what is new is not there',
    );
    t.strictSame(await node.differences(tables), []);
    await tables.change(now);
    t.strictSame(await node.differences(tables), []);
  },
);

t.test('addAll() gives the others of a node what one of them has: its agent was killed in between', async (t) => {
  const node = await makeNode(t);
  for (const one of node.netns.slice(1))
    nftIn(one, 'delete', 'element', ...table.split(' '), 'mesh_vip4', '{ 10.254.0.5 }');
  const { tables, calls } = node.boot();
  await tables.addAll(node.pods, SETS);
  t.strictSame([...calls].sort(), ['elements 1', 'elements 2']);
  t.equal(tables.sets, SETS);
  t.strictSame(await node.differences(tables), []);
});

t.test('addAll() goes on past a namespace that is gone', async (t) => {
  const node = await makeNode(t);
  const [first, second] = node.netns;
  if (first !== undefined) execIn(first, ['ip', 'netns', 'del', first.name]);
  if (second !== undefined) nftIn(second, 'flush', 'set', ...table.split(' '), 'mesh_tcp4');
  const { tables, calls, log } = node.boot();
  await tables.addAll(node.pods, SETS);
  t.ok(calls.includes('elements 1'));
  t.equal(tables.brokenCount, 0, 'its DEL will come');
  t.ok(log.has('agent.tables.settled'));
});
