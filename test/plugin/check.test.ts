// CHECK: passes on what ADD left, names every difference, never crashes on a thin configuration.
import t from 'tap';
import type { KernelTable } from '../../src/nft/kernel-table.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { callPlugin, errorOf, type PluginCall } from '../support/plugin-call.ts';

const KEY = '/run/netns/a aether';

async function added(call: PluginCall = {}): Promise<FakePluginNode> {
  const node = new FakePluginNode();
  t.equal((await callPlugin(node, 'ADD', call)).exitCode, 0);
  node.calls.length = 0;
  return node;
}

function changeKernel(node: FakePluginNode, change: (table: KernelTable) => KernelTable): void {
  const table = node.kernel.get(KEY);
  if (table === undefined) throw new Error('no table');
  node.kernel.set(KEY, change(table));
}

t.test('checkAttachment() passes on what ADD left, and changes nothing', async (t) => {
  const node = await added();
  const before = node.state;
  t.strictSame(await callPlugin(node, 'CHECK'), { stdout: '', stderr: '', exitCode: 0 });
  t.strictSame(node.state, before);
});

t.test('checkAttachment() takes the annotations of the record where the runtime gives none (K021)', async (t) => {
  const annotations = { 'aether.io/managed': 'true', 'capture.aether.io/redirect-all': 'true' };
  const node = await added({ annotations });
  t.match(await callPlugin(node, 'CHECK', { config: { runtimeConfig: undefined } }), { exitCode: 0, stdout: '' });
});

const CHANGES: readonly {
  readonly name: string;
  readonly change: (node: FakePluginNode) => void;
  readonly msg: RegExp;
}[] = [
  { name: 'no table', change: (node) => node.kernel.clear(), msg: /missing table inet aether/ },
  {
    name: 'a dormant table',
    change: (node) => changeKernel(node, (table) => ({ ...table, isDormant: true })),
    msg: /dormant/,
  },
  {
    name: 'one rule less',
    change: (node) =>
      changeKernel(node, (table) => ({
        ...table,
        chains: table.chains.map((chain) => ({ ...chain, rules: chain.rules.slice(0, -1) })),
      })),
    msg: /missing rule/,
  },
  {
    name: 'one rule more (K033)',
    change: (node) =>
      changeKernel(node, (table) => ({
        ...table,
        chains: table.chains.map((chain) => ({ ...chain, rules: [...chain.rules, ...chain.rules.slice(0, 1)] })),
      })),
    msg: /extra rule/,
  },
  {
    name: 'no record',
    change: (node) => node.records.clear(),
    msg: /the agent has no record/,
  },
  {
    name: 'the record of another pod',
    change: (node) => {
      for (const [id, record] of node.records) node.records.set(id, { ...record, name: 'other' });
    },
    msg: /its pod is "other"/,
  },
];
for (const { name, change, msg } of CHANGES) {
  t.test(`checkAttachment() finds ${name}`, async (t) => {
    const node = await added();
    change(node);
    t.match(errorOf(await callPlugin(node, 'CHECK')), { code: 106, msg });
  });
}

t.test('checkAttachment() finds what was done to the agent’s table, in the agent’s words', async (t) => {
  const node = await added();
  node.tableDifferences = ['extra rule 1 of chain "output": "accept"'];
  const msg = /table inet aether_mesh: extra rule 1 of chain "output": "accept"$/;
  t.match(errorOf(await callPlugin(node, 'CHECK')), { code: 106, msg });
});

t.test('checkAttachment() only warns of what passes', async (t) => {
  const node = await added();
  node.problems = ['the registry does not have it under all of its protocols'];
  const stderr = 'aether-cni: CHECK: the registry does not have it under all of its protocols\n';
  t.strictSame(await callPlugin(node, 'CHECK'), { stdout: '', stderr, exitCode: 0 });
});

t.test('checkAttachment() names all differences at once', async (t) => {
  const node = await added();
  node.kernel.clear();
  node.records.clear();
  t.match(errorOf(await callPlugin(node, 'CHECK')).msg, /no record.*; rules: missing table/);
});

t.test('checkAttachment() passes a pod that is none of the mesh', async (t) => {
  const node = new FakePluginNode();
  const thin = { runtimeConfig: undefined, prevResult: undefined };
  t.match(await callPlugin(node, 'CHECK', { config: thin }), { exitCode: 0 });
  t.match(await callPlugin(node, 'CHECK', { env: { CNI_ARGS: '' } }), { exitCode: 0 });
  t.match(
    errorOf(await callPlugin(node, 'CHECK')),
    { code: 106, msg: /no record/ },
    'one that wants to be managed fails',
  );
});

t.test('checkAttachment() passes for another interface of the container', async (t) => {
  const node = await added();
  t.match(await callPlugin(node, 'CHECK', { env: { CNI_IFNAME: 'net1' } }), { exitCode: 0 });
});

t.test('checkAttachment() says that an agent without an admin socket cannot be asked', async (t) => {
  const node = await added();
  node.hasAdmin = false;
  t.match(await callPlugin(node, 'CHECK'), { exitCode: 0, stderr: /cannot be asked/ });
  node.kernel.clear();
  t.match(errorOf(await callPlugin(node, 'CHECK')), { code: 106 });
});

t.test('checkAttachment() refuses a vanished namespace', async (t) => {
  const node = await added();
  t.equal(errorOf(await callPlugin(node, 'CHECK', { env: { CNI_NETNS: '/run/netns/gone' } })).code, 3);
});
