// What the real Envoy writes of connections and requests: to a file, to stdout, to a collector.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import type { AccessLogSink } from '../../src/xds/input.ts';
import { startOtlpSink } from '../support/otlp-sink.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE } from '../support/xds-example.ts';
import { startXdsNode, type XdsNode, type XdsPod } from '../support/xds-node.ts';

const SHOP = 'shop.demo.aether.internal';
const VIP = '10.96.0.50';

interface Mesh {
  readonly node: XdsNode;
  readonly client: XdsPod;
  publish(sink: AccessLogSink, successPercent?: number): Promise<unknown>;
}

async function startMesh(t: Test): Promise<Mesh> {
  const node = await startXdsNode(t, { envoyArgs: ['--file-flush-interval-msec', '100'] });
  const client = node.addPod('client-0', 'client', { port: '8080' });
  const shop = node.addPod('shop-0', 'shop', { port: '8080', ports: '8080,9000=tcp' });
  await node.startApp(shop, 'http=8080', 'echo=9000');
  const services = [
    makeView('demo/shop', [VIP], [{ ip: shop.ip4, primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } }]),
    // Nobody is there.
    makeView('demo/void', ['10.96.0.51'], [{ ip: '10.77.0.99', primary: 9000, ports: { 9000: 'tcp' } }]),
  ];
  return {
    node,
    client,
    publish: (sink, successPercent = 100) =>
      node.publish([client, shop], { node: { ...EXAMPLE_NODE, accessLog: { sink, successPercent } }, services }),
  };
}

type Record = Readonly<{ [field: string]: unknown }>;

const HTTP_SOURCE = {
  log: 'aether_access_logs',
  reporter: 'source',
  pod_namespace: 'demo',
  pod_name: 'client-0',
  method: 'GET',
  path: '/x',
  authority: SHOP,
  response_code: /^200$/,
  response_flags: /^-?$/,
  upstream_cluster: /^demo\/shop$/,
  upstream_host: /:18008$/,
};
const TCP_SOURCE = {
  log: 'aether_l4_access_logs',
  reporter: 'source',
  pod_name: 'client-0',
  chain: 'cap_tcp',
  upstream_cluster: 'tcp_demo/shop_9000',
  bytes_received: /^1$/,
  bytes_sent: /^13$/,
  downstream_local_address: `${VIP}:9000`,
};
const TCP_DESTINATION = {
  log: 'aether_l4_access_logs',
  reporter: 'destination',
  pod_name: 'shop-0',
  chain: 'in_tcp_demo_shop-0_9000',
  requested_server_name: '9000',
  downstream_peer: 'spiffe://aether.internal/ns/demo/sa/client',
};
const TCP_FAILED = { log: 'aether_l4_access_logs', upstream_cluster: 'tcp_demo/void_9000', response_flags: /UF/ };

/** One good request, one good connection, one that fails, and one that only the mesh itself would ask. */
async function use({ node, client }: Mesh): Promise<void> {
  const http = { host: VIP, port: 80, authority: SHOP };
  await node.http(client, { http: { ...http, path: '/x' } });
  await node.http(client, { http: { ...http, path: '/-/-/live' } });
  await node.tcp(client, { tcp: { host: VIP, port: 9000 }, send: 'x' });
  await node.tcp(client, { tcp: { host: '10.96.0.51', port: 9000 }, send: 'x', waitMs: 5000 });
}

const texts = (record: Record): Record =>
  Object.fromEntries(Object.entries(record).map(([field, value]) => [field, String(value ?? '')]));

async function finds(t: Test, read: () => readonly Record[], wanted: readonly object[]): Promise<void> {
  for (const pattern of wanted) {
    const isThere = (record: Record) =>
      Object.entries(pattern).every(([field, value]) =>
        value instanceof RegExp ? value.test(String(record[field])) : record[field] === value,
      );
    const found = await waitUntil(JSON.stringify(pattern), () => read().map(texts).find(isThere), {
      timeoutMs: 20_000,
    });
    t.match(found, pattern);
  }
}

const lines = (file: string): readonly Record[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

t.test('access log in a file', async (t) => {
  const mesh = await startMesh(t);
  const path = join(mesh.node.dir, 'access.log');
  await mesh.publish({ kind: 'file', path });
  await use(mesh);
  await finds(t, () => lines(path), [HTTP_SOURCE, TCP_SOURCE, TCP_DESTINATION, TCP_FAILED]);
  await finds(t, () => lines(path), [{ log: 'aether_access_logs', reporter: 'destination', pod_name: 'shop-0' }]);
  t.notOk(
    lines(path).some((record) => String(record['path']).startsWith('/-/-/')),
    'nothing of the mesh itself',
  );

  // Without a sample of what goes well only failures are left.
  const failures = join(mesh.node.dir, 'failures.log');
  await mesh.publish({ kind: 'file', path: failures }, 0);
  await use(mesh);
  await mesh.node.http(mesh.client, { http: { host: VIP, port: 80, authority: 'nobody.demo.aether.internal' } });
  await finds(t, () => lines(failures), [TCP_FAILED, { log: 'aether_access_logs', response_code: /^503$/ }]);
  t.notOk(lines(failures).some((record) => texts(record)['response_code'] === '200'));
  t.notOk(lines(failures).some((record) => record['upstream_cluster'] === 'tcp_demo/shop_9000'));
});

t.test('access log on stdout', async (t) => {
  const mesh = await startMesh(t);
  await mesh.publish({ kind: 'stdout' });
  await use(mesh);
  await finds(t, () => lines(join(mesh.node.dir, 'envoy.log')), [HTTP_SOURCE, TCP_SOURCE]);
});

t.test('access log over OTLP', async (t) => {
  const mesh = await startMesh(t);
  const path = join(mesh.node.dir, 'otlp.sock');
  const { records } = await startOtlpSink(t, path);
  await mesh.publish({ kind: 'otlp', address: { kind: 'unix', path } });
  await use(mesh);
  const read = (): readonly Record[] => records.map(({ log, body, attributes }) => ({ ...attributes, log, body }));
  await finds(t, read, [HTTP_SOURCE, TCP_SOURCE, TCP_DESTINATION, TCP_FAILED]);
  await finds(t, read, [{ log: 'aether_access_logs', body: /^200 - GET shop\.demo\.aether\.internal\/x$/ }]);
});

t.test('access log to a collector that is away does no harm', async (t) => {
  const mesh = await startMesh(t);
  for (const address of [
    { kind: 'unix', path: join(mesh.node.dir, 'nobody.sock') },
    { kind: 'name', host: 'nobody.invalid', port: 4317 },
  ] as const) {
    await mesh.publish({ kind: 'otlp', address });
    const [answer] = await mesh.node.http(mesh.client, { http: { host: VIP, port: 80, authority: SHOP } });
    t.equal(answer?.status, 200);
  }
});
