// The services that a node knows: what is read again after a change, how long a name keeps its address, and that nobody is
// told of an address that is not on disk. Registry and disk fail when told to.
import t from 'tap';
import { SERVICE_RETENTION_MS, ServiceCatalog, type ServiceCatalogOptions } from '../../src/agent/service-catalog.ts';
import type { VipLease } from '../../src/agent/vip-allocator.ts';
import type { VipPins } from '../../src/agent/vip-pins.ts';
import { RegistryError, StoreError } from '../../src/core/errors.ts';
import { parseIpRange } from '../../src/core/ip.ts';
import type { Protocol } from '../../src/mesh/port-protocols.ts';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';
import { TestClock } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { makeEndpoint, makeIp } from '../support/services.ts';

const SHOP = { namespace: 'demo', serviceAccount: 'shop' };

function make(more: Partial<ServiceCatalogOptions> = {}) {
  const registry = new EmbeddedRegistry();
  const clock = new TestClock();
  const saved: (readonly VipLease[])[] = [];
  const state = { expired: 0, disk: [] as readonly VipLease[], diskFull: false };
  const vips = {
    load: async () => ({ leases: state.disk }),
    save: async (leases: readonly VipLease[]) => {
      if (state.diskFull) throw new StoreError('writing vips.json: no space');
      saved.push(leases);
      state.disk = leases;
    },
  };
  const ranges = ['10.254.0.0/16', 'fd0a:e7e0::/112'].flatMap((text) => parseIpRange(text) ?? []);
  const catalog = new ServiceCatalog({
    registry,
    vips,
    clock,
    log: new RecordingLog(),
    domain: 'aether.internal',
    ranges,
    pins: new Map(),
    onExpire: () => state.expired++,
    ...more,
  });
  const serve = async (key: typeof SHOP, ip: string, protocol: Protocol = 'http'): Promise<void> => {
    await registry.registerEndpoint(key, protocol, makeEndpoint({ ip, primary: 8080, ports: { 8080: protocol } }));
    catalog.mark([`${key.namespace}/${key.serviceAccount}`]);
  };
  return { registry, clock, catalog, state, saved, serve };
}

t.test('update() builds a view of what was marked, and only of that', async (t) => {
  const { catalog, serve, saved } = make();
  await serve(SHOP, '10.0.0.1');
  await serve({ ...SHOP, namespace: 'other' }, '10.0.0.2');
  await catalog.update();
  const [shop, other] = catalog.views;
  t.strictSame(
    catalog.views.map(({ fqdn }) => fqdn),
    ['shop.demo.aether.internal', 'shop.other.aether.internal'],
  );
  t.equal(catalog.find(SHOP)?.length, 2);
  t.equal(saved.length, 1, 'addresses are on disk');
  t.ok(catalog.hasNamespace('other'));
  const views = catalog.views;
  catalog.mark(['demo/shop']);
  await catalog.update();
  t.equal(catalog.views, views, 'the same endpoints: nothing changed');
  await serve(SHOP, '10.0.0.9');
  await catalog.update();
  t.not(catalog.views[0], shop);
  t.equal(catalog.views[1], other, 'the same object');
  t.equal(saved.length, 1, 'and no address was looked for');
});

t.test('a service keeps its name and address for a while after its last endpoint', async (t) => {
  const { catalog, registry, clock, state, serve } = make();
  await serve(SHOP, '10.0.0.1');
  await catalog.update();
  const vips = catalog.find(SHOP);
  await registry.unregisterEndpoint(SHOP, '10.0.0.1');
  catalog.mark(['demo/shop']);
  await catalog.update();
  t.strictSame(catalog.find(SHOP), vips);
  t.equal(catalog.views[0]?.hasEndpoints, false);
  clock.advance(SERVICE_RETENTION_MS - 1);
  t.equal(state.expired, 0);
  await serve(SHOP, '10.0.0.2');
  await catalog.update();
  clock.advance(SERVICE_RETENTION_MS);
  await catalog.update();
  t.strictSame(catalog.find(SHOP), vips, 'back in time');
  await registry.unregisterEndpoint(SHOP, '10.0.0.2');
  catalog.mark(['demo/shop']);
  await catalog.update();
  clock.advance(SERVICE_RETENTION_MS);
  t.equal(state.expired, 1, 'asks for an update when the time is over');
  await catalog.update();
  t.equal(catalog.find(SHOP), undefined);
  t.equal(catalog.hasNamespace('demo'), false);
  await serve(SHOP, '10.0.0.3');
  await catalog.update();
  t.strictSame(catalog.find(SHOP), vips, 'within the day it gets its own address back');
});

