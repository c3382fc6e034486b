// What earlier writers left, as the proposal's migration table has it, each cell that one node can show: records of the Go mesh
// on disk, and endpoints in the registry without typed ports, under one key, by an agent that took everything for HTTP. The
// agent, the real kernel, the real Envoy.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { chainsBetween } from '../../scripts/lab/envoy.ts';
import { waitUntil } from '../../scripts/lab/processes.ts';
import type { Endpoint } from '../../src/mesh/endpoint.ts';
import type { Protocol } from '../../src/mesh/port-protocols.ts';
import { type AgentNodePod, makeAgentNode, untilTaken } from '../support/agent-node.ts';
import { nftIn } from '../support/netns.ts';

const REQUIRE = { timeoutMs: 5000, proxyReady: 'require' } as const;
// Healthy from the start, and left alone: what a test writes in its place stays.
const ACTIVE = { 'endpoint.aether.io/health-check-mode': 'active' };

t.setTimeout(120_000);
const node = makeAgentNode(t);
const records = join(node.dir, 'lib/registry');
mkdirSync(records, { recursive: true });

/** The record as the Go mesh writes it: canonical JSON of CNIPod, with what only it knows. */
function goRecord({ request }: AgentNodePod, more: Readonly<Record<string, unknown>> = {}): string {
  const { 'aether.io/managed': _, 'aether.io/service-account': serviceAccount, ...annotations } = request.annotations;
  const record = {
    ...{ name: request.name, namespace: request.namespace, networkNamespace: request.networkNamespace, pid: 4711 },
    ...{ containerId: request.containerId, ips: request.ips, labels: { 'aether.io/managed': 'true' } },
    ...{ annotations, serviceAccount, uid: 'uid-1', aFieldOfLater: { x: 1 } },
    ...more,
  };
  const text = JSON.stringify(record);
  writeFileSync(join(records, `${request.containerId}.json`), text);
  return text;
}

const goMixed = node.makePod('gomixed-0', { 'endpoint.aether.io/ports': '8080,9000=tcp' });
const goTcp = node.makePod('gotcp-0', { 'endpoint.aether.io/port': '5432', 'endpoint.aether.io/protocol': 'tcp' });
const goEnding = node.makePod('goending-0', { ...ACTIVE });
const texts = [goRecord(goMixed), goRecord(goTcp), goRecord(goEnding, { terminating: true })];
await goMixed.startApp('http=8080', 'echo=9000');
await goTcp.startApp('banner=5432');
await goEnding.startApp('http=8080');

const started = await node.startAgent();
await node.startEnvoy(started);
const { agent, life } = started;
const client = node.makePod('client-0', {});
await life.addPod(client.request, REQUIRE);

const keyOf = (serviceAccount: string) => ({ namespace: 'demo', serviceAccount });
const nameOf = (serviceAccount: string): string => `${serviceAccount}.demo.aether.internal`;
const listed = (serviceAccount: string, protocol: Protocol): Promise<readonly Endpoint[]> =>
  agent.deps.registry.listEndpoints(keyOf(serviceAccount), protocol);

function addressOf(serviceAccount: string): string {
  const [v4] = agent.catalog.find(keyOf(serviceAccount)) ?? [];
  if (v4 === undefined) throw new Error(`no address of ${serviceAccount}`);
  return v4.text;
}

async function untilServed(pod: AgentNodePod): Promise<void> {
  const line = `::${pod.request.ips[0]}:18008::health_flags::healthy`;
  await waitUntil(`${pod.request.name} to be served`, async () => (await node.admin('/clusters')).includes(line), {
    timeoutMs: 30_000,
  });
  await untilTaken(started);
}

/** A pod of ours that stands for one of an older agent: what the registry has of it is replaced. */
async function addOld(
  pod: AgentNodePod,
  apps: readonly string[],
  listings: readonly Protocol[],
  ports: readonly number[],
) {
  await pod.startApp(...apps);
  await life.addPod(pod.request, REQUIRE);
  const account = pod.request.name.replace(/-[0-9]+$/, '');
  const [ours] = [...(await listed(account, 'http')), ...(await listed(account, 'tcp'))].filter(
    ({ containerId }) => containerId === pod.request.containerId,
  );
  if (ours === undefined) throw new Error(`${pod.request.name} is not registered`);
  await agent.deps.registry.unregisterEndpoint(keyOf(account), ours.ip);
  const old = { ...ours, ports, portProtocols: new Map() };
  for (const protocol of listings) await agent.deps.registry.registerEndpoint(keyOf(account), protocol, old);
  await untilServed(pod);
  return { account, old };
}

