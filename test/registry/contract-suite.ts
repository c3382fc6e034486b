// What every registry backend must do, the embedded one and each client of a real one: one suite, called with a way to
// open an empty registry.
import t, { type Test } from 'tap';
import { type Endpoint, listPorts, protocolOf } from '../../src/mesh/endpoint.ts';
import type { ServiceKey } from '../../src/mesh/names.ts';
import type { Registry, ServiceWatch, WatchScope } from '../../src/registry/contract.ts';
import { makeEndpoint } from '../support/services.ts';

export interface OpenRegistry {
  readonly registry: Registry;
  close(): Promise<void>;
}

const SHOP: ServiceKey = { namespace: 'demo', serviceAccount: 'shop' };
const OTHER_SHOP: ServiceKey = { namespace: 'other', serviceAccount: 'shop' };
const MIXED = makeEndpoint({ ip: '10.1.2.3', primary: 8080, ports: { 5432: 'tcp', 8080: 'http', 9000: 'tcp' } });
const HTTP_PORT = { primary: 8080, ports: { 8080: 'http' } } as const;
/** How long a change may take to reach a watcher. */
const WATCH_BOUND_MS = 5000;

/** Runs the suite; each subtest opens its own registry. */
export function runRegistryContract(name: string, open: () => Promise<OpenRegistry>): void {
  const check = (title: string, body: (t: Test, registry: Registry) => Promise<void>): void => {
    void t.test(`${name}: ${title}`, async (sub) => {
      const opened = await open();
      sub.teardown(() => opened.close());
      await body(sub, opened.registry);
    });
  };
  checkListings(check);
  checkRemoval(check);
  checkWatch(check);
  checkScope(check);
}

type Check = (title: string, body: (t: Test, registry: Registry) => Promise<void>) => void;

async function registerBoth(registry: Registry, key: ServiceKey, endpoint: Endpoint): Promise<void> {
  await registry.registerEndpoint(key, 'http', endpoint);
  await registry.registerEndpoint(key, 'tcp', endpoint);
}

function checkListings(check: Check): void {
  check('an endpoint registered under both protocols stands whole in both listings', async (t, registry) => {
    await registerBoth(registry, SHOP, MIXED);
    for (const protocol of ['http', 'tcp'] as const) {
      const listed = await registry.listEndpoints(SHOP, protocol);
      t.strictSame(listed, [MIXED], protocol);
      t.ok(listPorts(MIXED).some((port) => protocolOf(MIXED, port, protocol) === protocol));
    }
  });
  check('one registered under one protocol is absent from the other', async (t, registry) => {
    await registry.registerEndpoint(SHOP, 'tcp', MIXED);
    t.strictSame(await registry.listEndpoints(SHOP, 'http'), []);
    t.equal((await registry.listAllEndpoints('http')).has('demo/shop'), false);
  });
  check('a promotion replaces what stood under the address, in each listing alone', async (t, registry) => {
    await registerBoth(registry, SHOP, { ...MIXED, health: 'unhealthy' });
    await registry.registerEndpoint(SHOP, 'http', { ...MIXED, health: 'healthy' });
    t.equal((await registry.listEndpoints(SHOP, 'http'))[0]?.health, 'healthy');
    t.equal((await registry.listEndpoints(SHOP, 'tcp'))[0]?.health, 'unhealthy');
    await registry.registerEndpoint(SHOP, 'tcp', { ...MIXED, health: 'healthy' });
    t.strictSame(await registry.listEndpoints(SHOP, 'tcp'), await registry.listEndpoints(SHOP, 'http'));
  });
  check('the listing of all services agrees with the listing of each', async (t, registry) => {
    await registerBoth(registry, SHOP, MIXED);
    await registry.registerEndpoint(
      OTHER_SHOP,
      'http',
      makeEndpoint({ ...HTTP_PORT, ip: '10.1.2.9', namespace: 'other' }),
    );
    for (const protocol of ['http', 'tcp'] as const) {
      const all = await registry.listAllEndpoints(protocol);
      for (const [name, key] of [['demo/shop', SHOP] as const, ['other/shop', OTHER_SHOP] as const]) {
        t.strictSame(all.get(name) ?? [], await registry.listEndpoints(key, protocol), `${protocol} ${name}`);
      }
    }
  });
  check('services of the same name in two namespaces are two', async (t, registry) => {
    await registry.registerEndpoint(SHOP, 'http', MIXED);
    const other = makeEndpoint({ ip: MIXED.ip, primary: 7000, ports: { 7000: 'http' }, namespace: 'other' });
    await registry.registerEndpoint(OTHER_SHOP, 'http', other);
    t.strictSame(await registry.listEndpoints(SHOP, 'http'), [MIXED]);
    t.strictSame(await registry.listEndpoints(OTHER_SHOP, 'http'), [other]);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    t.strictSame(await registry.listEndpoints(OTHER_SHOP, 'http'), [other]);
  });
  check('the order of registration does not show', async (t, registry) => {
    const ips = ['10.0.0.9', '10.0.0.10', '10.0.0.2', 'fd00::1'];
    for (const ip of ips) await registry.registerEndpoint(SHOP, 'http', makeEndpoint({ ...HTTP_PORT, ip }));
    for (const ip of ips.toReversed())
      await registry.registerEndpoint(OTHER_SHOP, 'http', makeEndpoint({ ...HTTP_PORT, ip }));
    const listed = (await registry.listEndpoints(SHOP, 'http')).map((endpoint) => endpoint.ip);
    t.strictSame(
      listed,
      (await registry.listEndpoints(OTHER_SHOP, 'http')).map((endpoint) => endpoint.ip),
    );
    t.strictSame(listed, ips.toSorted());
  });
}

