// An agent that gives Envoy only what is needed, with the real Envoy: what is asked for comes, and stays.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import type { AgentProcess } from '../../src/commands/agent-process.ts';
import { makeAgentNode } from '../support/agent-node.ts';
import { makeEndpoint } from '../support/services.ts';

const REQUIRE = { timeoutMs: 5000, proxyReady: 'require' } as const;

t.test('services on demand, in the real Envoy', async (t) => {
  const node = makeAgentNode(t, { 'service-scope': ['demand'], identity: ['none'] });
  let agent = await node.startAgent();
  await node.startEnvoy(agent);
  const client = node.makePod('client-0', {});
  const shop = node.makePod('shop-0', {});
  await shop.startApp('http=8080');
  await agent.life.addPod(client.request, REQUIRE);
  await agent.life.addPod(shop.request, REQUIRE);

  // Services of other nodes: without identities any of them may be the shop.
  const [ip = ''] = shop.request.ips;
  const register = async ({ agent }: AgentProcess, ...accounts: readonly string[]): Promise<void> => {
    for (const serviceAccount of accounts) {
      const endpoint = makeEndpoint({ ip, primary: 8080, ports: { 8080: 'http' } });
      await agent.deps.registry.registerEndpoint({ namespace: 'demo', serviceAccount }, 'http', endpoint);
    }
    await new Promise(setImmediate);
    await agent.runner.idle();
  };
  const get = async (authority: string, account: string) => {
    const [address] = agent.agent.catalog.find({ namespace: 'demo', serviceAccount: account }) ?? [];
    const [answer] = await client.http({ http: { host: address?.text ?? '10.254.255.1', port: 80, authority } });
    return answer;
  };
  const hasCluster = async (name: string) => (await node.admin('/clusters')).includes(`${name}::`);
  const removed = async () => Number(/: ([0-9]+)/.exec(await node.admin('/stats?filter=cluster_removed'))?.[1]);

  await register(agent, 'far', 'near', 'quiet');
  t.notOk(await hasCluster('far.demo.aether.internal'), 'not given');
  const first = await get('far.demo.aether.internal', 'far');
  t.equal(first?.status, 200, 'by the name of the mesh, at the first request');
  t.ok((first?.ms ?? 1e9) < 1000, `${first?.ms} ms`);
  t.ok(await hasCluster('far.demo.aether.internal'));
  t.equal((await get('near.demo.svc.cluster.local', 'near'))?.status, 200, "by Kubernetes' name");
  t.notOk(await hasCluster('quiet.demo.aether.internal'), 'what nobody asks for stays away');
  for (const authority of ['late.demo.aether.internal', 'far.demo.aether.internal:4444', 'late.demo.aether.internal']) {
    const unknown = await get(authority, 'late');
    t.equal(unknown?.status, 503);
    t.ok((unknown?.ms ?? 1e9) < 1000, `what nobody knows is said at once, each time: ${authority}`);
  }
  await register(agent, 'late');
  t.equal(
    (await get('late.demo.aether.internal', 'late'))?.status,
    200,
    'asked for too early, it comes when it is there',
  );

  // Envoy is held until the registry has everything again, as a shared one would.
  const before = await removed();
  const envoy = Number(execFileSync('pgrep', ['-of', `${node.dir}/envoy.json`], { encoding: 'utf8' }));
  process.kill(envoy, 'SIGSTOP');
  t.teardown(() => process.kill(envoy, 'SIGCONT'));
  await agent.close();
  agent = await node.startAgent();
  await register(agent, 'far', 'near', 'quiet', 'late');
  process.kill(envoy, 'SIGCONT');
  await waitUntil('Envoy to be back', () => agent.cache.streams > 0, { timeoutMs: 20_000 });
  await agent.agent.runner.idle();
  for (const name of ['far', 'near', 'late']) {
    t.equal((await get(`${name}.demo.aether.internal`, name))?.status, 200, `${name}, after the agent came back`);
  }
  t.equal(await removed(), before, 'nothing was taken away meanwhile');
});
