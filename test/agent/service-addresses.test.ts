// A service with several fixed addresses (`--services`), with the real kernel and the real Envoy: each is the whole service,
// and the file may change while everything runs.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { makeAgentNode } from '../support/agent-node.ts';

const REQUIRE = { timeoutMs: 5000, proxyReady: 'require' } as const;
const ACTIVE = { 'endpoint.aether.io/health-check-mode': 'active' };
const [FIRST, SECOND, THIRD] = ['10.96.0.50', '10.97.1.2', '10.98.0.7'];
const AUTHORITY = 'shop.demo.aether.internal';

const dir = mkdtempSync('/tmp/ae-vips-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
const file = join(dir, 'services.json');
const fix = (...addresses: readonly string[]): void => {
  writeFileSync(file, JSON.stringify({ services: { 'demo/shop': addresses } }));
};
fix(SECOND, FIRST, 'fd96::50');
const node = makeAgentNode(t, { services: [file] });
const started = await node.startAgent();
await node.startEnvoy(started);
const client = node.makePod('client-0', ACTIVE);
const shop = node.makePod('shop-0', { ...ACTIVE, 'endpoint.aether.io/ports': '8080,9000=tcp,5432=tcp' });
const db = node.makePod('db-0', { ...ACTIVE, 'endpoint.aether.io/port': '5432', 'endpoint.aether.io/protocol': 'tcp' });
await shop.startApp('http=8080', 'echo=9000', 'banner=5432');
await db.startApp('banner=5432');
for (const pod of [client, shop, db]) await started.life.addPod(pod.request, REQUIRE);
await started.agent.runner.idle();

const http = async (host: string) => (await client.http({ http: { host, port: 80, authority: AUTHORITY } }))[0];
const tcp = (host: string, port: number, send = '') => client.tcp({ tcp: { host, port }, send, waitMs: 2000 });
const clusters = async (): Promise<readonly string[]> => {
  const lines = (await node.admin('/clusters')).split('\n');
  return [...new Set(lines.flatMap((line) => /^(tcp:.+?:[0-9]+)::/.exec(line)?.[1] ?? []))].sort();
};
const addresses = (family: 4 | 6): readonly string[] =>
  (started.agent.catalog.find({ namespace: 'demo', serviceAccount: 'shop' }) ?? [])
    .filter((address) => address.family === family)
    .map(({ text }) => text);

async function isService(t: { match(a: unknown, b: unknown, m: string): boolean }, host: string): Promise<void> {
  t.match(await http(host), { status: 200, body: /shop-0/ }, `${host}: HTTP`);
  t.match(await tcp(host, 9000, 'x'), { got: 'shop-0:9000 x' }, `${host}: a TCP port`);
  t.match(await tcp(host, 18082), { got: /^HELLO from shop-0:5432/ }, `${host}: the TCP mesh port`);
}

t.test('each address is the whole service, in one set of endpoints', async (t) => {
  t.strictSame([addresses(4), addresses(6)], [[FIRST, SECOND], ['fd96::50']]);
  for (const host of [FIRST, SECOND]) await isService(t, host);
  const of = (address: string): readonly string[] => [18082, 5432, 9000].map((port) => `tcp:${address}:${port}`);
  const all = await clusters();
  for (const address of [FIRST, SECOND, 'fd96::50']) for (const name of of(address)) t.ok(all.includes(name), name);
  const assignments = [...(started.agent.snapshot?.resources.endpoints.keys() ?? [])].filter((name) =>
    /shop/.test(name),
  );
  t.strictSame(assignments.sort(), ['demo/shop', `tcp:${AUTHORITY}:5432`, `tcp:${AUTHORITY}:9000`]);
});

t.test('a service without fixed addresses has its own out of the range', async (t) => {
  const [v4] = started.agent.catalog.find({ namespace: 'demo', serviceAccount: 'db' }) ?? [];
  t.match(v4?.text, /^10\.254\./);
  t.match(await tcp(v4?.text ?? '', 5432), { got: /^HELLO from db-0/ });
});

t.test('an address that is added serves, one that is taken away does not, the others go on', async (t) => {
  fix(FIRST, THIRD);
  await waitUntil('the file to be read', () => addresses(4).includes(THIRD), { timeoutMs: 30_000 });
  await started.agent.runner.idle();
  t.strictSame(addresses(4), [FIRST, THIRD]);
  t.match(addresses(6), [/^fd0a:e7e0::/], 'of a family without a fixed one it has its own');
  for (const host of [FIRST, THIRD]) await isService(t, host);
  t.notMatch(await tcp(SECOND, 18082), { got: /HELLO/ });
  await waitUntil('its clusters to go', async () => !(await clusters()).some((name) => name.includes(SECOND)), {
    timeoutMs: 30_000,
  });
});

t.test('a file that is wrong is refused, and what was right stays', async (t) => {
  writeFileSync(file, '{"services":{"demo/shop":["10.96.0.50"],"demo/db":["10.96.0.50"]}}');
  await waitUntil('the file to be refused', () => node.log.entries.some(({ level }) => level === 'error'), {
    timeoutMs: 30_000,
  });
  t.strictSame(addresses(4), [FIRST, THIRD]);
  await isService(t, THIRD);
});
