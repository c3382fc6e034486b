// From endpoints to a service's ports, defaults and server names: in the middle of a rollout, with pods that are down, and
// with endpoints of earlier writers. The order of endpoints never counts.
import fc from 'fast-check';
import t from 'tap';
import { buildServiceView, isPureTcp, type PortBucket } from '../../src/mesh/service-view.ts';
import { type EndpointSpec, makeEndpoint, makeListing, makeView } from '../support/services.ts';

const show = (buckets: readonly PortBucket[]): string =>
  buckets
    .map((bucket) => `${bucket.port}/${bucket.serverName || '-'}[${bucket.endpoints.map((e) => e.ip).join(',')}]`)
    .join(' ');

const DOWN = { health: 'unhealthy' } as const;

const describe = (specs: readonly EndpointSpec[]): string => {
  const view = makeView('demo/shop', [], specs);
  return `http ${show(view.http)} (${view.httpDefault?.port ?? '-'}) tcp ${show(view.tcp)} (${view.tcpDefault?.port ?? '-'})`;
};

t.test('buildServiceView() types ports', (t) => {
  const cases: readonly [string, readonly EndpointSpec[], string][] = [
    [
      'the worked example: the lowest TCP port is the default, since the primary is HTTP',
      [{ ip: '10.1.2.3', primary: 8080, ports: { 5432: 'tcp', 8080: 'http', 9000: 'tcp', 9090: 'http' } }],
      'http 8080/8080[10.1.2.3] 9090/9090[10.1.2.3] (8080) tcp 5432/5432[10.1.2.3] 9000/9000[10.1.2.3] (5432)',
    ],
    [
      'pure TCP on its primary: no server name',
      [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }],
      'http  (-) tcp 5432/-[10.1.2.4] (5432)',
    ],
    [
      'a TCP primary with an HTTP port',
      [{ ip: '10.1.2.4', primary: 9000, ports: { 9000: 'tcp', 8080: 'http' } }],
      'http 8080/8080[10.1.2.4] (8080) tcp 9000/-[10.1.2.4] (9000)',
    ],
    ['no endpoint', [], 'http  (-) tcp  (-)'],
    [
      'the primary that most endpoints have is the default',
      [
        { ip: '10.0.0.1', primary: 9090, ports: { 8080: 'http', 9090: 'http' } },
        { ip: '10.0.0.2', primary: 9090, ports: { 8080: 'http', 9090: 'http' } },
        { ip: '10.0.0.3', primary: 8080, ports: { 8080: 'http', 9090: 'http' } },
      ],
      'http 8080/8080[10.0.0.1,10.0.0.2,10.0.0.3] 9090/9090[10.0.0.1,10.0.0.2,10.0.0.3] (9090) tcp  (-)',
    ],
    [
      'a tie goes to the lowest',
      [
        { ip: '10.0.0.1', primary: 9090, ports: { 9090: 'http' } },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http' } },
      ],
      'http 8080/8080[10.0.0.2] 9090/9090[10.0.0.1] (8080) tcp  (-)',
    ],
    [
      'a port re-typed in a rollout: each pod only where it serves that protocol',
      [
        { ip: '10.0.0.1', primary: 8080, ports: { 8080: 'http', 9000: 'http' } },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } },
      ],
      'http 8080/8080[10.0.0.1,10.0.0.2] 9000/9000[10.0.0.1] (8080) tcp 9000/9000[10.0.0.2] (9000)',
    ],
    [
      'a port re-typed in a rollout stays HTTP until a pod serves it as TCP',
      [
        { ip: '10.0.0.1', primary: 8080, ports: { 8080: 'http', 9000: 'http' } },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' }, overrides: DOWN },
      ],
      'http 8080/8080[10.0.0.1,10.0.0.2] 9000/9000[10.0.0.1] (8080) tcp  (-)',
    ],
    [
      'a port re-typed in a rollout is TCP when no pod serves it at all',
      [
        { ip: '10.0.0.1', primary: 8080, ports: { 8080: 'http', 9000: 'http' }, overrides: { health: 'draining' } },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' }, overrides: DOWN },
      ],
      'http 8080/8080[10.0.0.1,10.0.0.2] 9000/9000[10.0.0.1] (8080) tcp 9000/9000[10.0.0.2] (9000)',
    ],
    [
      'the primary changes when the first pod of the new one can answer',
      [
        { ip: '10.0.0.1', primary: 9090, ports: { 9090: 'http', 9001: 'tcp' } },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http', 5432: 'tcp' }, overrides: DOWN },
        { ip: '10.0.0.3', primary: 8080, ports: { 8080: 'http', 5432: 'tcp' }, overrides: DOWN },
      ],
      'http 8080/8080[10.0.0.2,10.0.0.3] 9090/9090[10.0.0.1] (9090) tcp 5432/5432[10.0.0.2,10.0.0.3] 9001/9001[10.0.0.1] (9001)',
    ],
    [
      'nobody can answer: as if all could',
      [
        { ip: '10.0.0.1', primary: 9090, ports: { 9090: 'http' }, overrides: DOWN },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http' }, overrides: { health: 'draining' } },
      ],
      'http 8080/8080[10.0.0.2] 9090/9090[10.0.0.1] (8080) tcp  (-)',
    ],
    [
      'an untyped endpoint is left out only when a typed one can answer',
      [
        { ip: '10.0.0.1', primary: 9000, ports: { 9000: 'tcp' }, untyped: true },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' }, overrides: DOWN },
      ],
      'http 8080/8080[10.0.0.2] (8080) tcp 9000/-[10.0.0.1] (9000)',
    ],
    [
      'primaries differ: the TCP hop needs a server name, so an untyped endpoint is left out',
      [
        { ip: '10.0.0.1', primary: 9000, ports: { 9000: 'tcp' }, untyped: true },
        { ip: '10.0.0.2', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } },
      ],
      'http 8080/8080[10.0.0.2] (8080) tcp 9000/9000[10.0.0.2] (9000)',
    ],
    [
      'an untyped pure-TCP endpoint keeps its primary; its other ports had no chain of their own then',
      [{ ip: '10.0.0.1', primary: 5432, ports: { 5432: 'tcp', 5433: 'tcp' }, untyped: true }],
      'http  (-) tcp 5432/-[10.0.0.1] (5432)',
    ],
    [
      'a reserved port of an earlier writer is skipped',
      [{ ip: '10.0.0.1', primary: 5432, ports: { 5432: 'tcp', 18082: 'tcp', 18008: 'tcp' } }],
      'http  (-) tcp 5432/-[10.0.0.1] (5432)',
    ],
  ];
  for (const [name, specs, want] of cases) t.equal(describe(specs), want, name);
  t.end();
});

