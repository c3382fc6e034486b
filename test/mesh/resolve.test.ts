// The resolution rule in the split form, row by row, in both capture modes and families. test/e2e/resolve-agreement.test.ts
// holds it against the real kernel and Envoy.
import t, { type Test } from 'tap';
import { parseIpRange } from '../../src/core/ip.ts';
import type { Resolution } from '../../src/mesh/resolution.ts';
import { resolve } from '../../src/mesh/resolve.ts';
import type { CaptureScope, FirstBytes } from '../../src/mesh/resolve-in-kernel.ts';
import { exampleServices, makeIp } from '../support/services.ts';

const { shop, db, web, idle } = exampleServices();
const services = [db, idle, shop, web];
const V4 = { shop: '10.96.0.50', db: '10.96.0.60', web: '10.96.0.51', idle: '10.96.0.70', other: '192.0.2.1' };
const V6 = { shop: 'fd96::50', db: 'fd96::60', web: 'fd96::51', idle: 'fd96::70', other: '2001:db8::1' };
type Host = keyof typeof V4;
/** Dialled host, port, first bytes, authority. */
type Row = readonly [Host, number, FirstBytes, string | undefined, string];

/** `18002 cap_tcp tcp:10.96.0.50:9000 -> 9000`, with `~` where the inspectors wait. */
function show(resolution: Resolution): string {
  if (resolution.kind === 'direct') return `direct ${resolution.reason}`;
  if (resolution.kind === 'dns' || resolution.kind === 'reset') return resolution.kind;
  const by = `${resolution.by.listenerPort}${resolution.by.waits ? '~' : ''} ${resolution.by.chain}`;
  if (resolution.kind === 'status') return `${by} ${resolution.status}`;
  if (resolution.kind !== 'mesh') return `${by} ${resolution.kind}`;
  return `${by} ${resolution.cluster} -> ${resolution.bucket.port}`;
}

function scope(redirectAll: boolean, more: Partial<CaptureScope> = {}): CaptureScope {
  return { redirectAll, excludePorts: [], excludeRanges: [], ...more };
}

function check(t: Test, rows: readonly Row[], captureScope: CaptureScope): void {
  for (const [hosts, family] of [
    [V4, 'IPv4'],
    [V6, 'IPv6'],
  ] as const) {
    for (const [host, port, bytes, authority, want] of rows) {
      const dial = { address: makeIp(hosts[host]), port, bytes, ...(authority === undefined ? {} : { authority }) };
      const seen = show(resolve(dial, { scope: captureScope, services, domain: 'aether.internal', tcp: true }));
      t.equal(seen, want.replace('$', hosts[host]), `${family} ${bytes} ${authority ?? ''} to ${host}:${port}`);
    }
  }
}

const SHOP = 'shop.demo.aether.internal';
const DB = 'db.demo.aether.internal';

t.test('resolve() under redirect-all', (t) => {
  check(
    t,
    [
      ['shop', 80, 'http', SHOP, `18001 capture ${SHOP} -> 8080`],
      ['shop', 18081, 'http', `${SHOP}:18081`, `18001 capture ${SHOP} -> 8080`],
      ['shop', 8080, 'http', `${SHOP}:8080`, `18001 capture ${SHOP}:8080 -> 8080`],
      ['shop', 9090, 'http', `${SHOP}:9090`, `18001 capture ${SHOP}:9090 -> 9090`],
      ['shop', 80, 'http', 'shop.demo.svc.cluster.local', `18001 capture ${SHOP} -> 8080`],
      ['shop', 18082, 'raw', undefined, '18002 cap_tcp tcp:$:18082 -> 5432'],
      ['shop', 5432, 'raw', undefined, '18002 cap_tcp tcp:$:5432 -> 5432'],
      ['shop', 9000, 'raw', undefined, '18002 cap_tcp tcp:$:9000 -> 9000'],
      ['shop', 9000, 'http', `${SHOP}:9000`, '18002 cap_tcp tcp:$:9000 -> 9000'],
      ['shop', 9000, 'silent', undefined, '18002 cap_tcp tcp:$:9000 -> 9000'],
      ['shop', 9001, 'raw', undefined, '18001 cap_passthrough passthrough'],
      ['shop', 9001, 'silent', undefined, '18001~ cap_passthrough passthrough'],
      ['shop', 443, 'tls', undefined, '18001 cap_passthrough passthrough'],
      ['shop', 9999, 'http', `${SHOP}:9999`, '18001 capture 503'],
      ['shop', 80, 'http', `${SHOP}:18082`, '18001 capture 503'],
      ['shop', 80, 'http', `${SHOP}:08080`, '18001 capture 503'],
      ['shop', 80, 'http', undefined, '18001 capture 400'],
      ['shop', 80, 'http', '', '18001 capture passthrough'],
      ['web', 18082, 'raw', undefined, 'reset'],
      ['web', 18082, 'http', undefined, 'reset'],
      ['web', 9000, 'http', 'web.demo.aether.internal', '18001 capture web.demo.aether.internal -> 8080'],
      ['web', 9000, 'raw', undefined, '18001 cap_passthrough passthrough'],
      ['db', 5432, 'silent', undefined, '18002 cap_tcp tcp:$:5432 -> 5432'],
      ['db', 18082, 'silent', undefined, '18002 cap_tcp tcp:$:18082 -> 5432'],
      ['db', 80, 'http', DB, '18003 capture 421'],
      ['db', 18081, 'http', `${DB}:18081`, '18003 capture 421'],
      ['db', 9999, 'raw', undefined, '18003 cap_tcp_anyport tcp:$:18082 -> 5432'],
      ['db', 9999, 'silent', undefined, '18003~ cap_tcp_anyport tcp:$:18082 -> 5432'],
      ['db', 443, 'tls', undefined, '18003 cap_tcp_anyport tcp:$:18082 -> 5432'],
      ['idle', 80, 'http', 'idle.demo.aether.internal', '18001 capture 503'],
      ['idle', 18082, 'raw', undefined, 'reset'],
      ['other', 80, 'http', 'example.com', '18001 capture passthrough'],
      ['other', 80, 'http', 'ghost.demo.aether.internal', '18001 capture 503'],
      ['other', 18082, 'raw', undefined, '18001 cap_passthrough passthrough'],
      ['other', 443, 'tls', undefined, '18001 cap_passthrough passthrough'],
      ['shop', 18001, 'raw', undefined, 'direct capture-port'],
      ['shop', 18004, 'raw', undefined, 'direct capture-port'],
    ],
    scope(true),
  );
  t.end();
});

