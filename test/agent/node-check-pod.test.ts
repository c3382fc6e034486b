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