async function counters(): Promise<ReadonlyMap<string, number>> {
  const lines = (await node.admin('/stats')).split('\n').map((line) => line.split(': '));
  return new Map(lines.map(([name = '', value]) => [name, Number(value)]));
}

/** What a dial gets, and the chains in Envoy that took it. */
async function dial(
  account: string,
  port: number,
  send = '',
): Promise<{ readonly got: string; readonly chains: string }> {
  const before = await counters();
  const answer = await client.tcp({ tcp: { host: addressOf(account), port }, send, waitMs: 2500 });
  return { got: answer.got || (answer.error ?? ''), chains: chainsBetween(before, await counters()).join(' ') };
}

const http = async (account: string, port: number, authority = nameOf(account)) =>
  (await client.http({ http: { host: addressOf(account), port, authority } }))[0];

const tcpElements = (account: string): string => {
  const text = nftIn(client.netns, 'list', 'set', 'inet', 'aether_mesh', 'mesh_tcp4').replace(/\s+/g, ' ');
  return [...text.matchAll(/([0-9.]+) \. ([0-9]+)/g)]
    .filter(([, address]) => address === addressOf(account))
    .map(([, , port]) => port)
    .sort()
    .join(' ');
};

t.test('records of the Go mesh: its pods are served as ours, and its files stay as they are', async (t) => {
  for (const pod of [goMixed, goTcp]) await untilServed(pod);
  t.match(await http('gomixed', 80), { status: 200, body: /"port":8080/ });
  t.match(await dial('gomixed', 9000, 'x'), { got: 'gomixed-0:9000 x', chains: 'cap_tcp in_tcp_demo_gomixed-0_9000' });
  t.match(await dial('gotcp', 18082), { got: /^HELLO from gotcp-0:5432/, chains: 'cap_tcp in_tcp_demo_gotcp-0' });
  const [under] = await listed('gomixed', 'http');
  t.match(
    under?.portProtocols,
    new Map([
      [8080, 'http'],
      [9000, 'tcp'],
    ]),
    'typed, though its annotation came before',
  );
  t.strictSame(await listed('gomixed', 'tcp'), [under], 'and under both keys alike');
  t.strictSame(
    [goMixed, goTcp, goEnding].map(({ request }) => readFileSync(join(records, `${request.containerId}.json`), 'utf8')),
    texts,
  );
});

t.test('a record of the Go mesh whose pod is terminating: draining, and nobody new is sent there', async (t) => {
  t.match(await listed('goending', 'http'), [{ health: 'draining' }]);
  t.match(await http('goending', 80), { status: 503 });
});

t.test('no map, HTTP key: every port is HTTP, as the agent that wrote it took 9000=tcp for HTTP', async (t) => {
  const pod = node.makePod('oldhttp-0', { ...ACTIVE, 'endpoint.aether.io/ports': '8080,9000' });
  const { account } = await addOld(pod, ['http=8080', 'http=9000'], ['http'], [8080, 9000]);
  t.match(await http(account, 80), { status: 200, body: /"port":8080/ });
  t.match(await http(account, 9000, `${nameOf(account)}:9000`), { status: 200, body: /"port":9000/ });
  t.equal(tcpElements(account), '', 'nothing of it is TCP');
  t.match(await dial(account, 18082), { got: 'ECONNREFUSED', chains: '' });
});

t.test('no map, TCP key, one port: the floor without a server name, as before', async (t) => {
  const pod = node.makePod('oldtcp-0', {
    ...ACTIVE,
    'endpoint.aether.io/port': '5432',
    'endpoint.aether.io/protocol': 'tcp',
  });
  const { account } = await addOld(pod, ['banner=5432'], ['tcp'], [5432]);
  t.equal(tcpElements(account), '18082 5432');
  for (const port of [5432, 18082]) {
    t.match(
      await dial(account, port),
      { got: /^HELLO from oldtcp-0:5432/, chains: 'cap_tcp in_tcp_demo_oldtcp-0' },
      `${port}`,
    );
  }
  t.match(await http(account, 80), { status: 421 });
});

