// The worked example as a whole snapshot: what is in it, and that a change makes new objects of what it touches and of nothing
// else. What Envoy does with it: real-envoy.test.ts.
import t from 'tap';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { SnapshotInput } from '../../src/xds/input.ts';
import { PUSH_ORDER, type Resource, type Snapshot } from '../../src/xds/resource.ts';
import { routeFacts } from '../../src/xds/resource-facts.ts';
import { validateSnapshot } from '../../src/xds/validate-snapshot.ts';
import { exampleServices, makeView } from '../support/services.ts';
import { EXAMPLE_NODE, exampleInput, hash, jsonOf, makePod, namesOf } from '../support/xds-example.ts';

const build = (input: SnapshotInput, previous?: Snapshot): Snapshot =>
  buildSnapshot(input, previous === undefined ? { hash } : { hash, previous });

const all = (snapshot: Snapshot): readonly Resource[] =>
  PUSH_ORDER.flatMap((kind) => [...snapshot.resources[kind].values()]);

const label = ({ kind, name }: Resource): string => `${kind} ${name}`;

/** Resources of `after` that are other objects than in `before`. */
const changed = (before: Snapshot, after: Snapshot): readonly string[] =>
  all(after)
    .filter((resource) => before.resources[resource.kind].get(resource.name) !== resource)
    .map(label);

const shopPorts = { 5432: 'tcp', 8080: 'http', 9000: 'tcp', 9090: 'http' } as const;
const shopWith = (...ips: readonly string[]): ServiceView =>
  makeView(
    'demo/shop',
    ['10.96.0.50', 'fd96::50'],
    ips.map((ip) => ({ ip, primary: 8080, ports: shopPorts })),
  );

t.test('buildSnapshot() makes the worked example', (t) => {
  const snapshot = build(exampleInput({ services: [exampleServices().db, exampleServices().shop] }));
  t.same(validateSnapshot(snapshot), []);
  t.same(namesOf(snapshot, 'cluster').toSorted(), [
    'app_demo_client-0_8080',
    'app_demo_db-0_5432',
    'app_demo_shop-0_5432',
    'app_demo_shop-0_8080',
    'app_demo_shop-0_9000',
    'app_demo_shop-0_9090',
    'blackhole',
    'health_demo_client-0',
    'health_demo_db-0',
    'health_demo_shop-0',
    'passthrough_demo_client-0',
    'passthrough_demo_db-0',
    'passthrough_demo_shop-0',
    'shop.demo.aether.internal',
    'shop.demo.aether.internal:18081',
    'shop.demo.aether.internal:8080',
    'shop.demo.aether.internal:9090',
    'tcp:10.96.0.50:18082',
    'tcp:10.96.0.50:5432',
    'tcp:10.96.0.50:9000',
    'tcp:10.96.0.60:18082',
    'tcp:10.96.0.60:5432',
    'tcp:fd96::50:18082',
    'tcp:fd96::50:5432',
    'tcp:fd96::50:9000',
    'tcp:fd96::60:18082',
    'tcp:fd96::60:5432',
  ]);
  t.same(namesOf(snapshot, 'endpoints').toSorted(), [
    'demo/shop',
    'shop.demo.aether.internal:9090',
    'tcp:db.demo.aether.internal:5432',
    'tcp:shop.demo.aether.internal:5432',
    'tcp:shop.demo.aether.internal:9000',
  ]);
  t.same(
    namesOf(snapshot, 'listener').toSorted(),
    ['client-0', 'db-0', 'shop-0']
      .flatMap((pod) =>
        ['capture', 'capture_shim', 'capture_tcp', 'inbound', 'outbound_http'].map((l) => `${l}_demo_${pod}`),
      )
      .toSorted(),
  );
  t.same(namesOf(snapshot, 'routes').toSorted(), ['cap_http', 'out_http']);
  t.same(namesOf(snapshot, 'secret'), ['spiffe://aether.internal']);
  t.end();
});

t.test('buildSnapshot() says in what a snapshot differs from the one before', (t) => {
  const { shop, db, web } = exampleServices();
  const all = exampleInput({ services: [db, shop, web] });
  const before = build(all);
  t.equal(before.change, undefined);
  for (const input of [
    all,
    { ...all, services: [db, shopWith('10.1.2.3', '10.1.2.9'), web] },
    {
      ...all,
      services: [
        db,
        makeView('demo/new', ['10.96.0.99'], [{ ip: '10.1.2.9', primary: 80, ports: { 80: 'http' } }]),
        web,
      ],
    },
    { ...all, pods: all.pods.slice(1), services: [shop] },
  ] as const) {
    const after = build(input, before);
    t.equal(after.change?.since, before.resources);
    for (const kind of PUSH_ORDER) {
      const [was, is] = [before.resources[kind], after.resources[kind]];
      const changed = [...is.values()].filter(({ name, version }) => was.get(name)?.version !== version);
      const removed = [...was.keys()].filter((name) => !is.has(name));
      t.strictSame(after.change?.changed[kind]?.toSorted(), changed.map(({ name }) => name).toSorted(), kind);
      t.strictSame(after.change?.removed[kind]?.toSorted(), removed.toSorted(), kind);
    }
  }
  t.end();
});

