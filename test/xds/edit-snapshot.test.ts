// A snapshot that is edited must be the one that is built anew: every kind of edit, there and back, in both forms of capture,
// then random histories. What cannot be edited is left to a build.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { exchangeItems } from '../../src/core/exchanged-list.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { buildFitSnapshot } from '../../src/xds/build-fit-snapshot.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { editSnapshot } from '../../src/xds/edit-snapshot.ts';
import type { SnapshotInput } from '../../src/xds/input.ts';
import { PUSH_ORDER, type Snapshot } from '../../src/xds/resource.ts';
import { validateSnapshot } from '../../src/xds/validate-snapshot.ts';
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

/** Everything there is. */
const show = (snapshot: Snapshot): readonly string[] =>
  PUSH_ORDER.flatMap((kind) =>
    [...snapshot.resources[kind]].map(([name, { version }]) => `${kind} ${name} ${version}`).sort(),
  );

for (const [title, view] of [
  ['an endpoint that comes', shop(['10.1.2.3', '10.1.2.9'])],
  ['an endpoint that is exchanged', shop(['10.1.2.9'])],
  ['an endpoint that is draining', shop(['10.1.2.3'], { overrides: { health: 'draining' } })],
  ['a view made anew', shop(['10.1.2.3'])],
] as const) {
  t.test(`editSnapshot() gives what building anew gives: ${title}`, (t) => {
    const input = withShop(view);
    const patched = editSnapshot(input, { hash, previous: first });
    if (patched === undefined) throw new Error('not patched');
    const built = buildSnapshot(input, { hash });
    t.strictSame(show(patched), show(built));
    const services = exchangeItems(base.services, new Map([[1, view]]));
    const exchanged = editSnapshot({ ...base, services }, { hash, previous: first });
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
    const again = editSnapshot(withShop(shop(['10.1.2.3', '10.1.2.7'])), { hash, previous: patched });
    t.strictSame(
      show(again ?? first),
      show(buildSnapshot(withShop(shop(['10.1.2.3', '10.1.2.7'])), { hash })),
      'twice',
    );
    t.end();
  });
}

const OTHER_ADDRESS = makeView('demo/shop', ['10.96.0.51'], [{ ip: '10.1.2.3', primary: 8080, ports: PORTS }]);
const ZOO = makeView('demo/zoo', ['10.96.0.99'], [{ ip: '10.1.2.8', primary: 8080, ports: PORTS }]);
const certificate = (name: string) => ({
  ...{ identity: `spiffe://aether.internal/ns/demo/sa/${name}` },
  ...{ certificateChainPem: `chain of ${name}`, privateKeyPem: `key of ${name}` },
});
const EDITS: readonly (readonly [string, Partial<SnapshotInput>])[] = [
  ['another port', withShop(shop(['10.1.2.3'], { ports: { ...PORTS, 7000: 'tcp' } }))],
  ['no endpoint any more', withShop(shop([]))],
  ['another address', { services: [db, OTHER_ADDRESS] }],
  ['an endpoint of another namespace, whose identity is pinned', withShop(shop(['10.1.2.3'], { namespace: 'other' }))],
  ['a service more', { services: [...base.services, ZOO] }],
  ['a service less', { services: [db, web] }],
  ['a service exchanged', { services: [db, web, ZOO] }],
  ['a pod more', { pods: [...base.pods, makePod('x-0', 'x', { port: '8080' })] }],
  ['a pod less', { pods: base.pods.slice(1) }],
  ['a pod made anew', { pods: base.pods.map((pod) => ({ ...pod })) }],
  ['a certificate more', { certificates: [certificate('client')] }],
  [
    'a pod in place of another, in its namespace',
    { pods: [...base.pods.slice(0, -1), makePod('x-0', 'x', { port: '8080', netnsPath: '/run/aether/netns/shop-0' })] },
  ],
];
for (const captureForm of ['split', 'single'] as const) {
  const node = { ...base.node, captureForm, healthSocket: '/run/health.sock' };
  const before = buildSnapshot({ ...base, node }, { hash });
  for (const [title, edit] of EDITS) {
    t.test(`editSnapshot() gives what building anew gives, ${captureForm} form: ${title}`, (t) => {
      const input = { ...base, ...edit, node };
      const edited = editSnapshot(input, { hash, previous: before });
      if (captureForm === 'single' && edit.services !== undefined)
        t.equal(edited, undefined, 'who is where has changed');
      else checkEdited(t, { edited, before, input });
      // And back again.
      if (edited !== undefined) {
        checkEdited(t, {
          edited: editSnapshot({ ...base, node }, { hash, previous: edited }),
          before: edited,
          input: { ...base, node },
        });
      }
      t.end();
    });
  }
}

/** It is what building anew gives, fit, and says in what it differs. */
function checkEdited(
  t: Test,
  {
    edited,
    before,
    input,
  }: { readonly edited: Snapshot | undefined; readonly before: Snapshot; readonly input: SnapshotInput },
): void {
  const built = buildSnapshot(input, { hash });
  if (edited === undefined) throw new Error('not edited');
  t.strictSame(show(edited), show(built));
  t.strictSame(edited.meshSets, built.meshSets);
  t.strictSame(validateSnapshot(edited), []);
  for (const kind of PUSH_ORDER) {
    const [was, is] = [before.resources[kind], built.resources[kind]];
    const changed = [...is.values()].filter(({ name, version }) => was.get(name)?.version !== version);
    t.strictSame(edited.change?.changed[kind]?.toSorted(), changed.map(({ name }) => name).toSorted(), kind);
    t.strictSame(edited.change?.removed[kind]?.toSorted(), [...was.keys()].filter((name) => !is.has(name)).toSorted());
    t.equal(edited.resources[kind].size, is.size);
  }
  t.equal(edited.change?.since, before.resources);
}