t.test('buildServiceView() takes an endpoint of one listing for that protocol only', (t) => {
  const mixed = makeEndpoint({ ip: '10.0.0.1', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } });
  const key = { namespace: 'demo', serviceAccount: 'shop' };
  const view = buildServiceView(key, { http: [mixed], tcp: [] }, { domain: 'aether.internal', vips: [] });
  t.equal(show(view.http), '8080/8080[10.0.0.1]');
  t.equal(show(view.tcp), '');
  t.end();
});

t.test('buildServiceView() gives the same value for any order of endpoints', (t) => {
  const spec = fc.record({
    ip: fc.integer({ min: 1, max: 250 }).map((n) => `10.0.0.${n}`),
    primary: fc.constantFrom(8080, 9000, 5432),
    ports: fc.dictionary(
      fc.constantFrom('8080', '9000', '5432', '9090'),
      fc.constantFrom<'http' | 'tcp'>('http', 'tcp'),
    ),
    untyped: fc.boolean(),
  });
  const specs = fc.uniqueArray(spec, { selector: (entry) => entry.ip, maxLength: 8 });
  fc.assert(
    fc.property(specs, fc.infiniteStream(fc.nat()), (list, random) => {
      const listing = makeListing(list);
      const shuffle = <T>(items: readonly T[]): T[] =>
        items
          .map((item) => [Number(random.next().value), item] as const)
          .sort(([a], [b]) => a - b)
          .map(([, item]) => item);
      const key = { namespace: 'demo', serviceAccount: 'shop' };
      const options = { domain: 'aether.internal', vips: [] };
      const one = JSON.stringify(buildServiceView(key, listing, options));
      const other = buildServiceView(key, { http: shuffle(listing.http), tcp: shuffle(listing.tcp) }, options);
      return JSON.stringify(other) === one;
    }),
  );
  t.end();
});

t.test('isPureTcp() wants TCP and no HTTP', (t) => {
  t.equal(isPureTcp(makeView('demo/db', [], [{ ip: '10.0.0.1', primary: 5432, ports: { 5432: 'tcp' } }])), true);
  t.equal(isPureTcp(makeView('demo/none', [], [])), false);
  t.equal(isPureTcp(makeView('demo/web', [], [{ ip: '10.0.0.1', primary: 80, ports: { 80: 'http' } }])), false);
  t.end();
});

t.test('isHttpAgreed is false while pods differ in their primary, or in having the default', (t) => {
  const a = { ip: '10.0.0.1', primary: 8080, ports: { 8080: 'http', 9090: 'http' } } as const;
  const cases: readonly [string, readonly EndpointSpec[], boolean][] = [
    ['no endpoint', [], true],
    ['one', [a], true],
    ['two alike', [a, { ...a, ip: '10.0.0.2' }], true],
    ['a port more', [a, { ...a, ip: '10.0.0.2', ports: { ...a.ports, 7070: 'http', 5432: 'tcp' } }], true],
    ['no HTTP port', [{ ip: '10.0.0.1', primary: 5432, ports: { 5432: 'tcp' } }], true],
    ['another primary', [a, { ...a, ip: '10.0.0.2', primary: 9090 }], false],
    ['another port alone', [a, { ip: '10.0.0.2', primary: 8081, ports: { 8081: 'http' } }], false],
    [
      'TCP primaries, different HTTP ports',
      [
        { ip: '10.0.0.1', primary: 5432, ports: { 5432: 'tcp', 8080: 'http' } },
        { ip: '10.0.0.2', primary: 5432, ports: { 5432: 'tcp', 8081: 'http' } },
      ],
      false,
    ],
  ];
  for (const [name, specs, want] of cases) t.equal(makeView('demo/shop', [], specs).isHttpAgreed, want, name);
  t.end();
});