t.test('buildSnapshot() leaves the alias on the mesh port to whoever asks for it', (t) => {
  const { shop, db } = exampleServices();
  const onDemand = [...build(exampleInput({ services: [db, shop] })).resources.cluster.values()].filter(
    ({ isOnDemand }) => isOnDemand,
  );
  t.strictSame(
    onDemand.map(({ name }) => name),
    ['shop.demo.aether.internal:18081'],
  );
  t.end();
});

t.test('buildSnapshot() makes a pod of one HTTP port of 13 kB', (t) => {
  const pods = exampleInput().pods.filter(({ resourceName }) => resourceName === 'demo_client-0');
  const { resources } = build(exampleInput({ pods, services: [] }));
  const own = [...resources.listener.values(), ...resources.cluster.values()].filter(({ name }) =>
    name.includes('_demo_client-0'),
  );
  const bytes = own.reduce((sum, resource) => sum + resource.bytes.length, 0);
  t.equal(own.length, 8);
  t.ok(bytes < 13_000, `${bytes} bytes`);
  t.end();
});

t.test('buildSnapshot() gives every EDS cluster exactly one assignment', (t) => {
  const snapshot = build(exampleInput());
  const waited = new Set([...snapshot.resources.cluster.values()].flatMap((cluster) => cluster.edsName ?? []));
  t.same([...waited].toSorted(), namesOf(snapshot, 'endpoints').toSorted());
  t.end();
});

t.test('buildSnapshot() is deterministic: two builds from scratch give the same versions in the same order', (t) => {
  const versions = (snapshot: Snapshot) => all(snapshot).map((resource) => `${label(resource)} ${resource.version}`);
  t.same(versions(build(exampleInput())), versions(build(exampleInput())));
  t.end();
});

t.test('buildSnapshot() keeps every object where nothing changed, though the input is made anew', (t) => {
  const first = build(exampleInput());
  t.same(changed(first, build(exampleInput(), first)), []);
  t.end();
});

t.test('buildSnapshot() on a changed endpoint gives new assignments of that service and nothing else', (t) => {
  const { db, web } = exampleServices();
  const pods = exampleInput().pods;
  const first = build(exampleInput({ pods, services: [db, shopWith('10.1.2.3'), web] }));
  let hashed = 0;
  const second = buildSnapshot(exampleInput({ pods, services: [db, shopWith('10.1.2.3', '10.1.2.9'), web] }), {
    hash: (bytes) => {
      hashed += 1;
      return hash(bytes);
    },
    previous: first,
  });
  t.same(changed(first, second).toSorted(), [
    'endpoints demo/shop',
    'endpoints shop.demo.aether.internal:9090',
    'endpoints tcp:shop.demo.aether.internal:5432',
    'endpoints tcp:shop.demo.aether.internal:9000',
  ]);
  t.ok(hashed > 0);
  t.end();
});

t.test('buildSnapshot() does work in proportion to the change', (t) => {
  const { db, web } = exampleServices();
  let hashed = 0;
  const counting = (bytes: Uint8Array): string => {
    hashed += 1;
    return hash(bytes);
  };
  const pods = exampleInput().pods;
  const before = exampleInput({ pods, services: [db, shopWith('10.1.2.3'), web] });
  const first = buildSnapshot(before, { hash: counting });
  const whole = hashed;
  hashed = 0;
  buildSnapshot(exampleInput({ pods, services: [db, shopWith('10.1.2.9'), web] }), { hash: counting, previous: first });
  // One service's 4 assignments: its clusters do not depend on endpoints.
  t.equal(hashed, 4);
  t.ok(whole > 50, `${whole}`);
  t.end();
});

t.test('buildSnapshot() on a changed pod gives new listeners of that pod and nothing else', (t) => {
  const input = exampleInput();
  const first = build(input);
  const pods = input.pods.map((pod) => (pod.resourceName === 'demo_db-0' ? { ...pod, redirectAll: true } : pod));
  t.same(changed(first, build({ ...input, pods }, first)), ['listener capture_demo_db-0']);
  t.end();
});