function checkRemoval(check: Check): void {
  check('removal takes the address from every protocol and leaves the others', async (t, registry) => {
    const second = { ...MIXED, ip: '10.1.2.4' };
    await registerBoth(registry, SHOP, MIXED);
    await registerBoth(registry, SHOP, second);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    t.strictSame(await registry.listEndpoints(SHOP, 'http'), [second]);
    t.strictSame(await registry.listEndpoints(SHOP, 'tcp'), [second]);
  });
  check('removal of the last endpoint leaves no empty service; of an absent one is fine', async (t, registry) => {
    await registerBoth(registry, SHOP, MIXED);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    await registry.unregisterEndpoint(OTHER_SHOP, '10.9.9.9');
    for (const protocol of ['http', 'tcp'] as const) t.equal((await registry.listAllEndpoints(protocol)).size, 0);
  });
  check('an address that was removed can be registered again', async (t, registry) => {
    await registerBoth(registry, SHOP, MIXED);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    await registry.registerEndpoint(SHOP, 'tcp', MIXED);
    t.strictSame(await registry.listEndpoints(SHOP, 'http'), []);
    t.strictSame(await registry.listEndpoints(SHOP, 'tcp'), [MIXED]);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    t.strictSame(await registry.listEndpoints(SHOP, 'tcp'), [], 'and removed where it stands under one protocol alone');
  });
}

function checkWatch(check: Check): void {
  check('a watcher hears the keys that changed, writes and removals', async (t, registry) => {
    const heard = collectChanges(registry);
    await registerBoth(registry, SHOP, MIXED);
    await heard.until('demo/shop');
    heard.forget();
    await registry.registerEndpoint(OTHER_SHOP, 'http', makeEndpoint({ ...HTTP_PORT, ip: '10.1.2.9' }));
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    await heard.until('demo/shop', 'other/shop');
    heard[Symbol.dispose]();
    heard.forget();
    await registry.registerEndpoint(SHOP, 'http', MIXED);
    await new Promise((resolve) => setTimeout(resolve, 100));
    t.strictSame(heard.keys(), [], 'nothing after it was disposed');
  });
}

