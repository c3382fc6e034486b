// The agent with the real kernel and the real Envoy: what an ADD promises holds for the first packet after it.
import t from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import type { AgentProcess } from '../../src/commands/agent-process.ts';
import { type AgentNode, makeAgentNode, untilServed } from '../support/agent-node.ts';
import { nftIn } from '../support/netns.ts';

const REQUIRE = { timeoutMs: 5000, proxyReady: 'require' } as const;
const SHOP = 'shop.demo.aether.internal';

const vipOf = ({ agent }: AgentProcess, serviceAccount: string): string => {
  const [v4] = agent.catalog.find({ namespace: 'demo', serviceAccount }) ?? [];
  if (v4?.family !== 4) throw new Error(`no address of ${serviceAccount}`);
  return v4.text;
};

async function counter(node: AgentNode, name: string): Promise<number> {
  return Number(/: ([0-9]+)/.exec(await node.admin(`/stats?filter=^${name}$`))?.[1] ?? -1);
}

t.test('agent, kernel and Envoy', async (t) => {
  const node = makeAgentNode(t);
  let agent = await node.startAgent();
  await node.startEnvoy(agent);
  const client = node.makePod('client-0', {});
  const shop = node.makePod('shop-0', { 'endpoint.aether.io/ports': '8080,9000=tcp,5432=tcp' });
  const db = node.makePod('db-0', { 'endpoint.aether.io/port': '5432', 'endpoint.aether.io/protocol': 'tcp' });
  await shop.startApp('http=8080', 'echo=9000', 'banner=5432');
  await db.startApp('banner=5432');
  const bothWork = async (title: string): Promise<void> => {
    const host = vipOf(agent, 'shop');
    const [http] = await client.http({ http: { host, port: 80, authority: SHOP } });
    t.match(http, { status: 200, body: /"app":"shop-0","port":8080/ }, `${title}: HTTP by name`);
    t.match(http?.body, /URI=spiffe:\/\/aether\.internal\/ns\/demo\/sa\/client/, `${title}: with the identity`);
    t.match(await client.tcp({ tcp: { host, port: 9000 }, send: 'x' }), { got: 'shop-0:9000 x' }, `${title}: raw TCP`);
    t.match(
      await client.tcp({ tcp: { host, port: 18082 } }),
      { got: /^HELLO from shop-0:5432/ },
      `${title}: the TCP mesh port`,
    );
  };

  t.match(await agent.life.addPod(client.request, REQUIRE), { kind: 'success', warnings: [] });
  t.match(await agent.life.addPod(shop.request, REQUIRE), { kind: 'success', warnings: [] });
  await untilServed(agent, 'c-shop-0');
  await bothWork('right after ADD');

  await agent.life.addPod(db.request, REQUIRE);
  await untilServed(agent, 'c-db-0');
  t.match(
    await client.tcp({ tcp: { host: vipOf(agent, 'db'), port: 5432 } }),
    { got: /^HELLO from db-0/ },
    'a service that came later',
  );

  const [added, modified] = [
    await counter(node, 'listener_manager.listener_added'),
    await counter(node, 'listener_manager.listener_modified'),
  ];
  const clusters = await counter(node, 'cluster_manager.cluster_modified');
  await agent.close();
  await bothWork('while the agent is away');
  agent = await node.startAgent();
  await waitUntil('Envoy to be back', () => agent.cache.streams === 1, { timeoutMs: 30_000 });
  await bothWork('after the agent came back');
  t.equal(await counter(node, 'listener_manager.listener_added'), added, 'no listener was sent again');
  t.equal(await counter(node, 'listener_manager.listener_modified'), modified);
  t.equal(await counter(node, 'cluster_manager.cluster_modified'), clusters);

  const gone = vipOf(agent, 'db');
  await agent.life.removePod(db.request);
  await new Promise(setImmediate);
  await agent.agent.runner.idle();
  t.notMatch(
    nftIn(client.netns, 'list', 'table', 'inet', 'aether_mesh'),
    new RegExp(`${gone.replaceAll('.', '\\.')} \\. 5432`),
  );
  t.notMatch(await client.tcp({ tcp: { host: gone, port: 5432 }, waitMs: 500 }), { got: /HELLO/ }, 'a removed service');
  t.equal(
    await counter(node, 'listener_manager.total_listeners_active'),
    11,
    'two pods, five listeners each, and the gateway',
  );
  t.strictSame(
    node.log.entries.filter(({ level }) => level === 'error'),
    [],
  );
});
