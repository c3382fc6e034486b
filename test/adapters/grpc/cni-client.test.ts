// The plugin's client against our real server on a real socket, and against sockets that are absent, dead or silent.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createCniClient } from '../../../src/adapters/grpc/cni-client.ts';
import { openCniServer } from '../../../src/adapters/grpc/cni-server.ts';
import { AgentAbsentError, AgentError } from '../../../src/core/errors.ts';
import type { PodRequest, PodService } from '../../../src/plugin/deps.ts';
import { FakePluginNode } from '../../support/fake-plugin-node.ts';
import { RecordingLog } from '../../support/recording-log.ts';

const dir = mkdtempSync('/tmp/ae-client-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
let count = 0;
const freshPath = (): string => join(dir, `${count++}.sock`);

const containerId = 'c1' as PodRequest['containerId'];
const POD: PodRequest = {
  name: 'shop-0',
  namespace: 'demo',
  containerId,
  networkNamespace: '/run/netns/a',
  ips: ['10.1.2.3'],
  annotations: { 'aether.io/managed': 'true', text: 'ü\n"' },
  uid: 'u-1',
};
const REMOVED = { name: '-', namespace: '-', containerId };

async function serve(t: { teardown(fn: () => unknown): unknown }, socketPath = freshPath()) {
  const node = new FakePluginNode();
  const server = await openCniServer({ socketPath, mode: 0o600, pods: node.deps.pods, log: new RecordingLog() });
  t.teardown(() => server.close());
  return { node, client: createCniClient({ socketPath }) };
}

async function errorOf(promise: Promise<unknown>): Promise<AgentError> {
  const error = await promise.then(
    () => new Error('it succeeded'),
    (thrown: unknown) => thrown,
  );
  if (error instanceof AgentError) return error;
  throw error;
}

t.test('addPod() brings pod, policy, time and warnings across', async (t) => {
  const { node, client } = await serve(t);
  node.warnings = ['the proxy is late'];
  const answer = await client.addPod(POD, { timeoutMs: 3000, proxyReady: 'require' });
  t.strictSame(answer, { kind: 'success', warnings: ['the proxy is late'] });
  const [request] = node.requests;
  t.match(request, { ...POD, proxyReady: 'require' });
  t.ok(request !== undefined && request.timeoutMs > 2000 && request.timeoutMs <= 3000);
});

t.test('K064 addPod() waits, within its time, for an agent that takes 500 ms', async (t) => {
  const socketPath = freshPath();
  const { pods } = new FakePluginNode().deps;
  const slow: PodService = { ...pods, addPod: (...given) => sleep(500).then(() => pods.addPod(...given)) };
  const server = await openCniServer({ socketPath, mode: 0o600, pods: slow, log: new RecordingLog() });
  t.teardown(() => server.close());
  const client = createCniClient({ socketPath });
  t.match(await client.addPod(POD, { timeoutMs: 5000, proxyReady: 'skip' }), { kind: 'success' });
  const error = await errorOf(client.addPod(POD, { timeoutMs: 100, proxyReady: 'skip' }));
  t.match(error, { problem: 'unavailable' }, 'and no longer');
});

t.test('addPod() says when the agent ignores the pod', async (t) => {
  const { client } = await serve(t);
  t.strictSame(await client.addPod({ ...POD, annotations: {} }, { timeoutMs: 3000, proxyReady: 'skip' }), {
    kind: 'ignored',
  });
});

t.test('addPod() does not try a rejection again', async (t) => {
  const { node, client } = await serve(t);
  const annotations = { 'aether.io/managed': 'true', 'endpoint.aether.io/ports': 'x' };
  const error = await errorOf(client.addPod({ ...POD, annotations }, { timeoutMs: 3000, proxyReady: 'skip' }));
  t.match(error, { problem: 'rejected', message: /ports\[0\]/ });
  t.equal(node.requests.length, 1);
});

t.test('addPod() tries again while the agent is not available, and no longer than it may', async (t) => {
  const { node, client } = await serve(t);
  node.failures.set('addPod', new AgentError('unavailable', 'x: it starts'));
  setTimeout(() => node.failures.clear(), 200);
  t.match(await client.addPod(POD, { timeoutMs: 20_000, proxyReady: 'skip' }), { kind: 'success' });
  node.failures.set('addPod', new AgentError('unavailable', 'x: it starts'));
  const start = performance.now();
  const error = await errorOf(client.addPod(POD, { timeoutMs: 1500, proxyReady: 'skip' }));
  t.match(error, { problem: 'unavailable', message: /it starts/ });
  t.notOk(error instanceof AgentAbsentError, 'it has had the request');
  t.ok(performance.now() - start < 10_000);
});

t.test('addPod() meets an agent that starts meanwhile', async (t) => {
  const socketPath = freshPath();
  const pending = createCniClient({ socketPath }).addPod(POD, { timeoutMs: 5000, proxyReady: 'skip' });
  await new Promise((resolve) => setTimeout(resolve, 300));
  await serve(t, socketPath);
  t.match(await pending, { kind: 'success' });
});

t.test('an absent agent has certainly not got the request', async (t) => {
  const file = freshPath();
  writeFileSync(file, '');
  const dead = freshPath();
  const server = createServer().listen(dead);
  await new Promise((resolve) => server.once('listening', resolve));
  // The file of a killed agent: bound, but nobody listens.
  const { renameSync } = await import('node:fs');
  renameSync(dead, `${dead}.kept`);
  await new Promise((resolve) => server.close(resolve));
  for (const socketPath of [join(dir, 'absent.sock'), join(dir, 'no/dir.sock'), file, `${dead}.kept`]) {
    const client = createCniClient({ socketPath });
    const start = performance.now();
    t.type(await errorOf(client.removePod(REMOVED, { timeoutMs: 20_000 })), AgentAbsentError, socketPath);
    t.ok(performance.now() - start < 10_000, 'a removal does not wait (K027)');
    t.type(await errorOf(client.addPod(POD, { timeoutMs: 500, proxyReady: 'skip' })), AgentAbsentError, socketPath);
  }
});

t.test('an agent that never answers costs no more than the time given', async (t) => {
  const socketPath = freshPath();
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((socket) => sockets.add(socket.on('error', () => {}))).listen(socketPath);
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const client = createCniClient({ socketPath });
  for (const call of [
    () => client.removePod(REMOVED, { timeoutMs: 300 }),
    () => client.addPod(POD, { timeoutMs: 300, proxyReady: 'skip' }),
  ]) {
    const start = performance.now();
    t.match(await errorOf(call()), { problem: 'unavailable' });
    t.ok(performance.now() - start < 10_000);
  }
});

t.test('removePod() is fine for an unknown container, and reports failures', async (t) => {
  const { node, client } = await serve(t);
  await client.addPod(POD, { timeoutMs: 3000, proxyReady: 'skip' });
  await client.removePod(REMOVED, { timeoutMs: 1000 });
  await client.removePod(REMOVED, { timeoutMs: 1000 });
  t.equal(node.records.size, 0);
  node.failures.set('removePod', new AgentError('failed', 'removing: broken'));
  t.match(await errorOf(client.removePod(REMOVED, { timeoutMs: 1000 })), { problem: 'failed', message: /broken/ });
});
