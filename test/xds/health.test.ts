// The health gateway and endpoints that are not healthy, in the real Envoy.
import { request } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { type LabProcess, startProcess, waitUntil } from '../../scripts/lab/processes.ts';
import { ALL_HEALTHY_PATH, podHealthPath } from '../../src/xds/health.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE } from '../support/xds-example.ts';
import { startXdsNode, type XdsPod } from '../support/xds-node.ts';

const APP = join(import.meta.dirname, '../support/xds-app.ts');
const SHOP = 'shop.demo.aether.internal';

t.test('health in the real Envoy', async (t) => {
  const mesh = await startXdsNode(t);
  const healthSocket = join(mesh.dir, 'health.sock');
  const node = { ...EXAMPLE_NODE, healthSocket };
  const client = mesh.addPod('client-0', 'client', { port: '8080' });
  const shop = mesh.addPod('shop-0', 'shop', { port: '8080', ports: '8080,9000=tcp' });
  const db = mesh.addPod('db-0', 'db', { port: '5432', protocol: 'tcp' });
  const grpc = mesh.addPod('grpc-0', 'grpc', { port: '7070', ports: '7070=grpc' });
  const views = (health: 'healthy' | 'unhealthy') => [
    makeView(
      'demo/shop',
      ['10.96.0.50'],
      [{ ip: shop.ip4, primary: 8080, ports: { 8080: 'http', 9000: 'tcp' }, overrides: { health } }],
    ),
  ];
  const start = (pod: XdsPod, ...apps: readonly string[]): LabProcess => {
    const app = startProcess({
      name: `app of ${pod.name}`,
      command: [process.execPath, APP, pod.name, ...apps],
      logFile: join(mesh.dir, `${pod.name}.log`),
      netns: pod.netns.path,
    });
    t.teardown(() => app.stop());
    return app;
  };
  const ask = (path: string) => get(healthSocket, path);
  const turns = async (path: string, status: number): Promise<number> => {
    const begun = performance.now();
    await waitUntil(`${path} to be ${status}`, async () => (await ask(path)) === status, { timeoutMs: 20_000 });
    return performance.now() - begun;
  };
  const SHOP_PATH = podHealthPath('demo_shop-0');

  const apps = [start(client, 'http=8080'), start(db, 'banner=5432'), start(grpc, 'h2=7070')];
  await mesh.publish([client, shop, db, grpc], { node, services: views('healthy') });
  for (const name of ['client-0', 'db-0', 'grpc-0']) await turns(podHealthPath(`demo_${name}`), 200);
  t.equal(await ask(SHOP_PATH), 503, 'nothing listens');
  t.equal(await ask(ALL_HEALTHY_PATH), 503);
  t.equal(await ask(podHealthPath('demo_nobody-0')), 404, 'a pod that Envoy does not have');

  const app = start(shop, 'http=8080', 'echo=9000');
  await waitUntil('the application', () => app.tail().includes('http=8080'), { timeoutMs: 20_000 });
  // Envoy's own interval is a minute.
  const seenMs = await turns(SHOP_PATH, 200);
  t.ok(seenMs < 15_000, `seen ${Math.round(seenMs)} ms after it listens`);
  t.equal(await ask(ALL_HEALTHY_PATH), 200);
  const ready = async () =>
    (await mesh.http(client, { http: { host: '10.96.0.50', port: 80, authority: SHOP, path: '/-/-/ready' } }))[0];
  t.equal((await ready())?.status, 200, 'the way to it is ready');

  // Told by the registry: the endpoint stays and gets nothing, and a caller learns that at once.
  await mesh.publish([client, shop, db, grpc], { node, services: views('unhealthy') });
  const clusters = await mesh.admin('/clusters');
  t.match(clusters, new RegExp(`${SHOP}::${shop.ip4.replaceAll('.', '\\.')}:18008::health_flags::/failed_eds_health`));
  const [http] = await mesh.http(client, { http: { host: '10.96.0.50', port: 80, authority: SHOP } });
  t.equal(http?.status, 503);
  t.ok((http?.ms ?? 1e9) < 5000, `503 after ${http?.ms} ms`);
  const tcp = await mesh.tcp(client, { tcp: { host: '10.96.0.50', port: 9000 }, send: 'x' });
  t.match(tcp, { got: '', error: /closed|ECONNRESET/ });
  await mesh.publish([client, shop, db, grpc], { node, services: views('healthy') });
  t.match(await mesh.tcp(client, { tcp: { host: '10.96.0.50', port: 9000 }, send: 'x' }), { got: 'shop-0:9000 x' });

  await app.stop();
  const goneMs = await turns(SHOP_PATH, 503);
  t.ok(goneMs < 15_000, `gone ${Math.round(goneMs)} ms after it ended`);
  t.equal((await ready())?.status, 503, 'the way to it is not ready');

  // A pod that goes takes its cluster and its place in the gateway along.
  await mesh.publish([client, db, grpc], { node, services: [] });
  t.equal(await ask(SHOP_PATH), 404);
  t.equal(await ask(ALL_HEALTHY_PATH), 200);
  t.equal(apps.filter((each) => each.isAlive()).length, 3);
});

function get(socketPath: string, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    call.on('error', reject).end();
  });
}
