// With services on demand the registry tells the agent of what its pods need, and of others no more than what they are.
import t from 'tap';
import { ASKED_RETENTION_MS } from '../../src/agent/demand-scope.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';
import { makeEndpoint } from '../support/services.ts';

const ADD = { timeoutMs: 5000, proxyReady: 'wait' } as const;

t.test('an agent on demand hears of endpoints that its pods need, and of no others', async (t) => {
  await using world = await makeWorld();
  let jobs = 0;
  const asked = new Set<string>();
  const { agent, life, registry, envoy } = await world.boot({ scope: 'demand' }, { onWork: () => jobs++ });
  Object.assign(envoy, { listAsked: () => asked });
  await startAgent(agent);
  let last = 0;
  const serve = (serviceAccount: string): Promise<void> => {
    const ip = `10.2.0.${++last}`;
    const key = { namespace: 'demo', serviceAccount };
    return registry.registerEndpoint(key, 'http', makeEndpoint({ ip, primary: 8080, ports: { 8080: 'http' } }));
  };
  const settle = async (): Promise<void> => {
    // What the registry tells comes with a turn of the event loop, the refresh begins with it or a little later.
    await new Promise(setImmediate);
    await agent.runner.idle();
  };
  const serveAndCountJobs = async (account: string): Promise<number> => {
    await settle();
    jobs = 0;
    await serve(account);
    await settle();
    return jobs;
  };
  const hasCluster = (account: string) => envoy.snapshot?.resources.cluster.has(`${account}.demo.aether.internal`);
  const bytesOf = (account: string) => envoy.snapshot?.resources.endpoints.get(`demo/${account}`)?.bytes.length ?? 0;

  for (const account of ['near', 'far', 'asked']) await serve(account);
  await settle();
  for (const account of ['near', 'far', 'asked']) {
    t.notOk(hasCluster(account));
    t.ok(
      envoy.snapshot?.resources.host.has(`cap_http/${account}.demo.aether.internal`),
      `the name ${account} is known`,
    );
    t.equal(await serveAndCountJobs(account), 0, `an endpoint of ${account} wakes nobody`);
  }

  const request = podRequest(world.kernel, 'demo/client-0', { ip: '10.1.2.8' });
  const annotations = { ...request.annotations, 'config.aether.io/upstreams': 'near' };
  await life.addPod({ ...request, annotations }, ADD);
  await settle();
  t.ok(hasCluster('near'), 'declared by a pod');
  const before = bytesOf('near');
  t.ok(before > 2 * 30, 'with the endpoints that came while nobody listened');
  t.ok((await serveAndCountJobs('near')) > 0);
  t.ok(bytesOf('near') > before);

  asked.add('asked.demo.aether.internal');
  agent.noteAsked('cluster', 'asked.demo.aether.internal');
  await settle();
  t.ok(hasCluster('asked'), 'asked for by Envoy');
  t.ok((await serveAndCountJobs('asked')) > 0);
  t.equal(await serveAndCountJobs('far'), 0);

  asked.clear();
  world.clock.advance(ASKED_RETENTION_MS);
  await life.removePod(request);
  await settle();
  for (const account of ['near', 'asked']) {
    t.notOk(hasCluster(account), `${account} is needed no longer`);
    t.equal(await serveAndCountJobs(account), 0);
  }
});