t.test('resolve() in scoped mode', (t) => {
  check(
    t,
    [
      ['shop', 18081, 'http', `${SHOP}:18081`, `18001 capture ${SHOP} -> 8080`],
      ['shop', 18082, 'raw', undefined, '18002 cap_tcp tcp:$:18082 -> 5432'],
      ['shop', 9000, 'raw', undefined, 'direct not-captured'],
      ['shop', 80, 'http', SHOP, 'direct not-captured'],
      ['shop', 18081, 'raw', undefined, '18001 capture 400'],
      ['shop', 18081, 'tls', undefined, '18001 capture 400'],
      ['shop', 18081, 'silent', undefined, '18001~ capture held'],
      ['web', 18082, 'raw', undefined, 'reset'],
      ['db', 18082, 'silent', undefined, '18002 cap_tcp tcp:$:18082 -> 5432'],
      ['db', 18081, 'http', `${DB}:18081`, '18003 capture 421'],
      ['db', 18081, 'raw', undefined, '18003 cap_tcp_anyport tcp:$:18082 -> 5432'],
      ['db', 5432, 'raw', undefined, 'direct not-captured'],
      ['other', 18082, 'raw', undefined, '18001 cap_tcp_blackhole closed'],
      ['other', 18081, 'http', 'example.com', '18001 capture passthrough'],
    ],
    scope(false),
  );
  t.end();
});

t.test('resolve() lets pass what must not be captured', (t) => {
  const range = parseIpRange('10.96.0.50');
  if (range === undefined) throw new Error('no range');
  const excluding = scope(true, {
    excludePorts: [{ first: 9000, last: 9010 }],
    excludeRanges: [range],
    dns: { address: makeIp('192.168.0.1'), port: 18054 },
  });
  const cases: readonly [string, string, number, number, string][] = [
    ['own mark', '10.96.0.60', 5432, 0xae7e, 'direct marked'],
    ['another mark', '10.96.0.60', 5432, 1, '18002 cap_tcp tcp:10.96.0.60:5432 -> 5432'],
    ['loopback', '127.0.0.1', 18081, 0, 'direct loopback'],
    ['another loopback', '127.0.0.2', 18001, 0, 'direct loopback'],
    ['a capture listener, dialled straight', '127.0.0.1', 18001, 0, '18001 cap_tcp_blackhole closed'],
    ['the TCP listener, dialled straight', '127.0.0.1', 18002, 0, '18002 cap_tcp closed'],
    ['the shim, dialled straight over IPv6', '::1', 18003, 0, '18003 cap_tcp_blackhole closed'],
    ['no listener', '127.0.0.1', 18004, 0, 'direct loopback'],
    ['loopback IPv6', '::1', 18081, 0, 'direct loopback'],
    ['an excluded port, mesh or not', '10.96.0.60', 9005, 0, 'direct excluded-port'],
    ['an excluded address', '10.96.0.50', 18082, 0, 'direct excluded-range'],
    ['link-local', '169.254.1.1', 80, 0, 'direct link-local'],
    ['link-local IPv6', 'fe80::1', 80, 0, 'direct link-local'],
    ['DNS, link-local too', '169.254.20.10', 53, 0, 'dns'],
    ['DNS of the family without mesh DNS', 'fd00::53', 53, 0, '18001 cap_passthrough passthrough'],
  ];
  for (const [name, ip, port, mark32, want] of cases) {
    const dial = { address: makeIp(ip), port, bytes: 'raw', mark32 } as const;
    t.equal(show(resolve(dial, { scope: excluding, services, domain: 'aether.internal', tcp: true })), want, name);
  }
  t.end();
});

t.test('resolve() without identity has no TCP: 18082 is reset, other ports pass', (t) => {
  const context = { scope: scope(true), services, domain: 'aether.internal', tcp: false };
  const dial = (port: number) => show(resolve({ address: makeIp(V4.db), port, bytes: 'raw' }, context));
  t.equal(dial(18082), 'reset');
  t.equal(dial(5432), '18001 cap_passthrough passthrough');
  t.end();
});