// What is not heard was not told: a later change that is heard comes after it.
function checkScope(check: Check): void {
  const endpoint = (ip: string, more: Partial<Endpoint> = {}): Endpoint => ({
    ...makeEndpoint({ ...HTTP_PORT, ip }),
    ...more,
  });
  check('a watcher of what is wanted hears of others only what changes their outline', async (t, registry) => {
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.3'));
    using heard = collectChanges(registry, 'wanted');
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.4'));
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.3', { health: 'unhealthy' }));
    await registry.registerEndpoint(OTHER_SHOP, 'http', endpoint('10.1.2.9', { namespace: 'other' }));
    await heard.until('other/shop');
    t.strictSame(heard.keys(), ['other/shop'], 'a new service, and no endpoint of a known one');
    await registry.registerEndpoint(SHOP, 'tcp', MIXED);
    await heard.until('demo/shop');
    heard.forget();
    await registry.unregisterEndpoint(OTHER_SHOP, '10.1.2.9');
    await heard.until('other/shop');
    t.strictSame(heard.keys(), ['other/shop'], 'and one that is gone');
  });
  check('what is wanted is heard from then on, until it is not any more', async (t, registry) => {
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.3'));
    using heard = collectChanges(registry, 'wanted');
    heard.watch.want(['demo/shop', 'demo/nobody']);
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.4'));
    await heard.until('demo/shop');
    heard.watch.unwant(['demo/shop', 'demo/stranger']);
    heard.forget();
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.5'));
    await registry.registerEndpoint(OTHER_SHOP, 'http', endpoint('10.1.2.9', { namespace: 'other' }));
    await heard.until('other/shop');
    t.strictSame(heard.keys(), ['other/shop']);
  });
  check('each watcher has its own scope', async (t, registry) => {
    using some = collectChanges(registry, 'wanted');
    using all = collectChanges(registry);
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.3'));
    await some.until('demo/shop');
    some.forget();
    await all.until('demo/shop');
    all.forget();
    await registry.registerEndpoint(SHOP, 'http', endpoint('10.1.2.4'));
    await all.until('demo/shop');
    t.strictSame(some.keys(), []);
  });
  check('every service is listed and described, by ports alone', async (t, registry) => {
    t.equal(await registry.describeService(SHOP), undefined);
    await registerBoth(registry, SHOP, MIXED);
    await registry.registerEndpoint(OTHER_SHOP, 'http', endpoint('10.1.2.9', { namespace: 'other' }));
    t.strictSame([...(await registry.listServices())].sort(), ['demo/shop', 'other/shop']);
    const ports = { httpPorts: [8080], tcpPorts: [5432, 9000], httpDefault: 8080, tcpDefault: 5432 };
    t.strictSame(await registry.describeService(SHOP), ports);
    await registry.unregisterEndpoint(SHOP, MIXED.ip);
    t.equal(await registry.describeService(SHOP), undefined);
    t.strictSame([...(await registry.listServices())], ['other/shop']);
  });
}

function collectChanges(
  registry: Registry,
  scope?: WatchScope,
): Disposable & {
  until(...keys: string[]): Promise<void>;
  forget(): void;
  keys(): string[];
  readonly watch: ServiceWatch;
} {
  const seen = new Set<string>();
  const watch = registry.watch((keys) => {
    for (const key of keys) seen.add(key);
  }, scope);
  return {
    watch,
    until: async (...keys) => {
      const end = Date.now() + WATCH_BOUND_MS;
      while (!keys.every((key) => seen.has(key))) {
        if (Date.now() > end) throw new Error(`no change heard of ${keys.join(', ')}; heard ${[...seen].join(', ')}`);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
    forget: () => seen.clear(),
    keys: () => [...seen],
    [Symbol.dispose]: () => watch[Symbol.dispose](),
  };
}