const CASES: readonly (readonly [string, Partial<SnapshotInput>])[] = [
  ['an endpoint that Envoy would refuse', withShop(shop(['10.1.2.3', 'no-address']))],
  ['an address that another service has', { services: [...base.services, makeView('demo/zoo', ['10.96.0.50'], [])] }],
  [
    'a pod in the namespace of another',
    { pods: [...base.pods, makePod('x-0', 'x', { port: '8080', netnsPath: '/run/aether/netns/shop-0' })] },
  ],
  ['another trust bundle', { trustBundlePem: 'another' }],
  ['other settings', { node: { ...base.node, ipv6: false } }],
  ['a service that is known but not given', { services: [db, web], others: base.services.slice(1, 2) }],
];
for (const [title, edit] of CASES) {
  t.test(`editSnapshot() leaves to a build: ${title}`, (t) => {
    const fewer = { ...base, pods: base.pods.slice(1) };
    const before = editSnapshot(fewer, { hash, previous: first });
    if (before === undefined) throw new Error('not edited');
    t.equal(editSnapshot({ ...base, ...edit }, { hash, previous: before }) === undefined, true);
    // What failed half-way leaves nothing behind.
    const edited = editSnapshot(base, { hash, previous: before });
    checkEdited(t, { edited, before, input: base });
    t.end();
  });
}

t.test('buildFitSnapshot() gives whatever was before what it gives without', (t) => {
  const names = ['a', 'b', 'c', 'd'];
  const anyPorts = fc.constantFrom(
    { 8080: 'http' },
    { 8080: 'http', 9000: 'tcp' },
    { 9000: 'tcp' },
    PORTS,
  ) as fc.Arbitrary<EndpointSpec['ports']>;
  const anyEndpoint = fc.record({ ip: fc.constantFrom('10.1.2.1', '10.1.2.2', '10.1.2.3'), ports: anyPorts });
  const anyService = fc.record({
    vip: fc.constantFrom('10.96.0.1', '10.96.0.2', '10.96.0.3', '10.96.0.4', '10.96.0.5', '10.96.0.6'),
    endpoints: fc.uniqueArray(anyEndpoint, { maxLength: 2, selector: ({ ip }) => ip }),
  });
  const anyState = fc.record({
    services: fc.array(fc.option(anyService), { minLength: 4, maxLength: 4 }),
    pods: fc.array(
      fc.option(
        fc.record({ port: fc.constantFrom('8080', '9000'), netns: fc.constantFrom('/n/1', '/n/2', '/n/3', '/n/4') }),
        { freq: 2 },
      ),
      { minLength: 4, maxLength: 4 },
    ),
  });
  const seen = new Map<string, number>();
  fc.assert(
    fc.property(fc.array(anyState, { minLength: 2, maxLength: 8 }), (states) => {
      const kept = new Map<string, unknown>();
      const keep = <T>(made: T, key: unknown): T => {
        const text = JSON.stringify(key);
        if (!kept.has(text)) kept.set(text, made);
        return kept.get(text) as T;
      };
      let previous: Snapshot | undefined;
      for (const { services, pods } of states) {
        const input: SnapshotInput = {
          ...base,
          node: { ...base.node, healthSocket: '/run/health.sock' },
          services: services.flatMap((service, i) => {
            if (service === null) return [];
            const specs = service.endpoints.map((each) => ({ ...each, primary: Number(Object.keys(each.ports)[0]) }));
            return [keep(makeView(`demo/${names[i]}`, [service.vip], specs), ['service', i, service])];
          }),
          pods: pods.flatMap((pod, i) =>
            pod === null
              ? []
              : [
                  keep(makePod(`${names[i]}-0`, names[i] ?? '', { port: pod.port, netnsPath: pod.netns }), [
                    'pod',
                    i,
                    pod,
                  ]),
                ],
          ),
        };
        const fit = buildFitSnapshot(input, { hash, ...(previous && { previous }) });
        const alone = buildFitSnapshot(input, { hash });
        const isWhole = alone.leftOut.length === 0;
        seen.set(String(isWhole), (seen.get(String(isWhole)) ?? 0) + 1);
        assert.equal(fit.leftOut.length === 0, isWhole);
        assert.deepEqual(validateSnapshot(fit.snapshot), []);
        if (isWhole) assert.deepEqual(show(fit.snapshot), show(alone.snapshot));
        if (isWhole) assert.deepEqual(fit.snapshot.meshSets, alone.snapshot.meshSets);
        previous = fit.snapshot;
      }
    }),
    { numRuns: 60 },
  );
  t.ok((seen.get('true') ?? 0) > 30 && (seen.get('false') ?? 0) > 30, JSON.stringify([...seen]));
  t.end();
});

t.test('buildFitSnapshot() looks at all again after one that left something out', (t) => {
  const bad = makeView('demo/zoo', ['10.96.0.99'], [{ ip: 'no-address', primary: 8080, ports: { 8080: 'http' } }]);
  const input = { ...base, services: [...base.services, bad] };
  const { snapshot, leftOut } = buildFitSnapshot(input, { hash });
  t.equal(leftOut.length, 1);
  t.equal(buildFitSnapshot(input, { hash, previous: snapshot }).leftOut.length, 1);
  t.end();
});
