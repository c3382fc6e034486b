// Pods that lost the plugin's rules are named when the agent comes back, one line each; the kernel's word is the test's.
import t from 'tap';
import { reportBarePods } from '../../src/agent/report-bare-pods.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';

t.test('K059 reportBarePods() names each pod that has none of the plugin’s rules', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { kernel, log } = world;
  const first = await world.boot();
  await startAgent(first.agent);
  for (const [index, name] of ['shop-0', 'bare-0', 'gone-0'].entries()) {
    const request = podRequest(kernel, `demo/${name}`, { ip: `10.1.2.${index + 1}` });
    await first.life.addPod(request, { timeoutMs: 1000, proxyReady: 'skip' });
  }
  const { agent } = await world.boot();
  await startAgent(agent);
  const read = kernel.readTable.bind(kernel);
  kernel.readTable = async (netns, planned) => {
    if (netns.endsWith('gone-0')) throw new Error('no namespace');
    return planned.name === 'aether' && netns.endsWith('bare-0') ? undefined : read(netns, planned);
  };
  await reportBarePods(agent);
  const told = log.entries.filter(({ event }) => event === 'agent.pod.without_rules');
  t.match(told, [{ level: 'error', fields: { pod: 'demo/bare-0', containerId: 'c-bare-0' } }]);
  t.equal(told.length, 1);
});
