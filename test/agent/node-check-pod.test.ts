// What the agent's check says about one pod's health; test/agent/node-check.test.ts has the rest.
import t from 'tap';
import { checkPod } from '../../src/agent/node-check-pod.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';

t.test('checkPod() blames an application for its silence only while there is an Envoy that asks it', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { agent, life, envoy } = await world.boot({}, { health: { ask: () => Promise.resolve(503) } });
  await startAgent(agent);
  await life.addPod(podRequest(world.kernel, 'demo/web-0', { ip: '10.1.2.4' }), {
    timeoutMs: 5000,
    proxyReady: 'skip',
  });
  const [pod] = agent.listPods();
  if (pod === undefined) throw new Error('no pod');
  const listAreas = async (): Promise<readonly string[]> => {
    const findings = await checkPod(agent, pod, { rules: world.kernel, timeoutMs: 2000 });
    return findings.map(({ status, area }) => `${status} ${area}`);
  };
  t.strictSame(await listAreas(), ['ok rules', 'ok registry', 'warn health', 'ok proxy']);
  envoy.streams = 0;
  t.strictSame(await listAreas(), ['ok rules', 'ok registry']);
});

t.test('checkPod() speaks of the health path only where the primary port is HTTP', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { agent, life } = await world.boot({}, { health: { ask: () => Promise.resolve(503) } });
  await startAgent(agent);
  const tcp = { 'endpoint.aether.io/protocol': 'tcp', 'aether.io/managed': 'true' };
  const options = { timeoutMs: 5000, proxyReady: 'skip' } as const;
  await life.addPod(podRequest(world.kernel, 'demo/web-0', { ip: '10.1.2.4' }), options);
  await life.addPod(podRequest(world.kernel, 'demo/db-0', { ip: '10.1.2.5', annotations: tcp }), options);
  const remedies = await Promise.all(
    agent.listPods().map(async (pod) => {
      const findings = await checkPod(agent, pod, { rules: world.kernel, timeoutMs: 2000 });
      return findings.find(({ area }) => area === 'health')?.remedy ?? '';
    }),
  );
  t.match(remedies, [/does the application listen .*health-path/, /does the application listen .*up\?$/]);
});