t.test('setPins() moves addresses and makes services known that nobody serves', async (t) => {
  const pins: VipPins = new Map([['demo/idle', [makeIp('10.96.0.70')]]]);
  const { catalog, serve } = make({ pins });
  await serve(SHOP, '10.0.0.1');
  await catalog.update();
  t.equal(catalog.find({ namespace: 'demo', serviceAccount: 'idle' })?.[0]?.text, '10.96.0.70');
  catalog.setPins(new Map([['demo/shop', [makeIp('10.96.0.50')]]]));
  await catalog.update();
  t.equal(catalog.find(SHOP)?.[0]?.text, '10.96.0.50');
  t.equal(catalog.find({ namespace: 'demo', serviceAccount: 'idle' }), undefined);
});

t.test('update() with the registry away keeps what is known, and looks again', async (t) => {
  const { catalog, registry, serve } = make();
  await serve(SHOP, '10.0.0.1');
  await catalog.update();
  const list = registry.listEndpoints.bind(registry);
  registry.listEndpoints = async () => {
    throw new RegistryError('listing: away', { retryable: true });
  };
  await registry.unregisterEndpoint(SHOP, '10.0.0.1');
  catalog.mark(['demo/shop']);
  await t.rejects(catalog.update(), { code: 'E_REGISTRY' });
  t.equal(catalog.views[0]?.hasEndpoints, true);
  registry.listEndpoints = list;
  await catalog.update();
  t.equal(catalog.views[0]?.hasEndpoints, false, 'the mark was kept');
});

t.test('update() tells nobody of an address that is not on disk', async (t) => {
  const { catalog, state, serve } = make();
  state.diskFull = true;
  await serve(SHOP, '10.0.0.1');
  await t.rejects(catalog.update(), { code: 'E_STORE' });
  t.strictSame(catalog.views, []);
  state.diskFull = false;
  await catalog.update();
  t.equal(catalog.views.length, 1, 'and comes back to it');
  state.diskFull = true;
  await serve(SHOP, '10.0.0.2');
  await serve({ ...SHOP, serviceAccount: 'cart' }, '10.0.0.3');
  await t.rejects(catalog.update(), { code: 'E_STORE' });
  t.strictSame(
    catalog.views.map(({ http }) => http[0]?.endpoints.length),
    [2],
    'known services go on changing',
  );
  state.diskFull = false;
  await catalog.update();
  t.equal(catalog.views.length, 2);
});

t.test('a range that is used up is said', async (t) => {
  const { catalog, serve } = make({ ranges: ['10.9.0.0/30'].flatMap((text) => parseIpRange(text) ?? []) });
  await serve(SHOP, '10.0.0.1');
  await serve({ ...SHOP, serviceAccount: 'zoo' }, '10.0.0.2');
  await catalog.update();
  t.strictSame(catalog.problems, ['the range 10.9.0.0/30 is used up: no IPv4 address for demo/zoo']);
});

t.test('update() keeps the mark of a change that comes while the registry answers', async (t) => {
  const { registry, catalog, serve } = make();
  const list = registry.listEndpoints.bind(registry);
  let meanwhile = async (): Promise<void> => {};
  registry.listEndpoints = async (key, protocol) => {
    const found = await list(key, protocol);
    const once = meanwhile;
    meanwhile = async () => {};
    await once();
    return found;
  };
  await serve(SHOP, '10.0.0.1');
  meanwhile = () => serve(SHOP, '10.0.0.2');
  await catalog.update();
  await catalog.update();
  const ips = catalog.views[0]?.http[0]?.endpoints.map(({ ip }) => ip);
  t.strictSame(ips, ['10.0.0.1', '10.0.0.2']);
});

