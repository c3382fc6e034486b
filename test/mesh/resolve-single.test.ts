// The resolution rule in the single form, row by row. test/e2e/resolve-agreement-single.test.ts holds it against the real
// kernel and Envoy.
import t from 'tap';
import type { Resolution } from '../../src/mesh/resolution.ts';
import { resolve } from '../../src/mesh/resolve.ts';
import type { FirstBytes } from '../../src/mesh/resolve-in-kernel.ts';
import { exampleServices, makeIp } from '../support/services.ts';

const { shop, db, web } = exampleServices();
const SHOP = 'shop.demo.aether.internal';
const DB = 'db.demo.aether.internal';
const HOSTS = {
  shop: '10.96.0.50',
  db: '10.96.0.60',
  web: '10.96.0.51',
  other: '192.0.2.1',
  self: '127.0.0.1',
} as const;
/** Dialled host, port, first bytes, what redirect-all gives, what scoped gives. */
type Row = readonly [keyof typeof HOSTS, number, FirstBytes, string, string];

function show(resolution: Resolution): string {
  if (!('by' in resolution)) return resolution.kind;
  const { by, kind } = resolution;
  const end = kind === 'mesh' ? resolution.cluster : kind === 'status' ? resolution.status : kind;
  return `${by.listenerPort}${by.waits ? '~' : ''} ${by.chain} ${end}`;
}

const ROWS: readonly Row[] = [
  ['shop', 80, 'http', `18001 capture ${SHOP}`, 'direct'],
  ['shop', 18081, 'http', `18001 capture ${SHOP}`, `18001 capture ${SHOP}`],
  ['shop', 18081, 'raw', '18001 cap_passthrough passthrough', '18001 capture 400'],
  ['shop', 18082, 'silent', `18001 cap_tcp_demo/shop tcp:${SHOP}`, `18001 cap_tcp_demo/shop tcp:${SHOP}`],
  ['shop', 9000, 'raw', `18001 cap_tcp_demo/shop_9000 tcp:${SHOP}:9000`, 'direct'],
  ['shop', 9000, 'silent', `18001~ cap_tcp_demo/shop_9000 tcp:${SHOP}:9000`, 'direct'],
  ['db', 18081, 'http', '18001 capture 421', '18001 capture 421'],
  ['db', 18081, 'raw', `18001 cap_tcp_anyport_demo/db tcp:${DB}`, `18001 cap_tcp_anyport_demo/db tcp:${DB}`],
  ['db', 4444, 'silent', `18001~ cap_tcp_anyport_demo/db tcp:${DB}`, 'direct'],
  ['web', 18082, 'http', '18001 cap_tcp_blackhole closed', '18001 cap_tcp_blackhole closed'],
  ['other', 18082, 'http', '18001 cap_passthrough passthrough', '18001 cap_tcp_blackhole closed'],
  ['other', 18081, 'silent', '18001~ cap_passthrough passthrough', '18001~ capture held'],
  ['self', 18001, 'raw', '18001 cap_tcp_blackhole closed', '18001 cap_tcp_blackhole closed'],
  ['self', 18002, 'raw', 'direct', 'direct'],
];

for (const redirectAll of [true, false]) {
  t.test(`resolve() in the single form, ${redirectAll ? 'redirect-all' : 'scoped'}`, (t) => {
    for (const [host, port, bytes, all, scoped] of ROWS) {
      const name = host === 'db' ? DB : SHOP;
      const dial = { address: makeIp(HOSTS[host]), port, bytes, ...(bytes === 'http' ? { authority: name } : {}) };
      const scope = { redirectAll, excludePorts: [], excludeRanges: [] };
      const context = {
        scope,
        services: [db, shop, web],
        domain: 'aether.internal',
        tcp: true,
        form: 'single',
      } as const;
      t.equal(show(resolve(dial, context)), redirectAll ? all : scoped, `${bytes} to ${host}:${port}`);
    }
    t.end();
  });
}

t.test('resolve() in the single form without identities: no TCP, and 18082 leads nowhere', (t) => {
  const scope = { redirectAll: true, excludePorts: [], excludeRanges: [] };
  const context = { scope, services: [db, shop], domain: 'aether.internal', tcp: false, form: 'single' } as const;
  const to = (host: keyof typeof HOSTS, port: number) =>
    show(resolve({ address: makeIp(HOSTS[host]), port, bytes: 'raw' }, context));
  t.equal(to('db', 18082), '18001 cap_tcp_blackhole closed');
  t.equal(to('db', 5432), '18001 cap_passthrough passthrough');
  t.end();
});
