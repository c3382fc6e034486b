// What the resources do, not what they say: the real Envoy, the real kernel, real bytes. Rows of the proposal's table that
// depend on the resources; the whole table is test/e2e/resolution.test.ts.
import t from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { makeView } from '../support/services.ts';
import type { HttpAnswer } from '../support/xds-client.ts';
import { EXAMPLE_NODE } from '../support/xds-example.ts';
import { startXdsNode, type XdsNode, type XdsPod } from '../support/xds-node.ts';

const SHOP = 'shop.demo.aether.internal';
const DB = 'db.demo.aether.internal';
const VIP = { shop: '10.96.0.50', shop6: 'fd96::50', db: '10.96.0.60' };
const HEADER = 'x-aether-passthrough';

interface Mesh {
  readonly node: XdsNode;
  readonly client: XdsPod;
  readonly scoped: XdsPod;
  readonly outside: XdsPod;
}

async function startMesh(t: { teardown(fn: () => unknown): unknown }): Promise<Mesh> {
  const node = await startXdsNode(t);
  const client = node.addPod('client-0', 'client', { port: '8080' });
  const scoped = node.addPod('scoped-0', 'scoped', { port: '8080', redirectAll: false });
  const shop = node.addPod('shop-0', 'shop', { port: '8080', ports: '8080,9090,7070=h2,9000=tcp,5432=tcp' });
  const db = node.addPod('db-0', 'db', { port: '5432', protocol: 'tcp' });
  const outside = node.addPod('outside', 'outside', { port: '80' });
  await Promise.all([
    node.startApp(shop, 'http=8080', 'http=9090', 'h2=7070', 'echo=9000', 'banner=5432'),
    node.startApp(db, 'banner=5432'),
    node.startApp(outside, 'http=80', 'banner=7000', 'banner=18082'),
  ]);
  const services = [
    makeView('demo/db', [VIP.db], [{ ip: db.ip4, primary: 5432, ports: { 5432: 'tcp' } }]),
    makeView(
      'demo/shop',
      [VIP.shop, VIP.shop6],
      [{ ip: shop.ip4, primary: 8080, ports: { 7070: 'http', 8080: 'http', 9090: 'http', 9000: 'tcp', 5432: 'tcp' } }],
    ),
  ];
  await node.publish([client, scoped, shop, db], { node: EXAMPLE_NODE, services });
  return { node, client, scoped, outside };
}

