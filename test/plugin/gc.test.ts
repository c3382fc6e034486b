// GC: what is in no list goes, what is in it or of another network stays, no list means nothing.
import t from 'tap';
import { AgentError, KernelError } from '../../src/core/errors.ts';
import type { ContainerId } from '../../src/core/identifiers.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { callPlugin, errorOf } from '../support/plugin-call.ts';

async function withThree(): Promise<FakePluginNode> {
  const node = new FakePluginNode();
  for (const [id, name] of [
    ['c1', 'net'],
    ['c2', 'net'],
    ['c3', 'other'],
  ] as const) {
    await callPlugin(node, 'ADD', { env: { CNI_CONTAINERID: id }, config: { name } });
  }
  node.calls.length = 0;
  return node;
}
const VALID = 'cni.dev/valid-attachments';
const left = (node: FakePluginNode) => [...node.pins.keys(), ...node.notes.keys()];

t.test('collectGarbage() keeps what is valid and what is of another network', async (t) => {
  const node = await withThree();
  const answer = await callPlugin(node, 'GC', { config: { [VALID]: [{ containerID: 'c1', ifname: 'eth0' }] } });
  t.strictSame(answer, { stdout: '', stderr: '', exitCode: 0 });
  t.strictSame(left(node), ['/pins/c1', '/pins/c3', 'c1', 'c3']);
  t.strictSame(node.collected, [['c1', 'c3']], 'the agent is told of both');
  t.notOk(node.calls.includes('removePod'), 'the agent has done it');
});

t.test(
  'collectGarbage() leaves the rules in a namespace that a stale pin shares with a container that stays',
  async (t) => {
    const node = new FakePluginNode();
    await callPlugin(node, 'ADD');
    const before = node.state;
    const containerId = 'c2' as ContainerId;
    node.notes.set(containerId, { containerId, ifname: 'eth0', network: 'net' });
    node.pins.set('/pins/c2', '/run/netns/a');
    await callPlugin(node, 'GC', { config: { [VALID]: [{ containerID: 'c1', ifname: 'eth0' }] } });
    t.strictSame(node.state, before);
    await callPlugin(node, 'GC', { config: { [VALID]: [] } });
    t.strictSame(node.state['tables'], []);
  },
);

t.test('collectGarbage() removes a note that a crash kept from being written', async (t) => {
  const node = await withThree();
  const containerId = 'c4' as ContainerId;
  node.notes.set(containerId, { containerId, ifname: '', network: '' });
  await callPlugin(node, 'GC', { config: { [VALID]: [{ containerID: 'c1', ifname: 'eth0' }] } });
  t.strictSame([...node.notes.keys()], ['c1', 'c3']);
});

t.test('collectGarbage() takes the rules out of a namespace that its pin still reaches', async (t) => {
  const node = new FakePluginNode();
  for (const [id, netns] of [
    ['c1', '/run/netns/a'],
    ['c2', '/run/netns/b'],
  ] as const) {
    await callPlugin(node, 'ADD', { env: { CNI_CONTAINERID: id, CNI_NETNS: netns } });
  }
  const [first, second] = [...node.tables.keys()];
  t.match([first, second], [/^\/run\/netns\/a /, /^\/run\/netns\/b /]);
  await callPlugin(node, 'GC', { config: { [VALID]: [{ containerID: 'c1', ifname: 'eth0' }] } });
  t.strictSame([...node.tables.keys()], [first]);
});

t.test('collectGarbage() with an empty list removes all of the network', async (t) => {
  const node = await withThree();
  await callPlugin(node, 'GC', { config: { [VALID]: [] } });
  t.strictSame(left(node), ['/pins/c3', 'c3']);
});

t.test('collectGarbage() without a list removes nothing and says so', async (t) => {
  const node = await withThree();
  const answer = await callPlugin(node, 'GC');
  t.match(answer, { stdout: '', exitCode: 0, stderr: /no list of valid attachments/ });
  t.equal(left(node).length, 6);
  t.strictSame(node.calls, []);
});

t.test('collectGarbage() refuses a list with an entry that it cannot read', async (t) => {
  const node = await withThree();
  t.equal(errorOf(await callPlugin(node, 'GC', { config: { [VALID]: [{ containerID: '../x' }] } })).code, 7);
  t.strictSame(node.calls, []);
});

t.test('collectGarbage() removes pod by pod where the agent cannot collect', async (t) => {
  const node = await withThree();
  node.hasAdmin = false;
  await callPlugin(node, 'GC', { config: { [VALID]: [{ containerID: 'c1' }] } });
  t.strictSame([...node.records.keys()], ['c1', 'c3']);
  t.strictSame(left(node), ['/pins/c1', '/pins/c3', 'c1', 'c3']);
});

t.test('collectGarbage() queues removals while the agent is away, and reports it', async (t) => {
  const node = await withThree();
  node.failures.set('collect', new AgentError('unavailable', 'collecting: away'));
  node.failures.set('removePod', new AgentError('unavailable', 'x: y'));
  const answer = await callPlugin(node, 'GC', { config: { [VALID]: [] } });
  t.match(errorOf(answer), { code: 11, msg: /away/ });
  t.strictSame([...node.queue.keys()], ['/queue/c1', '/queue/c2']);
  t.strictSame(left(node), ['/pins/c3', 'c3']);
});

t.test('collectGarbage() goes on after errors', async (t) => {
  const node = await withThree();
  node.failures.set('unpin', new KernelError('unpinning: y', 16, 'EBUSY'));
  const answer = await callPlugin(node, 'GC', { config: { [VALID]: [] } });
  t.match(errorOf(answer), { code: 102, msg: /unpinning: y; unpinning: y/ });
  t.strictSame([...node.notes.keys()], ['c3']);
});
