// DEL: always exit 0 and empty stdout, whatever is missing or fails; repeatable; the removal is never lost.
import t from 'tap';
import { AgentError, KernelError, StoreError } from '../../src/core/errors.ts';
import { type Effect, FakePluginNode } from '../support/fake-plugin-node.ts';
import { callPlugin, type PluginCall } from '../support/plugin-call.ts';

const EMPTY = { pins: [], tables: [], records: [], queue: [], notes: [] };

async function added(): Promise<FakePluginNode> {
  const node = new FakePluginNode();
  await callPlugin(node, 'ADD');
  node.calls.length = 0;
  return node;
}

const CALLS: readonly { readonly name: string; readonly call: PluginCall; readonly stderr?: RegExp }[] = [
  { name: 'a complete call', call: {} },
  {
    name: 'no namespace and no prevResult, as the second DEL',
    call: { env: { CNI_NETNS: '' }, config: { prevResult: undefined } },
  },
  { name: 'no arguments', call: { env: { CNI_ARGS: undefined } } },
  { name: 'arguments that are none', call: { env: { CNI_ARGS: 'rubbish' } }, stderr: /CNI_ARGS/ },
  { name: 'no interface', call: { env: { CNI_IFNAME: undefined } } },
  { name: 'a namespace path that is none', call: { env: { CNI_NETNS: 'x' } }, stderr: /CNI_NETNS/ },
  { name: 'version 9.9.9 (K012)', call: { config: { cniVersion: '9.9.9' } } },
  { name: 'no version (K007)', call: { config: { cniVersion: undefined } } },
  {
    name: 'wrong types everywhere (K030)',
    call: { config: { log_level: 1, agent_cni_path: [], prevResult: 'x' } },
    stderr: /log_level/,
  },
];
for (const { name, call, stderr = /^$/ } of CALLS) {
  t.test(`deleteAttachment() works with ${name}`, async (t) => {
    const node = await added();
    const answer = await callPlugin(node, 'DEL', call);
    t.match(answer, { stdout: '', exitCode: 0, stderr });
    t.strictSame(node.state, EMPTY);
  });
}

t.test('deleteAttachment() works with stdin that is no JSON', async (t) => {
  for (const stdin of ['', '{', '[]', '\u0000']) {
    const node = await added();
    const answer = await callPlugin(node, 'DEL', { stdin });
    t.match(answer, { stdout: '', exitCode: 0, stderr: /DEL goes on with defaults/ });
    t.strictSame(node.state['records'], [], 'the agent is told');
    t.strictSame(node.state['tables'], [], 'the rules are gone');
  }
});

t.test(
  'deleteAttachment() of a container that was refused leaves the rules of the one that has its namespace',
  async (t) => {
    const node = await added();
    const before = node.state;
    const second = { env: { CNI_CONTAINERID: 'c2' } };
    node.failures.set('addPod', new AgentError('rejected', 'adding the pod: its network namespace is that of c1'));
    t.equal((await callPlugin(node, 'ADD', second)).exitCode, 1);
    t.strictSame(await callPlugin(node, 'DEL', second), { stdout: '', stderr: '', exitCode: 0 });
    t.strictSame(node.state, before);
    await callPlugin(node, 'DEL');
    t.strictSame(node.state, EMPTY);
  },
);

t.test('deleteAttachment() takes rules without a note, also beside the pin of one that is gone', async (t) => {
  const node = await added();
  node.notes.clear();
  node.pins.set('/pins/c0', '/run/netns/a');
  await callPlugin(node, 'DEL');
  t.strictSame(node.state, { ...EMPTY, pins: ['/pins/c0'] });
});

t.test('deleteAttachment() leaves a container alone that was given the path of the one before', async (t) => {
  const node = await added();
  // The namespace is another now; the pin holds the old one.
  node.pins.set('/pins/c1', '/run/netns/b');
  node.tables.set('/run/netns/b aether', '');
  await callPlugin(node, 'DEL');
  t.strictSame(node.state, { ...EMPTY, tables: ['/run/netns/a aether'] });
});

t.test('deleteAttachment() goes by the pin where the path of the runtime leads nowhere any more', async (t) => {
  const node = await added();
  t.equal(node.tables.size, 1);
  const answer = await callPlugin(node, 'DEL', { env: { CNI_NETNS: '/run/netns/gone' } });
  t.strictSame(answer, { stdout: '', stderr: '', exitCode: 0 });
  t.strictSame(node.state, EMPTY);
});

t.test('deleteAttachment() gets on without a namespace that lives', async (t) => {
  for (const netns of ['/run/netns/gone', '/proc/1/ns/net', '/etc/passwd']) {
    const node = await added();
    node.tables.clear();
    const answer = await callPlugin(node, 'DEL', { env: { CNI_NETNS: netns } });
    t.strictSame(answer, { stdout: '', stderr: '', exitCode: 0 }, netns);
    t.strictSame(node.state, EMPTY);
  }
});

t.test('deleteAttachment() without pins leaves the rules of whose namespace it is', async (t) => {
  const node = new FakePluginNode();
  const config = { netns_pin_disabled: true };
  await callPlugin(node, 'ADD', { config });
  const { state } = node;
  await callPlugin(node, 'DEL', { config, env: { CNI_CONTAINERID: 'refused' } });
  t.strictSame(node.state, state);
  await callPlugin(node, 'DEL', { config });
  t.strictSame(node.state, EMPTY);
});