t.test('update() takes in pins that come while the leases are written', async (t) => {
  let meanwhile = (): void => {};
  const vips = {
    load: async () => ({ leases: [] }),
    save: async () => {
      await Promise.resolve();
      meanwhile();
    },
  };
  const { catalog, serve } = make({ vips });
  await serve(SHOP, '10.0.0.1');
  meanwhile = () => catalog.setPins(new Map([['demo/shop', [makeIp('10.96.0.50')]]]));
  await catalog.update();
  meanwhile = () => {};
  await catalog.update();
  t.ok(catalog.find(SHOP)?.some(({ text }) => text === '10.96.0.50'));
});

t.test('a scoped catalog reads the endpoints of what is needed, and of what has a TCP port', async (t) => {
  const { catalog, registry, serve } = make({ isScoped: true });
  const read: string[] = [];
  const list = registry.listEndpoints.bind(registry);
  registry.listEndpoints = async (key, protocol) => {
    read.push(key.serviceAccount);
    return list(key, protocol);
  };
  let asks = 0;
  catalog.follow(() => asks++);
  const update = async (...needed: string[]) => {
    await new Promise(setImmediate);
    read.length = 0;
    await catalog.update(new Set(needed));
    return [...new Set(read)].sort();
  };
  const countEndpoints = () => catalog.views.map(({ http, tcp }) => (http[0] ?? tcp[0])?.endpoints.length);
  await serve(SHOP, '10.0.0.1');
  await serve({ ...SHOP, serviceAccount: 'far' }, '10.0.0.2');
  await serve({ ...SHOP, serviceAccount: 'db' }, '10.0.0.3', 'tcp');
  t.strictSame(await update('demo/shop', 'demo/nobody'), ['db', 'shop']);
  t.strictSame(countEndpoints(), [1, 0, 1]);
  t.match(catalog.views[1], { hasEndpoints: true, httpDefault: { port: 8080 }, vips: [{ family: 4 }, { family: 6 }] });
  t.ok(catalog.isOutlined({ ...SHOP, serviceAccount: 'far' }));
  t.match((await catalog.readWholeViews())[1], { vips: [{}, {}], http: [{ endpoints: [{ ip: '10.0.0.2' }] }] });
  await new Promise(setImmediate);
  asks = 0;

  const endpoint = makeEndpoint({ ip: '10.0.0.9', primary: 8080, ports: { 8080: 'http' } });
  await registry.registerEndpoint({ ...SHOP, serviceAccount: 'far' }, 'http', endpoint);
  await new Promise(setImmediate);
  t.equal(asks, 0, 'an endpoint of what nobody needs asks for nothing');
  t.strictSame(await update('demo/shop'), []);
  t.strictSame(await update('demo/far'), ['far'], 'what comes is read, what goes is let go');
  t.strictSame(countEndpoints(), [1, 2, 0]);
  await registry.registerEndpoint(SHOP, 'http', endpoint);
  await new Promise(setImmediate);
  t.equal(asks, 0);
  await registry.registerEndpoint({ ...SHOP, serviceAccount: 'far' }, 'http', { ...endpoint, ip: '10.0.0.10' });
  t.strictSame(await update('demo/far'), ['far']);
  t.equal(asks, 1);
  t.strictSame(countEndpoints(), [1, 3, 0]);

  await registry.registerEndpoint(
    SHOP,
    'tcp',
    makeEndpoint({ ip: '10.0.0.11', primary: 9000, ports: { 9000: 'tcp' } }),
  );
  t.strictSame(await update('demo/far'), ['shop'], 'a TCP port makes it needed');
  await registry.unregisterEndpoint(SHOP, '10.0.0.11');
  t.strictSame(await update('demo/far'), []);
  t.strictSame(countEndpoints(), [1, 3, 0], 'as long as it has one');
  await registry.unregisterEndpoint({ ...SHOP, serviceAccount: 'db' }, '10.0.0.3');
  await update('demo/far');
  t.equal(catalog.views[0]?.hasEndpoints, false);
});
