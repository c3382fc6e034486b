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