t.test('deleteAttachment() is repeatable, and fine before any ADD (K033)', async (t) => {
  const node = new FakePluginNode();
  for (let round = 0; round < 3; round++) {
    t.strictSame(await callPlugin(node, 'DEL'), { stdout: '', stderr: '', exitCode: 0 });
    t.strictSame(node.state, EMPTY);
  }
});

t.test('deleteAttachment() queues the removal while the agent is away (K026)', async (t) => {
  for (const problem of ['unavailable', 'rejected', 'failed'] as const) {
    const node = await added();
    node.failures.set('removePod', new AgentError(problem, 'x: y'));
    t.strictSame(await callPlugin(node, 'DEL'), { stdout: '', stderr: '', exitCode: 0 });
    t.strictSame(node.state, { ...EMPTY, records: ['c1'], queue: ['/queue/c1'] });
    t.equal(node.queue.get('/queue/c1'), 'demo/shop-0');
  }
});

t.test('deleteAttachment() fills what the runtime did not give', async (t) => {
  const node = await added();
  node.failures.set('removePod', new AgentError('unavailable', 'x: y'));
  await callPlugin(node, 'DEL', { env: { CNI_ARGS: '' } });
  t.equal(node.queue.get('/queue/c1'), '-/-');
});

t.test('deleteAttachment() with a delay leaves the pin to the agent', async (t) => {
  const node = await added();
  const answer = await callPlugin(node, 'DEL', { config: { netns_unpin_delay_seconds: 10 } });
  t.strictSame(answer, { stdout: '', stderr: '', exitCode: 0 });
  t.strictSame(node.state, { ...EMPTY, pins: ['/pins/c1'], queue: ['/queue/c1'] });
  t.strictSame(await callPlugin(node, 'DEL', { config: { netns_unpin_delay_seconds: -1 } }), answer, 'none at all');
  t.strictSame(node.state['pins'], []);
});

t.test('deleteAttachment() tells an agent that is away where its table may be', async (t) => {
  const node = await added();
  node.failures.set('removePod', new AgentError('unavailable', 'x: y'));
  await callPlugin(node, 'DEL');
  t.strictSame([...node.queuedPaths], [['c1', '/run/netns/a']]);
});

t.test('deleteAttachment() with a delay tells an agent that is away how long the pin stays', async (t) => {
  const node = await added();
  node.failures.set('removePod', new AgentError('unavailable', 'x: y'));
  const soonest = Date.now() + 10_000;
  await callPlugin(node, 'DEL', { config: { netns_unpin_delay_seconds: 10 } });
  t.strictSame(node.state['pins'], ['/pins/c1']);
  const time = node.unpinTimes.get('c1')?.getTime() ?? 0;
  t.ok(time >= soonest && time <= Date.now() + 10_000, String(time));
});

// The plugin's table and the agent's.
const STEPS: readonly Effect[] = ['find', 'removePod', 'enqueue', 'destroyTable', 'destroyTable', 'unpin', 'release'];
for (const step of new Set(STEPS)) {
  for (const error of [new KernelError('x: y', 1, 'EPERM'), new StoreError('x: y'), 'a text', undefined]) {
    t.test(`deleteAttachment() goes on after ${step} fails with ${String(error)}`, async (t) => {
      const node = await added();
      node.failures.set(step, error);
      if (step === 'enqueue') node.failures.set('removePod', new AgentError('unavailable', 'x: y'));
      const answer = await callPlugin(node, 'DEL');
      t.match(answer, { stdout: '', exitCode: 0 });
      const taken = step === 'enqueue' ? STEPS : STEPS.filter((name) => name !== 'enqueue' || step === 'removePod');
      // By the runtime's path, then by the pin.
      const wanted = taken.flatMap((name) => (name === 'destroyTable' && step === name ? [name, name] : [name]));
      t.strictSame(node.calls, wanted);
    });
  }
}

t.test('deleteAttachment() of another interface changes nothing', async (t) => {
  const node = await added();
  const before = node.state;
  t.strictSame(await callPlugin(node, 'DEL', { env: { CNI_IFNAME: 'net1' } }), { stdout: '', stderr: '', exitCode: 0 });
  t.strictSame(node.state, before);
  t.strictSame(node.calls, ['find']);
});

t.test('deleteAttachment() has nothing to do for an excluded namespace', async (t) => {
  const node = new FakePluginNode();
  const env = { CNI_ARGS: 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=x' };
  await callPlugin(node, 'DEL', { env });
  t.strictSame(node.calls, ['find']);
});

t.test('deleteAttachment() removes a pod whose namespace was excluded after its ADD (K030)', async (t) => {
  const node = await added();
  await callPlugin(node, 'DEL', { config: { excluded_namespaces: ['demo'] } });
  t.strictSame(node.state, EMPTY);
});

t.test('deleteAttachment() without a usable container id says so and ends well', async (t) => {
  for (const id of [undefined, '', '../x']) {
    const node = await added();
    const answer = await callPlugin(node, 'DEL', { env: { CNI_CONTAINERID: id } });
    t.match(answer, { stdout: '', exitCode: 0, stderr: /CNI_CONTAINERID/ });
    t.strictSame(node.calls, []);
  }
});