t.test('buildSnapshot() with other node settings gives what it gives without a snapshot before', (t) => {
  const input = exampleInput();
  const first = build(input);
  const versions = (snapshot: Snapshot) => all(snapshot).map((resource) => `${label(resource)} ${resource.version}`);
  for (const change of [
    { trustDomain: 'other.example' },
    { meshDomain: 'other.internal' },
    { identity: 'none' },
  ] as const) {
    const other = { ...input, node: { ...EXAMPLE_NODE, ...change } };
    const second = build(other, first);
    t.strictSame(versions(second), versions(build(other)), JSON.stringify(change));
    t.not(changed(first, second).length, 0);
  }
  t.end();
});

t.test('buildSnapshot() answers 421 for a service without HTTP, for as long as it has none', (t) => {
  const services = (ports: Readonly<Record<number, 'http' | 'tcp'>>) => [
    makeView('demo/db', ['10.96.0.60'], [{ ip: '10.1.2.4', primary: 5432, ports }]),
  ];
  const table = (snapshot: Snapshot) => JSON.stringify(jsonOf(snapshot, 'host', 'cap_http/db.demo.aether.internal'));
  const pure = build(exampleInput({ services: services({ 5432: 'tcp', 9000: 'tcp' }) }));
  t.match(table(pure), /"status":421/);
  t.match(table(pure), /"key":"x-aether-error","value":"no-http-port"/);
  t.match(
    table(pure),
    /demo\/db has no HTTP port; its TCP ports are db\.demo\.aether\.internal:5432, db\.demo\.aether\.internal:9000, db\.demo\.aether\.internal:18082/,
  );
  t.notOk(namesOf(pure, 'host').includes('out_http/db.demo.aether.internal'));

  const mixed = build(exampleInput({ services: services({ 5432: 'tcp', 8080: 'http' }) }), pure);
  t.notMatch(table(mixed), /421/);
  const again = build(exampleInput({ services: services({ 5432: 'tcp' }) }), mixed);
  t.match(table(again), /"status":421/);

  const unknown = build(exampleInput({ services: [makeView('demo/db', ['10.96.0.60'], [])] }), again);
  t.notMatch(table(unknown), /421/, 'without endpoints nothing is known about its ports');
  t.match(table(unknown), /"status":503/);
  t.end();
});

t.test('buildSnapshot() never spells the TCP mesh port as HTTP', (t) => {
  const odd = makeView(
    'demo/odd',
    ['10.96.0.80'],
    [{ ip: '10.1.2.8', primary: 18082, ports: { 18082: 'http', 18081: 'http' } }],
  );
  const snapshot = build(exampleInput({ services: [...exampleInput().services, odd] }));
  t.same(validateSnapshot(snapshot), []);
  for (const host of snapshot.resources.host.values()) {
    t.same(
      routeFacts(host).domains.filter((domain) => domain.includes('18082')),
      [],
      host.name,
    );
  }
  t.same(
    namesOf(snapshot, 'cluster').filter((name) => name.startsWith('odd.') && name.endsWith(':18082')),
    [],
  );
  t.end();
});

t.test('buildSnapshot() without identity has no TLS, no TCP through the mesh, one inbound chain', (t) => {
  const snapshot = build(exampleInput({ node: { ...EXAMPLE_NODE, identity: 'none' } }));
  t.same(validateSnapshot(snapshot), []);
  const everything = JSON.stringify(all(snapshot).map((r) => jsonOf(snapshot, r.kind, r.name)));
  t.notMatch(everything, /envoy\.transport_sockets\.tls|spiffe/);
  t.same(
    namesOf(snapshot, 'cluster').filter((name) => name.startsWith('tcp:')),
    [],
  );
  t.same(snapshot.meshSets.tcp, []);
  t.equal(snapshot.meshSets.vip.length, 8);
  t.same(
    namesOf(snapshot, 'listener').filter((name) => name.endsWith('shop-0')),
    ['capture_demo_shop-0', 'outbound_http_demo_shop-0', 'inbound_demo_shop-0'],
  );
  const inbound = jsonOf(snapshot, 'listener', 'inbound_demo_shop-0');
  t.match(inbound, { filter_chains: [{ name: 'in_demo_shop-0' }] });
  t.notOk('listener_filters' in inbound);
  t.end();
});

t.test('buildSnapshot() reports a name that is built twice', (t) => {
  const { shop, web } = exampleServices();
  const sameAddress = makeView(
    'demo/thief',
    ['10.96.0.50'],
    [{ ip: '10.1.2.7', primary: 9000, ports: { 9000: 'tcp' } }],
  );
  const twoServices = build(exampleInput({ services: [shop, sameAddress, web] }));
  t.same(twoServices.conflicts, ['cluster tcp:10.96.0.50:18082', 'cluster tcp:10.96.0.50:9000']);
  const pod = makePod('shop-0', 'shop', { port: '8080' });
  const twoPods = build(exampleInput({ pods: [pod, { ...pod }] }));
  t.ok(twoPods.conflicts?.includes('listener inbound_demo_shop-0'));
  t.end();
});
