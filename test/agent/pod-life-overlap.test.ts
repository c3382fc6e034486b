// What comes between the steps of an ADD: other calls run meanwhile.
import t from 'tap';
import { startAgent } from '../../src/agent/start-up.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;

t.test('addPod() keeps the certificate of an identity whose last other pod goes meanwhile', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { kernel } = world;
  const { life, agent } = await world.boot();
  await startAgent(agent);
  const old = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  await life.addPod(old, OPTIONS);
  const { records } = agent.deps;
  const put = records.put.bind(records);
  records.put = async (record) => {
    await life.removePod(old);
    await put(record);
  };
  const next = podRequest(kernel, 'demo/shop-1', { ip: '10.1.2.4' });
  t.match(await life.addPod(next, OPTIONS), { kind: 'success' });
  t.strictSame(
    agent.certificates?.list().map(({ identity }) => identity),
    ['spiffe://aether.internal/ns/demo/sa/shop'],
  );
});

t.test('calls about one container do not overlap; calls about others do not wait', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { kernel } = world;
  const { life, envoy, agent } = await world.boot();
  await startAgent(agent);
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  envoy.answer = async (names) => {
    if (names.some(({ name }) => name === 'outbound_http_demo_slow-0')) await held;
    return { kind: 'acknowledged' };
  };
  const slow = podRequest(kernel, 'demo/slow-0', { ip: '10.1.2.3' });
  const adding = life.addPod(slow, OPTIONS);
  const quick = podRequest(kernel, 'demo/quick-0', { ip: '10.1.2.4' });
  await life.addPod(quick, OPTIONS);
  const removing = life.removePod(slow);
  // Whole, and asked for later.
  await life.removePod(quick);
  t.ok(agent.findPod('c-slow-0'), 'the removal waits for the ADD');
  t.ok(kernel.tables.has(slow.networkNamespace));
  release();
  t.match(await adding, { kind: 'success' });
  await removing;
  t.equal(agent.findPod('c-slow-0'), undefined);
});