interface Seen {
  readonly app: string;
  readonly port: number;
  readonly from: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** What the HTTP application said of the request. */
function seen(answer: HttpAnswer | undefined): Seen {
  if (answer?.status !== 200) throw new Error(JSON.stringify(answer));
  return JSON.parse(answer.body); // written by xds-app
}

t.test('resources in the real Envoy', async (t) => {
  const mesh = await startMesh(t);
  const { node, client, scoped, outside } = mesh;
  const get = async (from: XdsPod, host: string, port: number, authority: string, more: object = {}) =>
    (await node.http(from, { http: { host, port, authority, ...more } }))[0];

  const MESH_HTTP = [
    ['by name', VIP.shop, 80, SHOP, 8080],
    ['by name over IPv6', VIP.shop6, 80, SHOP, 8080],
    ["by Kubernetes' name", VIP.shop, 80, 'shop.demo.svc.cluster.local', 8080],
    ['in capitals and with a final dot', VIP.shop, 80, 'Shop.Demo.Aether.Internal.', 8080],
    ['with the mesh port', VIP.shop, 18081, `${SHOP}:18081`, 8080],
    ['with the default port', VIP.shop, 8080, `${SHOP}:8080`, 8080],
    ['with another HTTP port', VIP.shop, 9090, `${SHOP}:9090`, 9090],
  ] as const;
  for (const [title, host, port, authority, served] of MESH_HTTP) {
    t.test(`HTTP ${title} reaches port ${served} under the pod's identity`, async (t) => {
      const { app, port: answered, headers } = seen(await get(client, host, port, authority));
      t.same([app, answered], ['shop-0', served]);
      t.match(headers['x-forwarded-client-cert'], /URI=spiffe:\/\/aether\.internal\/ns\/demo\/sa\/client$/);
      t.notOk(HEADER in headers, 'the internal header does not leave the node');
    });
  }

  t.test('HTTP/2 with prior knowledge, as gRPC speaks, reaches an h2 port as HTTP/2', async (t) => {
    const [answer] = await node.http(client, { h2: { host: VIP.shop, port: 7070, authority: `${SHOP}:7070` } });
    const { port, headers } = seen(answer);
    t.equal(port, 7070);
    t.equal(headers[':authority'], `${SHOP}:7070`);
    t.match(headers['x-forwarded-client-cert'], /\/sa\/client$/);
  });

  for (const [title, host, authority] of [
    ['over the mesh', VIP.shop, SHOP],
    ['through the passthrough', outside.ip4, 'example.com'],
  ] as const) {
    t.test(`a WebSocket is opened ${title}`, async (t) => {
      const lines = ['GET / HTTP/1.1', `Host: ${authority}`, 'Connection: Upgrade', 'Upgrade: websocket', '', ''];
      const { got, error } = await node.tcp(client, { tcp: { host, port: 80 }, send: lines.join('\r\n') });
      t.match(got, /^HTTP\/1\.1 101/, error ?? '');
    });
  }

  const TCP = [
    ['a declared port', VIP.shop, 9000, 'ping \r\n', /^shop-0:9000 ping/],
    ['a declared port over IPv6', VIP.shop6, 9000, 'ping \r\n', /^shop-0:9000 ping/],
    ['a server that speaks first', VIP.shop, 5432, '', /^HELLO from shop-0:5432/],
    ['the TCP mesh port', VIP.shop, 18082, '', /^HELLO from shop-0:5432/],
    ['HTTP bytes to a TCP port', VIP.shop, 9000, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', /^shop-0:9000 GET/],
    ['a pure-TCP service, no server name', VIP.db, 5432, '', /^HELLO from db-0:5432/],
  ] as const;
  for (const [title, host, port, send, expected] of TCP) {
    t.test(`TCP: ${title}, without waiting`, async (t) => {
      const before = await node.inspectorTimeouts();
      const { got, error } = await node.tcp(client, { tcp: { host, port }, send });
      t.match(got, expected, error ?? '');
      t.equal(await node.inspectorTimeouts(), before);
    });
  }

  t.test('any other port of a pure-TCP service is its default TCP port', async (t) => {
    const { got } = await node.tcp(client, { tcp: { host: VIP.db, port: 9999 }, send: '\u0000\u0001raw' });
    t.match(got, /^HELLO from db-0:5432/);
  });

  t.test('connections are counted by service and chain', async (t) => {
    const count = (service: string, chain: string) =>
      node.counter(`aether_tcp.connections.service.${service}.chain.${chain}`);
    const counted = async (service: string, chain: string) =>
      waitUntil('the counter', async () => (await count(service, chain)) > 0, { timeoutMs: 20_000 });
    t.ok(await counted('tcp_demo/shop_9000', 'cap_tcp'));
    t.ok(await counted('tcp_demo/db', 'cap_tcp_anyport'));
  });

  t.test('HTTP to a service without HTTP is answered 421, naming what it has', async (t) => {
    const answer = await get(client, VIP.db, 80, DB);
    t.equal(answer?.status, 421);
    t.equal(answer?.headers['x-aether-error'], 'no-http-port');
    t.match(answer?.body, /db\.demo\.aether\.internal:18082/);
  });

  for (const authority of ['nobody.demo.aether.internal', `${SHOP}:4444`]) {
    t.test(`${authority}, which nobody registered, is refused at once, each time`, async (t) => {
      for (let time = 1; time <= 3; time++) {
        const answer = await get(client, VIP.shop, 80, authority);
        t.match(answer, { status: 503, headers: { 'x-aether-error': 'not-registered' } });
        t.ok((answer?.ms ?? 1e9) < 5000, `${answer?.ms} ms`);
      }
    });
  }

  for (const [family, ip, own] of [
    ['IPv4', outside.ip4, client.ip4],
    ['IPv6', outside.ip6, client.ip6],
  ] as const) {
    t.test(`a foreign name passes through over ${family}, from the pod's own address`, async (t) => {
      const { app, from, headers } = seen(await get(client, ip, 80, 'example.com'));
      t.same([app, from], ['outside', own]);
      t.notOk(HEADER in headers);
      t.notOk('x-forwarded-client-cert' in headers);
    });
  }

  t.test('an application cannot choose the cluster of the passthrough', async (t) => {
    for (const cluster of [SHOP, `passthrough_${scoped.pod.resourceName}`, 'blackhole']) {
      const { app, from, headers } = seen(
        await get(client, outside.ip4, 80, 'example.com', { headers: { [HEADER]: cluster } }),
      );
      t.same([app, from], ['outside', client.ip4], cluster);
      t.notOk(HEADER in headers);
    }
  });

  t.test("raw TCP to elsewhere passes through from the pod's own address, after the inspectors' second", async (t) => {
    const before = await node.inspectorTimeouts();
    const { got, ms } = await node.tcp(client, { tcp: { host: outside.ip4, port: 7000 }, waitMs: 10_000 });
    t.match(got, `HELLO from outside:7000 ${client.ip4}`);
    t.ok(ms > 900, `${Math.round(ms)} ms`);
    t.equal(await node.inspectorTimeouts(), before + 1);
  });

  for (const host of ['127.0.0.1', '::1']) {
    for (const port of [18001, 18002, 18003]) {
      t.test(`a dial straight to ${host} port ${port} is closed, and loops nowhere`, async (t) => {
        const passed = 'cluster.passthrough_demo_client-0.upstream_cx_total';
        const before = await node.counter(passed);
        const http = await node.tcp(client, { tcp: { host, port }, send: 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' });
        t.match(http, { got: '', error: /closed|ECONNRESET/ });
        const raw = await node.tcp(client, { tcp: { host, port }, send: '\u0000\u0001raw' });
        t.match(raw, { got: '', error: /closed|ECONNRESET/ });
        t.equal(await node.counter(passed), before);
      });
    }
  }

  t.test('the outbound listener serves the mesh only, and the readiness probe', async (t) => {
    for (const host of ['127.0.0.1', '::1']) {
      t.equal(seen(await get(client, host, 18081, SHOP)).app, 'shop-0');
      t.equal((await get(client, host, 18081, 'example.com'))?.status, 404);
      t.equal((await get(client, host, 18081, 'x', { path: '/aether/readyz' }))?.status, 200);
    }
  });

  t.test('scoped: the mesh ports alone are captured', async (t) => {
    const http = seen(await get(scoped, VIP.shop, 18081, SHOP));
    t.match(http.headers['x-forwarded-client-cert'], /\/sa\/scoped$/);
    t.match(await node.tcp(scoped, { tcp: { host: VIP.shop, port: 18082 } }), { got: /^HELLO from shop-0:5432/ });
    t.match(await node.tcp(scoped, { tcp: { host: outside.ip4, port: 7000 } }), { got: /^HELLO from outside:7000/ });
    t.equal((await get(scoped, VIP.db, 18081, DB))?.status, 421);
    // 18082 of an address that is not the mesh's: nobody there can be meant.
    const lost = await node.tcp(scoped, { tcp: { host: outside.ip4, port: 18082 } });
    t.match(lost, { got: '', error: /closed|ECONNRESET/ });
  });
});
