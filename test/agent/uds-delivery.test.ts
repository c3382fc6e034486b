// Applications that listen on a Unix socket in a volume of their pod: the agent, the real kernel and the real Envoy.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type AgentNodePod, makeAgentNode, untilServed } from '../support/agent-node.ts';

const REQUIRE = { timeoutMs: 5000, proxyReady: 'require' } as const;
const SOCKET = { 'endpoint.aether.io/uds-socket': 'run/app.sock' };

const podsDir = mkdtempSync('/tmp/ae-uds-');
t.teardown(() => rmSync(podsDir, { recursive: true, force: true }));
const node = makeAgentNode(t, { 'kubelet-pods-dir': [podsDir] });
const agent = await node.startAgent();
await node.startEnvoy(agent);
const client = node.makePod('client-0', {});
await agent.life.addPod(client.request, REQUIRE);

/** The pod as a runtime with Kubernetes' CNI_ARGS tells of it. */
const requestOf = (pod: AgentNodePod, uid: string) => ({ ...pod.request, uid });

async function listen(t: Test, server: Server, uid: string): Promise<void> {
  const dir = join(podsDir, uid, 'volumes/kubernetes.io~empty-dir/run');
  mkdirSync(dir, { recursive: true });
  await new Promise<void>((resolve) => void server.listen(join(dir, 'app.sock'), resolve));
  t.teardown(() => server.close());
}

function isHealthy(containerId: string): boolean {
  const pod = agent.agent.findPod(containerId);
  return pod !== undefined && agent.agent.liveness?.healthOf(pod) === 'healthy';
}

const addressOf = (serviceAccount: string): string => {
  const [v4] = agent.agent.catalog.find({ namespace: 'demo', serviceAccount }) ?? [];
  return v4?.text ?? '';
};

t.test('HTTP is delivered to the socket, whatever port was named, with the caller’s identity', async (t) => {
  const shop = node.makePod('shop-0', { ...SOCKET, 'endpoint.aether.io/ports': '8080,9090' });
  await agent.life.addPod(requestOf(shop, 'uid-shop'), REQUIRE);
  await new Promise((resolve) => setTimeout(resolve, 1200));
  t.notOk(isHealthy('c-shop-0'), 'nobody listens on the socket yet');
  const server = createHttpServer((request, response) => response.end(JSON.stringify(request.headers)));
  await listen(t, server, 'uid-shop');
  await untilServed(agent, 'c-shop-0');
  for (const port of [80, 9090]) {
    const authority = `shop.demo.aether.internal${port === 80 ? '' : `:${port}`}`;
    const [answer] = await client.http({ http: { host: addressOf('shop'), port, authority } });
    t.match(
      answer,
      { status: 200, body: /"x-forwarded-client-cert":".*URI=spiffe:\/\/aether\.internal\/ns\/demo\/sa\/client/ },
      authority,
    );
  }
});

t.test('raw TCP is delivered to the socket, and the server may speak first', async (t) => {
  const db = node.makePod('db-0', {
    ...SOCKET,
    'endpoint.aether.io/port': '5432',
    'endpoint.aether.io/protocol': 'tcp',
  });
  await agent.life.addPod(requestOf(db, 'uid-db'), REQUIRE);
  await listen(
    t,
    createServer((socket) => socket.on('error', () => {}).end('HELLO by socket\n')),
    'uid-db',
  );
  await untilServed(agent, 'c-db-0');
  for (const port of [5432, 18082]) {
    t.match(await client.tcp({ tcp: { host: addressOf('db'), port } }), { got: 'HELLO by socket\n' }, String(port));
  }
});

const BAD: readonly (readonly [string, Readonly<Record<string, string>>, string, RegExp])[] = [
  [
    'a path that leads out of the volume',
    { 'endpoint.aether.io/uds-socket': '../secret' },
    'u1',
    /uds-socket: must be/,
  ],
  ['a path that is too long', { 'endpoint.aether.io/uds-socket': `run/${'x'.repeat(80)}` }, 'u1', /107 bytes at most/],
  ['no UID', SOCKET, '', /needs the pod's UID/],
];

for (const [name, annotations, uid, message] of BAD) {
  t.test(`ADD is refused for ${name}, with the annotation's name`, async (t) => {
    const pod = node.makePod(`bad-${uid}${BAD.findIndex(([other]) => other === name)}`, annotations);
    await t.rejects(agent.life.addPod(requestOf(pod, uid), REQUIRE), { problem: 'rejected', message });
  });
}
