// Snapshots of the single form as values: one capture listener a pod, its chains, and the matcher that chooses among them.
// single-envoy.test.ts has the real Envoy.
import t from 'tap';
import { buildFitSnapshot } from '../../src/xds/build-fit-snapshot.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { encodeListener } from '../../src/xds/encode-resource.ts';
import type { NodeSettings, SnapshotInput } from '../../src/xds/input.ts';
import type { Snapshot } from '../../src/xds/resource.ts';
import { listenerFacts } from '../../src/xds/resource-facts.ts';
import { planSingleForm } from '../../src/xds/single-form.ts';
import { buildSingleListener } from '../../src/xds/single-listener.ts';
import { validateSnapshot } from '../../src/xds/validate-snapshot.ts';
import { exampleServices, makeView } from '../support/services.ts';
import { EXAMPLE_NODE, exampleInput, hash, namesOf } from '../support/xds-example.ts';

const NODE: NodeSettings = { ...EXAMPLE_NODE, captureForm: 'single' };
const { db, shop, web, idle } = exampleServices();
const build = (input: SnapshotInput, previous?: Snapshot): Snapshot =>
  buildSnapshot(input, previous === undefined ? { hash } : { hash, previous });
const facts = (snapshot: Snapshot, name: string) => {
  const resource = snapshot.resources.listener.get(name);
  if (resource === undefined) throw new Error(`no ${name}`);
  return listenerFacts(resource);
};

t.test('planSingleForm() has a chain for each TCP port, the default under 18082, the shim for pure TCP', (t) => {
  const { services, withoutTcp } = planSingleForm([db, idle, shop, web], NODE);
  const DB = 'tcp:db.demo.aether.internal';
  const SHOP = 'tcp:shop.demo.aether.internal';
  t.strictSame(services, [
    {
      addresses: ['10.96.0.60', 'fd96::60'],
      ports: [
        { port: 5432, chain: { name: 'cap_tcp_demo/db_5432', cluster: `${DB}:5432` } },
        { port: 18082, chain: { name: 'cap_tcp_demo/db', cluster: DB } },
      ],
      anyport: { name: 'cap_tcp_anyport_demo/db', cluster: DB },
    },
    {
      addresses: ['10.96.0.50', 'fd96::50'],
      ports: [
        { port: 5432, chain: { name: 'cap_tcp_demo/shop_5432', cluster: `${SHOP}:5432` } },
        { port: 9000, chain: { name: 'cap_tcp_demo/shop_9000', cluster: `${SHOP}:9000` } },
        { port: 18082, chain: { name: 'cap_tcp_demo/shop', cluster: SHOP } },
      ],
      anyport: undefined,
    },
  ]);
  t.strictSame(withoutTcp, ['10.96.0.70', 'fd96::70', '10.96.0.51', 'fd96::51']);
  t.strictSame(planSingleForm([shop], { ...NODE, identity: 'none' }).services, [], 'no raw TCP in the clear');
  t.end();
});

t.test('buildSnapshot() in the single form', (t) => {
  const snapshot = build(exampleInput({ node: NODE }));
  t.test('is fit, tells the kernel nothing, and has one capture listener a pod', (t) => {
    t.same(validateSnapshot(snapshot), []);
    t.strictSame(snapshot.meshSets, { tcp: [], vip: [], shim: [] });
    t.strictSame(
      namesOf(snapshot, 'listener').filter((name) => name.startsWith('capture')),
      ['capture_demo_client-0', 'capture_demo_db-0', 'capture_demo_shop-0'],
    );
    t.end();
  });
  t.test('names clusters by service, each EDS name once', (t) => {
    t.strictSame(
      namesOf(snapshot, 'cluster')
        .filter((name) => name.startsWith('tcp:'))
        .sort(),
      [
        'tcp:db.demo.aether.internal',
        'tcp:db.demo.aether.internal:5432',
        'tcp:shop.demo.aether.internal',
        'tcp:shop.demo.aether.internal:5432',
        'tcp:shop.demo.aether.internal:9000',
      ],
    );
    t.end();
  });
  t.test('has chains of one name each, and a matcher that names only chains that are there', (t) => {
    for (const name of ['capture_demo_client-0', 'capture_demo_db-0']) {
      const { chains, chosenChains } = facts(snapshot, name);
      t.equal(new Set(chains).size, chains.length);
      t.strictSame(
        [...new Set(chosenChains)].sort(),
        chains.filter((chain) => chain !== 'cap_passthrough').sort(),
        'every chain but the default is chosen somewhere',
      );
    }
    t.end();
  });
  t.end();
});

