// Nothing that listens on the host's loopback (Envoy's admin interface, the kubelet, databases) can be reached from a pod through
// Envoy, which runs in the host's namespace: not by dialling our listeners, not by a destination that is forged with rules of
// the pod's own.
import t from 'tap';
import { DialClient } from '../../scripts/lab/dial-client.ts';
import { execIn } from '../support/netns.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE } from '../support/xds-example.ts';
import { startXdsNode, type XdsNode, type XdsPod } from '../support/xds-node.ts';

const SHOP = 'shop.demo.aether.internal';
const VIP = '10.96.0.50';
/** Ports on every address of the host, its whole 127/8 and ::1 among them. */
const HOST_HTTP = 7777;
const HOST_BANNER = 7778;
const LISTENERS = [18001, 18002, 18003, 18004, 18008, 18081];
const LOOPBACKS = ['127.0.0.1', '127.0.0.2', '127.255.255.254', '::1', '::ffff:127.0.0.1'];

async function start(t: { teardown(fn: () => unknown): unknown }): Promise<{ node: XdsNode; pods: readonly XdsPod[] }> {
  const node = await startXdsNode(t);
  const client = node.addPod('client-0', 'client', { port: '8080' });
  const scoped = node.addPod('scoped-0', 'scoped', { port: '8080', redirectAll: false });
  const shop = node.addPod('shop-0', 'shop', { port: '8080', ports: '8080,7778=tcp' });
  await node.startApp(shop, 'http=8080', 'banner=7778');
  await node.startApp({ name: 'the-host', netns: node.netns }, `http=${HOST_HTTP}`, `banner=${HOST_BANNER}`);
  const ports = { 8080: 'http', 7778: 'tcp' } as const;
  const services = [makeView('demo/shop', [VIP, 'fd96::50'], [{ ip: shop.ip4, primary: 8080, ports }])];
  await node.publish([client, scoped, shop], { node: EXAMPLE_NODE, services });
  return { node, pods: [client, scoped] };
}

const get = (authority: string): string => `GET / HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`;

t.setTimeout(120_000);
const { node, pods } = await start(t);

t.test('the host answers, and the service does: what follows would be seen', async (t) => {
  const [client] = pods;
  if (client === undefined) return;
  const [direct] = await node.http(client, { http: { host: '10.77.0.1', port: HOST_HTTP, authority: 'host' } });
  t.match(direct?.body, /the-host/, 'on its address in the pods’ network');
  t.match(await node.tcp(client, { tcp: { host: VIP, port: 7778 } }), { got: /^HELLO from shop-0/ });
});

interface Attempt {
  readonly host: string;
  readonly port: number;
  readonly send: string;
  readonly waitMs: number;
}

const RAW = '\u0001\u0002raw';
const PARALLEL = 6;

/** Dials all; what answered as the host. */
async function findHost(pod: XdsPod, attempts: readonly Attempt[]): Promise<readonly string[]> {
  const found: string[] = [];
  const waiting = [...attempts];
  const work = async (): Promise<void> => {
    using client = new DialClient(pod.netns.path, '127.0.0.1');
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { host, port, send, waitMs } = next;
      const report = await client.dial({ kind: 'raw', host, port, family: 4, text: send, timeoutMs: waitMs });
      if (report.text?.includes('the-host')) found.push(`${host}:${port} ${JSON.stringify(send)}`);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return found;
}

for (const pod of pods) {
  t.test(`${pod.name}: no dial to a listener of ours leads to the host, whatever is asked for`, async (t) => {
    const texts = [`127.0.0.1:${HOST_HTTP}`, `localhost:${HOST_HTTP}`, `[::1]:${HOST_HTTP}`, SHOP].map(get);
    const attempts = ['127.0.0.1', '127.0.0.2', '::1'].flatMap((host) =>
      LISTENERS.flatMap((port) => [...texts, RAW].map((send) => ({ host, port, send, waitMs: 400 }))),
    );
    t.strictSame(await findHost(pod, attempts), []);
  });

  for (const [listener, prefix] of [
    [18001, 'capture'],
    [18002, 'capture_tcp'],
    [18003, 'capture_shim'],
  ] as const) {
    t.test(`${pod.name}: no destination that its own rules forge at ${listener} leads to the host`, async (t) => {
      const ports = [HOST_HTTP, HOST_BANNER];
      const rules = ports.map((port) => `add rule inet forger output tcp dport ${port} redirect to :${listener}`);
      const table = 'table inet forger { chain output { type nat hook output priority -150; }; }';
      execIn(pod.netns, ['nft', '-f', '-'], { input: `${table}\n${rules.join('\n')}\n` });
      const attempts = LOOPBACKS.flatMap((host) => [
        { host, port: HOST_HTTP, send: get(`${host}:${HOST_HTTP}`), waitMs: 1500 },
        { host, port: HOST_BANNER, send: RAW, waitMs: 1500 },
      ]);
      const taken = `listener.${prefix}_demo_${pod.name}.downstream_cx_total`;
      const before = await node.counter(taken);
      t.strictSame(await findHost(pod, attempts), []);
      t.equal((await node.counter(taken)) - before, attempts.length, 'and each came to it');
      execIn(pod.netns, ['nft', 'delete', 'table', 'inet', 'forger']);
    });
  }
}

t.test('what passes through comes from the pod’s own address', async (t) => {
  const [client] = pods;
  if (client === undefined) return;
  for (const [host, own] of [
    ['10.77.0.1', client.ip4],
    ['fd77::1', client.ip6],
  ] as const) {
    const [answer] = await node.http(client, { http: { host, port: HOST_HTTP, authority: 'example.com' } });
    t.match(JSON.parse(answer?.body ?? '{}'), { app: 'the-host', from: own }, `HTTP to ${host}`);
    const raw = await node.tcp(client, { tcp: { host, port: HOST_BANNER }, send: '\u0001\u0002' });
    t.match(raw.got, `HELLO from the-host:${HOST_BANNER} ${own}`, `TCP to ${host}`);
  }
});
