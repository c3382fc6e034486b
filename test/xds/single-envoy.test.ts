// The single form in the real Envoy: every spelling, with nothing of the agent's in the pods' namespaces.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { formatTable } from '../../src/nft/text.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE } from '../support/xds-example.ts';
import { startXdsNode, type XdsNode, type XdsPod } from '../support/xds-node.ts';

const NODE = { ...EXAMPLE_NODE, captureForm: 'single' } as const;
const VIP = { shop: '10.96.0.50', shop6: 'fd96::50', db: '10.96.0.60', web: '10.96.0.51' };
const RAW = '\u0000\u0001raw';
const HTTP_BYTES = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

interface Mesh {
  readonly node: XdsNode;
  readonly pods: readonly XdsPod[];
  readonly client: XdsPod;
  readonly scoped: XdsPod;
  readonly outside: XdsPod;
  readonly services: readonly ServiceView[];
}

// The plugin's table alone: the agent may not write.
function program({ netns, pod }: XdsPod): void {
  const text = formatTable(planPluginTable({ redirectAll: pod.redirectAll, excludePorts: [], excludeRanges: [] }));
  execFileSync('nsenter', [`--net=${netns.path}`, '--', 'nft', '-f', '-'], { input: `flush ruleset\n${text}` });
}

async function startMesh(t: Test): Promise<Mesh> {
  const node = await startXdsNode(t, { program });
  const client = node.addPod('client-0', 'client', { port: '8080' });
  const scoped = node.addPod('scoped-0', 'scoped', { port: '8080', redirectAll: false });
  const shop = node.addPod('shop-0', 'shop', { port: '8080', ports: '8080,9000=tcp,5432=tcp' });
  const db = node.addPod('db-0', 'db', { port: '5432', protocol: 'tcp' });
  const outside = node.addPod('outside', 'outside', { port: '80' });
  await node.startApp(shop, 'http=8080', 'echo=9000', 'banner=5432');
  await node.startApp(db, 'banner=5432');
  await node.startApp(outside, 'http=80', 'echo=9000', 'banner=18082');
  const ports = { 8080: 'http', 9000: 'tcp', 5432: 'tcp' } as const;
  const services = [
    makeView('demo/db', [VIP.db], [{ ip: db.ip4, primary: 5432, ports: { 5432: 'tcp' } }]),
    makeView('demo/shop', [VIP.shop, VIP.shop6], [{ ip: shop.ip4, primary: 8080, ports }]),
    makeView('demo/web', [VIP.web], [{ ip: shop.ip4, primary: 8080, ports: { 8080: 'http' }, namespace: 'demo' }]),
  ];
  const pods = [client, scoped, shop, db];
  await node.publish(pods, { node: NODE, services });
  return { node, pods, client, scoped, outside, services };
}

const SHOP = 'shop.demo.aether.internal';