t.test('validateSnapshot() finds a chain without a port on an address whose service has HTTP', (t) => {
  const snapshot = build(exampleInput({ node: NODE }));
  t.strictSame(facts(snapshot, 'capture_demo_client-0').portlessChains, ['capture', 'cap_tcp_anyport_demo/db']);
  const form = planSingleForm([db, shop], NODE);
  // As an earlier mesh had them: one chain for all ports of the address.
  for (const chain of ['cap_tcp_anyport_demo/shop', 'cap_tcp_demo/shop']) {
    const services = form.services.map((service) =>
      service.addresses.includes('10.96.0.50')
        ? { ...service, anyport: { name: chain, cluster: 'blackhole' } }
        : service,
    );
    const pod = exampleInput().pods[0];
    if (pod === undefined) throw new RangeError('no pod');
    const wrong = encodeListener(buildSingleListener(pod, NODE, { ...form, services }), hash);
    const listener = new Map([...snapshot.resources.listener, [wrong.name, wrong]]);
    const problems = validateSnapshot({ ...snapshot, resources: { ...snapshot.resources, listener } });
    const found = problems.find(({ message }) => message.startsWith('takes any port of demo/shop as TCP'));
    t.match(found, { path: 'listener capture_demo_client-0', subjects: ['endpoints demo/shop'] }, chain);
  }
  t.end();
});

t.test('buildSnapshot() in the single form leaves the listeners alone when only endpoints change', (t) => {
  const endpoint = (ip: string) => ({ ip, primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } }) as const;
  const pods = exampleInput().pods;
  const at = (...ips: readonly string[]) =>
    exampleInput({ node: NODE, pods, services: [db, makeView('demo/shop', ['10.96.0.50'], ips.map(endpoint))] });
  const first = build(at('10.1.2.3'));
  const second = build(at('10.1.2.3', '10.1.2.9'), first);
  for (const [name, resource] of second.resources.listener) t.equal(resource, first.resources.listener.get(name), name);
  const third = build(exampleInput({ node: NODE, pods, services: [db] }), second);
  const changed = [...third.resources.listener].filter(([name, each]) => each !== second.resources.listener.get(name));
  t.strictSame(
    changed.map(([name]) => name),
    ['capture_demo_client-0', 'capture_demo_db-0', 'capture_demo_shop-0'],
    'a service that goes changes the capture listeners alone',
  );
  t.same(third.resources, build(exampleInput({ node: NODE, pods, services: [db] })).resources, 'as if built anew');
  t.end();
});

t.test('buildFitSnapshot() in the single form leaves out a service with the address of another one', (t) => {
  const thief = makeView('demo/thief', ['10.96.0.50'], [{ ip: '10.1.2.9', primary: 9000, ports: { 9000: 'tcp' } }]);
  const { leftOut, problems, snapshot } = buildFitSnapshot(exampleInput({ node: NODE, services: [db, shop, thief] }), {
    hash,
  });
  t.match(leftOut, [{ name: 'demo/thief', problems: [{ path: 'address 10.96.0.50', message: /demo\/shop/ }] }]);
  t.strictSame(problems, []);
  t.ok(facts(snapshot, 'capture_demo_client-0').chains.includes('cap_tcp_demo/shop_9000'));
  t.end();
});
