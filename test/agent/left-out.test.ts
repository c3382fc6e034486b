// One bad service or pod, and a node that goes on without it.
import t, { type Test } from 'tap';
import { readNodeStatus } from '../../src/agent/node-status.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';
import { makeEndpoint } from '../support/services.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;
const LONG = { namespace: 'demo', serviceAccount: 'a'.repeat(300) };

async function start(t: Test): Promise<World & Booted> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const booted = await world.boot();
  await startAgent(booted.agent);
  return { ...world, ...booted };
}

const settle = async ({ agent }: Booted): Promise<void> => {
  await new Promise(setImmediate);
  await agent.runner.idle();
};

t.test('a service of 300 bytes in the registry is left out alone, said once, and shown', async (t) => {
  const node = await start(t);
  const { agent, life, registry, envoy, log, kernel } = node;
  await life.addPod(podRequest(kernel, 'demo/client-0', { ip: '10.1.2.8' }), OPTIONS);
  await registry.registerEndpoint(
    LONG,
    'http',
    makeEndpoint({ ip: '10.1.2.9', primary: 8080, ports: { 8080: 'http' } }),
  );
  await settle(node);
  const added = await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  t.match(added, { kind: 'success' }, 'a pod that comes later is taken');
  t.ok(envoy.snapshot?.resources.cluster.has('shop.demo.aether.internal'));
  t.notOk([...(envoy.snapshot?.resources.cluster.keys() ?? [])].some((name) => name.startsWith('aaaa')));
  t.match(agent.leftOut, [{ kind: 'service', name: `demo/${LONG.serviceAccount}` }]);
  t.strictSame(agent.refused, []);
  const status = readNodeStatus(agent);
  t.equal(status.ready, true);
  t.ok(status.problems.some((problem) => problem.startsWith('service demo/aaaa')));
  t.equal(log.entries.filter(({ event }) => event === 'agent.service.left_out').length, 1);

  await registry.unregisterEndpoint(LONG, '10.1.2.9');
  await settle(node);
  node.clock.advance(90_000);
  await settle(node);
  t.strictSame(agent.leftOut, []);
  t.ok(log.has('agent.service.taken_in'));
});

t.test('a pod in the namespace of another one is refused, and the other one keeps its listeners', async (t) => {
  const node = await start(t);
  const { life, kernel, envoy, agent } = node;
  await life.addPod(podRequest(kernel, 'demo/zoo-0', { ip: '10.1.2.3' }), OPTIONS);
  const request = { ...podRequest(kernel, 'demo/a-0', { ip: '10.1.2.4' }), networkNamespace: '/run/netns/c-zoo-0' };
  await t.rejects(life.addPod(request, OPTIONS), {
    message: /adding the pod: its network namespace .* is that of demo\/zoo-0/,
  });
  await settle(node);
  t.ok(envoy.snapshot?.resources.listener.has('capture_demo_zoo-0'));
  t.notOk(envoy.snapshot?.resources.listener.has('capture_demo_a-0'));
  t.strictSame(agent.leftOut, []);
  t.match(await life.addPod(podRequest(kernel, 'demo/b-0', { ip: '10.1.2.5' }), OPTIONS), { kind: 'success' });
});