t.test('the single form in the real Envoy', async (t) => {
  const mesh = await startMesh(t);
  const { node, client, scoped, outside } = mesh;
  const http = async (from: XdsPod, host: string, port: number, authority: string) =>
    (await node.http(from, { http: { host, port, authority } }))[0];
  const chain = (name: string) => node.counter(`tcp.${name}.downstream_cx_total`);

  for (const [title, host, port] of [
    ['at port 80', VIP.shop, 80],
    ['over IPv6', VIP.shop6, 80],
    ['at the mesh port', VIP.shop, 18081],
    ['at a port that another service types TCP', VIP.shop, 5433],
    ['of a service without TCP, at the TCP port of another one', VIP.web, 9000],
  ] as const) {
    await t.test(`HTTP by name ${title} goes by authority`, async (t) => {
      const answer = await http(client, host, port, SHOP);
      t.equal(answer?.status, 200, answer?.error ?? '');
      t.match(answer?.body, /"app":"shop-0","port":8080.*\/sa\/client"/);
    });
  }

  for (const [title, host, port, send, expected, name] of [
    ['a declared port', VIP.shop, 9000, RAW, /^shop-0:9000/, 'cap_tcp_demo/shop_9000'],
    ['a declared port over IPv6', VIP.shop6, 9000, RAW, /^shop-0:9000/, 'cap_tcp_demo/shop_9000'],
    ['HTTP bytes at a TCP port', VIP.shop, 9000, HTTP_BYTES, /^shop-0:9000 GET/, 'cap_tcp_demo/shop_9000'],
    ['the TCP mesh port', VIP.shop, 18082, '', /^HELLO from shop-0:5432/, 'cap_tcp_demo/shop'],
    ['a pure-TCP service', VIP.db, 5432, RAW, /^HELLO from db-0:5432/, 'cap_tcp_demo/db_5432'],
    ['its TCP mesh port', VIP.db, 18082, '', /^HELLO from db-0:5432/, 'cap_tcp_demo/db'],
    ['any other port of it', VIP.db, 9999, RAW, /^HELLO from db-0:5432/, 'cap_tcp_anyport_demo/db'],
    ['a port of it that another service types TCP', VIP.db, 9000, RAW, /^HELLO from db-0/, 'cap_tcp_anyport_demo/db'],
  ] as const) {
    await t.test(`raw TCP: ${title} is taken by ${name}, promptly`, async (t) => {
      const before = await chain(name);
      const timeouts = await node.inspectorTimeouts();
      const { got, error } = await node.tcp(client, { tcp: { host, port }, send });
      t.match(got, expected, error ?? '');
      t.equal(await node.inspectorTimeouts(), timeouts);
      t.equal(await chain(name), before + 1);
    });
  }

  await t.test('a server that speaks first is kept waiting on its own port, the price of this form', async (t) => {
    const timeouts = await node.inspectorTimeouts();
    const { got, ms } = await node.tcp(client, { tcp: { host: VIP.db, port: 5432 }, waitMs: 10_000 });
    t.match(got, /^HELLO from db-0:5432/);
    t.ok(ms > 900, `${Math.round(ms)} ms`);
    t.equal(await node.inspectorTimeouts(), timeouts + 1);
  });

  await t.test('HTTP to a service without HTTP is answered 421, at any port but its own', async (t) => {
    for (const port of [80, 18081, 9999, 9000]) {
      t.equal((await http(client, VIP.db, port, 'db.demo.aether.internal'))?.status, 421, String(port));
    }
  });

  await t.test('18082 of a service without TCP leads nowhere', async (t) => {
    for (const send of ['', RAW, HTTP_BYTES]) {
      const timeouts = await node.inspectorTimeouts();
      const { got, error } = await node.tcp(client, { tcp: { host: VIP.web, port: 18082 }, send });
      t.match([got, error], ['', /closed|ECONNRESET/]);
      t.equal(await node.inspectorTimeouts(), timeouts);
    }
  });

  await t.test('what is not the mesh passes through, also at ports that services type TCP', async (t) => {
    const found = await http(client, outside.ip4, 80, 'example.com');
    t.match(found?.body, new RegExp(`"app":"outside".*"from":"${client.ip4.replaceAll('.', '\\.')}"`));
    const raw = await node.tcp(client, { tcp: { host: outside.ip4, port: 9000 }, send: RAW });
    t.match(raw.got, /^outside:9000/);
    t.match((await node.tcp(client, { tcp: { host: outside.ip4, port: 18082 } })).got, /^HELLO from outside:18082/);
  });

  await t.test('a dial straight to the capture port is closed, and loops nowhere', async (t) => {
    for (const host of ['127.0.0.1', '::1']) {
      for (const send of [RAW, HTTP_BYTES]) {
        t.match(await node.tcp(client, { tcp: { host, port: 18001 }, send }), { got: '', error: /closed|ECONNRESET/ });
      }
    }
  });

  await t.test('scoped: the mesh ports alone, and what they mean', async (t) => {
    t.match((await http(scoped, VIP.shop, 18081, SHOP))?.body, /\/sa\/scoped"/);
    t.match(await node.tcp(scoped, { tcp: { host: VIP.shop, port: 18082 } }), { got: /^HELLO from shop-0:5432/ });
    t.equal((await http(scoped, VIP.db, 18081, 'db.demo.aether.internal'))?.status, 421);
    const shim = await node.tcp(scoped, { tcp: { host: VIP.db, port: 18081 }, send: RAW });
    t.match(shim.got, /^HELLO from db-0/);
    for (const host of [VIP.web, outside.ip4]) {
      t.match(await node.tcp(scoped, { tcp: { host, port: 18082 }, send: RAW }), { got: '', error: /closed|RESET/ });
    }
    t.match(await node.tcp(scoped, { tcp: { host: outside.ip4, port: 9000 }, send: RAW }), { got: /^outside:9000/ });
  });
});

t.test('a service that comes keeps the open connections of the others', async (t) => {
  const { node, pods, client, services } = await startMesh(t);
  const pipe = "const s = require('net').connect(9000, process.argv[1]); process.stdin.pipe(s).pipe(process.stdout)";
  const held = spawn('nsenter', [`--net=${client.netns.path}`, '--', process.execPath, '-e', pipe, VIP.shop]);
  t.teardown(() => held.kill());
  let heard = '';
  held.stdout.setEncoding('utf8').on('data', (text: string) => {
    heard += text;
  });
  const say = async (word: string): Promise<void> => {
    held.stdin.write(`${word}\n`);
    await waitUntil(word, () => heard.includes(word), { timeoutMs: 20_000 });
  };
  await say('\u0001before');
  const more = makeView('demo/zoo', ['10.96.0.70'], [{ ip: '10.77.0.99', primary: 9000, ports: { 9000: 'tcp' } }]);
  await node.publish(pods, { node: NODE, services: [...services, more] });
  await say('with one more');
  await node.publish(pods, { node: NODE, services });
  await say('and one less');
  held.stdin.end();
  await once(held, 'exit');
});
