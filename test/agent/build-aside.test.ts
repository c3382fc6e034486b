// Building for many services at once leaves room for whoever asks meanwhile. Measured in time of the processor, which
// others on the machine do not spend.
import t from 'tap';
import { startAgent } from '../../src/agent/start-up.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';
import { makeEndpoint } from '../support/services.ts';

const SERVICES = 300;

/** Watches the turns of the event loop until told to end; gives the longest and the sum, in microseconds. */
function watchTurns(): () => { readonly longest: number; readonly total: number } {
  const spent = (): number => {
    const { user, system } = process.threadCpuUsage();
    return user + system;
  };
  const start = spent();
  let last = start;
  let longest = 0;
  let isOver = false;
  const turn = (): void => {
    const now = spent();
    longest = Math.max(longest, now - last);
    last = now;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  return () => {
    isOver = true;
    turn();
    return { longest, total: last - start };
  };
}

t.test('an agent that builds 300 services anew lets others come in between', async (t) => {
  await using world = await makeWorld();
  const { agent, life, registry, envoy } = await world.boot();
  await startAgent(agent);
  await life.addPod(podRequest(world.kernel, 'demo/client-0', { ip: '10.1.2.8' }), {
    timeoutMs: 5000,
    proxyReady: 'wait',
  });
  const ports = { 8080: 'http', 9000: 'tcp' } as const;
  for (let n = 0; n < SERVICES; n++) {
    const key = { namespace: 'demo', serviceAccount: `shop-${n}` };
    const ip = `10.2.${n >> 8}.${n & 255}`;
    await registry.registerEndpoint(key, 'http', makeEndpoint({ ip, primary: 8080, ports }));
  }
  const end = watchTurns();
  while ((envoy.snapshot?.resources.cluster.size ?? 0) < SERVICES) {
    await new Promise(setImmediate);
    await agent.runner.idle();
  }
  const { longest, total } = end();
  t.ok(longest < total / 2, `of ${Math.round(total / 1000)} ms the longest turn took ${Math.round(longest / 1000)}`);
});