t.test('no map, TCP key, several ports: the others had no chain then, so only the primary is dialled', async (t) => {
  const pod = node.makePod('oldmany-0', {
    ...ACTIVE,
    'endpoint.aether.io/port': '5432',
    'endpoint.aether.io/ports': '5432=tcp,5433',
  });
  const { account } = await addOld(pod, ['banner=5432', 'http=5433'], ['tcp'], [5432, 5433]);
  t.equal(tcpElements(account), '18082 5432');
  t.match(await dial(account, 5432), { got: /:5432/, chains: 'cap_tcp in_tcp_demo_oldmany-0' });
  t.match(
    await dial(account, 5433),
    { got: /:5432/, chains: 'cap_tcp_anyport in_tcp_demo_oldmany-0' },
    'any port, as ever',
  );
});

t.test('one key only: the other protocol is there when its key is', async (t) => {
  const pod = node.makePod('onekey-0', { ...ACTIVE, 'endpoint.aether.io/ports': '8080,9000=tcp' });
  await pod.startApp('http=8080', 'echo=9000');
  await life.addPod(pod.request, REQUIRE);
  const [ours] = await listed('onekey', 'http');
  if (ours === undefined) throw new Error('not registered');
  await agent.deps.registry.unregisterEndpoint(keyOf('onekey'), ours.ip);
  await agent.deps.registry.registerEndpoint(keyOf('onekey'), 'http', ours);
  await untilServed(pod);
  t.match(await http('onekey', 80), { status: 200 });
  t.equal(tcpElements('onekey'), '');
  t.match(await dial('onekey', 18082), { got: 'ECONNREFUSED' });
  await agent.deps.registry.registerEndpoint(keyOf('onekey'), 'tcp', ours);
  await untilTaken(started);
  t.match(await dial('onekey', 18082, 'x'), { got: 'onekey-0:9000 x', chains: 'cap_tcp in_tcp_demo_onekey-0_9000' });
});

t.test('old and new pods of one service: the server name is sent to those that know it alone', async (t) => {
  const annotations = { ...ACTIVE, 'endpoint.aether.io/port': '9000', 'endpoint.aether.io/protocol': 'tcp' };
  const { account, old } = await addOld(node.makePod('skew-0', annotations), ['echo=9000'], ['tcp'], [9000]);
  const floor = { got: 'skew-0:9000 x', chains: 'cap_tcp in_tcp_demo_skew-0' };
  t.match(await dial(account, 9000, 'x'), floor, 'the old one alone');
  const fresh = node.makePod('skew-1', { 'endpoint.aether.io/ports': '8080,9000=tcp' });
  await life.addPod(fresh.request, REQUIRE);
  await untilTaken(started);
  t.match(await dial(account, 9000, 'x'), floor, 'a new one that is not ready changes nothing');
  await fresh.startApp('http=8080', 'echo=9000');
  await untilServed(fresh);
  for (let i = 0; i < 6; i++) {
    t.match(await dial(account, 9000, 'x'), { got: 'skew-1:9000 x', chains: 'cap_tcp in_tcp_demo_skew-1_9000' });
  }
  t.match(await http(account, 80), { status: 200, body: /skew-1/ }, 'and the service has HTTP now');
  await life.removePod(fresh.request);
  await untilTaken(started);
  t.match(await dial(account, 9000, 'x'), floor, 'when it is gone the old one serves as before');
  t.ok((await listed(account, 'tcp')).some(({ ip }) => ip === old.ip));
});

t.test('what an older reader sees of ours: ports and primary as ever, under each key the same', async (t) => {
  const [endpoint] = await listed('gomixed', 'http');
  t.match(endpoint, { port: 8080, ports: [8080, 9000] });
  t.strictSame(
    node.log.entries.filter(({ level }) => level === 'error'),
    [],
  );
});
