// Clusters of the example's services: the endpoints, server name, ALPN and pinned identities that decide where a connection
// goes. They hold nothing of any pod.
import type { JsonObject } from '@bufbuild/protobuf';
import t from 'tap';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { type EndpointSpec, makeView } from '../support/services.ts';
import { exampleInput, hash, jsonOf, namesOf } from '../support/xds-example.ts';

const snapshot = buildSnapshot(exampleInput(), { hash });

/** What decides where a cluster's connections go. */
function summary(name: string) {
  const cluster = jsonOf(snapshot, 'cluster', name);
  const tls = JSON.stringify(cluster['transport_socket']);
  return {
    stat: cluster['alt_stat_name'],
    eds: (cluster['eds_cluster_config'] as JsonObject)['service_name'],
    sni: /"sni":"([^"]*)"/.exec(tls)?.[1] ?? '',
    alpn: /"alpn_protocols":\["([^"]*)"/.exec(tls)?.[1] ?? '',
    pins: [...tls.matchAll(/"exact":"([^"]*)"/g)].map(([, pin]) => pin),
  };
}

const FQDN = 'shop.demo.aether.internal';
const pins = ['spiffe://aether.internal/ns/demo/sa/shop'];
const http = { stat: 'demo/shop', alpn: 'h2', pins };
const CASES = [
  [FQDN, { ...http, eds: 'demo/shop', sni: '8080' }],
  [`${FQDN}:18081`, { ...http, eds: 'demo/shop', sni: '8080' }],
  [`${FQDN}:8080`, { ...http, eds: 'demo/shop', sni: '8080' }],
  [`${FQDN}:9090`, { ...http, eds: `${FQDN}:9090`, sni: '9090' }],
  ['tcp:10.96.0.50:18082', { stat: 'tcp_demo/shop', eds: `tcp:${FQDN}:5432`, sni: '5432', alpn: '', pins }],
  ['tcp:10.96.0.50:5432', { stat: 'tcp_demo/shop_5432', eds: `tcp:${FQDN}:5432`, sni: '5432', alpn: '', pins }],
  ['tcp:fd96::50:9000', { stat: 'tcp_demo/shop_9000', eds: `tcp:${FQDN}:9000`, sni: '9000', alpn: '', pins }],
  [
    'tcp:10.96.0.60:18082',
    {
      stat: 'tcp_demo/db',
      eds: 'tcp:db.demo.aether.internal:5432',
      sni: '',
      alpn: '',
      pins: ['spiffe://aether.internal/ns/demo/sa/db'],
    },
  ],
] as const;
for (const [name, expected] of CASES) {
  t.test(`buildServiceClusters() makes ${name}`, (t) => {
    t.same(summary(name), expected);
    t.end();
  });
}

t.test('buildServiceClusters() holds nothing of any pod', (t) => {
  const names = namesOf(snapshot, 'cluster').filter(
    (name) => name.startsWith('tcp:') || name.includes('.aether.internal'),
  );
  for (const name of names) t.notMatch(JSON.stringify(jsonOf(snapshot, 'cluster', name)), /client|netns/, name);
  t.ok(names.length > 10);
  t.end();
});

t.test('buildServiceClusters() pins to every namespace that serves the name', (t) => {
  const two = makeView(
    'demo/shop',
    ['10.96.0.50'],
    [
      { ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http' } },
      { ip: '10.1.2.4', primary: 8080, ports: { 8080: 'http' }, namespace: 'blue' },
    ],
  );
  const built = buildSnapshot(exampleInput({ services: [two] }), { hash });
  const cluster = JSON.stringify(jsonOf(built, 'cluster', FQDN));
  t.same(
    [...cluster.matchAll(/"exact":"([^"]*)"/g)].map(([, pin]) => pin),
    ['spiffe://aether.internal/ns/blue/sa/shop', 'spiffe://aether.internal/ns/demo/sa/shop'],
  );
  t.end();
});

t.test('buildServiceClusters() gives a service without address no TCP cluster, and no assignment for one', (t) => {
  const unreachable = makeView('demo/db', [], [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }]);
  const built = buildSnapshot(exampleInput({ services: [unreachable] }), { hash });
  t.same(
    namesOf(built, 'cluster').filter((name) => name.startsWith('tcp:')),
    [],
  );
  t.same(namesOf(built, 'endpoints'), []);
  t.end();
});

t.test('buildServiceClusters() gives a number its own endpoints while pods differ in their default', (t) => {
  const a = { ip: '10.1.2.3', primary: 8081, ports: { 8081: 'http' } } as const;
  const b = { ip: '10.1.2.4', primary: 8080, ports: { 8080: 'http' } } as const;
  const edsOf = (specs: readonly EndpointSpec[], name: string): unknown => {
    const services = [makeView('demo/shop', ['10.96.0.50'], specs)];
    const cluster = jsonOf(buildSnapshot(exampleInput({ services }), { hash }), 'cluster', name);
    return (cluster['eds_cluster_config'] as JsonObject)['service_name'];
  };
  t.equal(edsOf([a], `${FQDN}:8081`), 'demo/shop', 'one kind: shared with the name');
  for (const port of [8080, 8081]) t.equal(edsOf([a, b], `${FQDN}:${port}`), `${FQDN}:${port}`, `two kinds: ${port}`);
  t.equal(edsOf([a, b], FQDN), 'demo/shop');
  t.equal(edsOf([a, b], `${FQDN}:18081`), 'demo/shop');
  t.equal(edsOf([b], `${FQDN}:8080`), 'demo/shop', 'one kind again');
  t.end();
});
