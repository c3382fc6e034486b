// A whole agent in the single form, on a test node: it writes no table, removes those that the split form left, and goes
// on where the kernel does not let it.
import t from 'tap';
import { startAgent } from '../../src/agent/start-up.ts';
import { KernelError } from '../../src/core/errors.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;
const SHOP_PORTS = { 'endpoint.aether.io/ports': '8080,9000=tcp' };
const NODE = { meshDomain: 'aether.internal', trustDomain: 'aether.internal', identity: 'mtls' } as const;

t.test('an agent of the single form takes away what one of the split form left, and writes nothing', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { kernel } = world;
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS });
  const split = await world.boot();
  await startAgent(split.agent);
  await split.life.addPod(request, OPTIONS);
  t.equal(kernel.tables.size, 1);

  const single = await world.boot({ node: { ...NODE, captureForm: 'single' } });
  await startAgent(single.agent);
  t.equal(kernel.tables.size, 0);
  kernel.events.length = 0;
  const more = podRequest(kernel, 'demo/db-0', { ip: '10.1.2.4', annotations: SHOP_PORTS });
  t.match(await single.life.addPod(more, OPTIONS), { kind: 'success' });
  await single.life.removePod(more);
  t.notOk(kernel.events.some((event) => event.startsWith('table ') || event.startsWith('elements')));
  t.ok(single.envoy.snapshot?.resources.cluster.has('tcp:shop.demo.aether.internal:9000'));
});

t.test('an agent of the single form does not mind a kernel that lets it do nothing', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { life, agent } = await world.boot({ node: { ...NODE, captureForm: 'single' } });
  await startAgent(agent);
  world.kernel.destroyTable = async () => {
    throw new KernelError('removing a table: not permitted', 1, 'EPERM');
  };
  const request = podRequest(world.kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS });
  t.match(await life.addPod(request, OPTIONS), { kind: 'success' });
  t.equal(agent.tables.brokenCount, 0);
  await life.removePod(request);
});
