import t from 'tap';
import { exchangeItems } from '../../src/core/exchanged-list.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { buildFitSnapshot } from '../../src/xds/build-fit-snapshot.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { SnapshotInput } from '../../src/xds/input.ts';
import { patchSnapshot } from '../../src/xds/patch-snapshot.ts';
import { PUSH_ORDER, type Snapshot } from '../../src/xds/resource.ts';
import { type EndpointSpec, exampleServices, makeView } from '../support/services.ts';
import { exampleInput, hash, makePod } from '../support/xds-example.ts';

const PORTS = { 8080: 'http', 9090: 'http', 9000: 'tcp' } as const;

function shop(ips: readonly string[], more: Partial<EndpointSpec> = {}): ServiceView {
  return makeView(
    'demo/shop',
    ['10.96.0.50', 'fd96::50'],
    ips.map((ip) => ({ ip, primary: 8080, ports: PORTS, ...more })),
  );
}

const { db, web } = exampleServices();
const base = exampleInput({ services: [db, shop(['10.1.2.3']), web] });
const first = buildSnapshot(base, { hash });
const withShop = (view: ServiceView): SnapshotInput => ({ ...base, services: [db, view, web] });

/** Everything there is, in order. */
const show = (snapshot: Snapshot): readonly string[] =>
  PUSH_ORDER.flatMap((kind) =>
    [...snapshot.resources[kind]].map(([name, { version }]) => `${kind} ${name} ${version}`),
  );

for (const [title, view] of [
  ['an endpoint that comes', shop(['10.1.2.3', '10.1.2.9'])],
  ['an endpoint that is exchanged', shop(['10.1.2.9'])],
  ['an endpoint that is draining', shop(['10.1.2.3'], { overrides: { health: 'draining' } })],
  ['a view made anew', shop(['10.1.2.3'])],
] as const) {
  t.test(`patchSnapshot() gives what building anew gives: ${title}`, (t) => {
    const input = withShop(view);
    const patched = patchSnapshot(input, { hash, previous: first });
    if (patched === undefined) throw new Error('not patched');
    const built = buildSnapshot(input, { hash });
    t.strictSame(show(patched), show(built));
    const services = exchangeItems(base.services, new Map([[1, view]]));
    const exchanged = patchSnapshot({ ...base, services }, { hash, previous: first });
    t.strictSame(show(exchanged ?? first), show(built), 'of a list that says what was exchanged');
    t.strictSame(patched.meshSets, built.meshSets);
    for (const kind of PUSH_ORDER) {
      if (kind !== 'endpoints') t.equal(patched.resources[kind], first.resources[kind], `${kind}: the same map`);
    }
    const changed = [...built.resources.endpoints.values()].filter(
      ({ name, version }) => first.resources.endpoints.get(name)?.version !== version,
    );
    t.strictSame(patched.change?.changed.endpoints?.toSorted(), changed.map(({ name }) => name).toSorted());
    t.equal(patched.change?.since, first.resources);
    const again = patchSnapshot(withShop(shop(['10.1.2.3', '10.1.2.7'])), { hash, previous: patched });
    t.strictSame(
      show(again ?? first),
      show(buildSnapshot(withShop(shop(['10.1.2.3', '10.1.2.7'])), { hash })),
      'twice',
    );
    t.end();
  });
}

const OTHER_ADDRESS = makeView('demo/shop', ['10.96.0.51'], [{ ip: '10.1.2.3', primary: 8080, ports: PORTS }]);
const CASES: readonly (readonly [string, SnapshotInput])[] = [
  ['another port', withShop(shop(['10.1.2.3'], { ports: { ...PORTS, 7000: 'tcp' } }))],
  ['no endpoint any more', withShop(shop([]))],
  ['another address', withShop(OTHER_ADDRESS)],
  ['an endpoint of another namespace, whose identity is pinned', withShop(shop(['10.1.2.3'], { namespace: 'other' }))],
  ['an endpoint that Envoy would refuse', withShop(shop(['10.1.2.3', 'no-address']))],
  ['a service more', { ...base, services: [...base.services, makeView('demo/zoo', ['10.96.0.99'], [])] }],
  ['a service exchanged', { ...base, services: [db, makeView('demo/shoq', ['10.96.0.50'], []), web] }],
  ['a pod more', { ...base, pods: [...base.pods, makePod('x-0', 'x', { port: '8080' })] }],
  ['another trust bundle', { ...base, trustBundlePem: 'another' }],
  ['other settings', { ...base, node: { ...base.node, ipv6: false } }],
];
for (const [title, input] of CASES) {
  t.test(`patchSnapshot() leaves to a build: ${title}`, (t) => {
    t.equal(patchSnapshot(input, { hash, previous: first }), undefined);
    t.end();
  });
}

t.test('patchSnapshot() leaves to a build what follows one that left something out', (t) => {
  const bad = makeView('demo/zoo', ['10.96.0.99'], [{ ip: 'no-address', primary: 8080, ports: { 8080: 'http' } }]);
  const input = { ...base, services: [...base.services, bad] };
  const { snapshot, leftOut } = buildFitSnapshot(input, { hash });
  t.equal(leftOut.length, 1);
  t.equal(patchSnapshot(input, { hash, previous: snapshot }), undefined);
  t.equal(buildFitSnapshot(input, { hash, previous: snapshot }).leftOut.length, 1);
  t.end();
});
