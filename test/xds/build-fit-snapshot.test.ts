// One bad service or pod is left out so that the rest can be served: which one, and who keeps an address that two claim. The
// work is counted in steps, not in time.
import t from 'tap';
import { buildFitSnapshot, buildFitSnapshotInSteps, type FitSnapshot } from '../../src/xds/build-fit-snapshot.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { SnapshotInput } from '../../src/xds/input.ts';
import type { Snapshot } from '../../src/xds/resource.ts';
import { routeFacts } from '../../src/xds/resource-facts.ts';
import { exampleServices, makeView } from '../support/services.ts';
import { exampleInput, hash, makePod, namesOf } from '../support/xds-example.ts';

const build = (input: SnapshotInput, previous?: Snapshot): FitSnapshot =>
  buildFitSnapshot(input, previous === undefined ? { hash } : { hash, previous });

const endpoint = (ip: string) => ({ ip, primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } }) as const;
const { db, shop, web, idle } = exampleServices();
const names = ({ leftOut }: FitSnapshot): readonly string[] => leftOut.map(({ kind, name }) => `${kind} ${name}`);

t.test('buildFitSnapshot() builds what buildSnapshot builds when nobody is at fault', (t) => {
  const input = exampleInput();
  const { snapshot, leftOut, problems } = build(input);
  t.same(snapshot, buildSnapshot(input, { hash }));
  t.same([leftOut, problems], [[], []]);
  t.end();
});

t.test('buildFitSnapshot() leaves a service out alone', (t) => {
  const bad = makeView(`demo/${'a'.repeat(300)}`, ['10.96.0.99'], [endpoint('10.1.2.9')]);
  const good = [db, idle, shop, web];
  const { snapshot, leftOut, problems } = build(exampleInput({ services: [bad, ...good] }));
  t.same(problems, []);
  t.match(leftOut, [{ kind: 'service', name: `demo/${'a'.repeat(300)}`, problems: [{ path: 'service account' }] }]);
  t.same(snapshot, buildSnapshot(exampleInput({ services: good }), { hash }), 'as if it were not there');
  t.end();
});

t.test('buildFitSnapshot() on an address that two services have', (t) => {
  const claim = makeView('demo/zoo', ['10.96.0.50'], [endpoint('10.1.2.9')]);
  const both = exampleInput({ services: [db, shop, claim] });
  t.test('leaves out the second one', (t) => {
    const built = build(both);
    t.same(names(built), ['service demo/zoo']);
    t.match(built.leftOut[0]?.problems[0], { path: /^cluster tcp:10\.96\.0\.50:/, message: /two owners/ });
    t.same(built.problems, []);
    t.ok(namesOf(built.snapshot, 'cluster').includes('tcp:10.96.0.50:5432'));
    t.end();
  });
  t.test('leaves it with the one that had it before', (t) => {
    const before = build(exampleInput({ services: [db, claim] }));
    const built = build(both, before.snapshot);
    t.same(names(built), ['service demo/shop']);
    const after = build(both, built.snapshot);
    t.same(names(after), ['service demo/shop'], 'and again');
    t.end();
  });
  t.test('takes in the other one when the first gives it up', (t) => {
    const before = build(both);
    const moved = makeView('demo/shop', ['10.96.0.51'], [endpoint('10.1.2.3')]);
    t.same(names(build(exampleInput({ services: [db, moved, claim] }), before.snapshot)), []);
    t.end();
  });
  t.end();
});

t.test('buildFitSnapshot() leaves out a pod that comes to a namespace where another one listens', (t) => {
  const [client, ...others] = exampleInput().pods;
  if (client === undefined) throw new RangeError('no client');
  const before = build(exampleInput());
  // Sorted before the one that works.
  const intruder = makePod('a-0', 'a', { port: '8080', netnsPath: client.netnsPath });
  const built = build(exampleInput({ pods: [intruder, client, ...others] }), before.snapshot);
  t.same(names(built), ['pod demo_a-0']);
  t.same(built.problems, []);
  t.ok(namesOf(built.snapshot, 'listener').includes('capture_demo_client-0'));
  t.end();
});

t.test('buildFitSnapshot() of services that Envoy is not given', (t) => {
  const far = makeView('demo/far', ['10.96.0.80', 'fd96::80'], [{ ...endpoint('10.1.2.9'), ports: { 8080: 'http' } }]);
  const built = build(exampleInput({ services: [db, shop], others: [far] }));
  t.same([built.leftOut, built.problems], [[], []]);
  t.notOk(namesOf(built.snapshot, 'cluster').some((name) => name.startsWith('far.')));
  t.ok(
    built.snapshot.meshSets.vip.some(({ text }) => text === '10.96.0.80'),
    'their addresses count',
  );
  const host = built.snapshot.resources.host.get('cap_http/far.demo.aether.internal');
  if (host === undefined) throw new Error('no host');
  const { domains, clusters } = routeFacts(host);
  t.ok(domains.includes('far.demo.svc.cluster.local:18081') && domains.includes('far.demo.aether.internal'));
  t.same(clusters, ['far.demo.aether.internal'], 'which Envoy asks for');
  const again = build(exampleInput({ services: [db, shop], others: [far] }), built.snapshot);
  t.equal(again.snapshot.resources.host.get(host.name), host, 'the same host while nothing changed');

  const thief = makeView('demo/thief', ['10.96.0.50'], [{ ...endpoint('10.1.2.9'), ports: { 8080: 'http' } }]);
  const claimed = build(exampleInput({ services: [db, shop], others: [far, thief] }));
  t.same(names(claimed), ['service demo/thief'], 'none of them takes an address from one that is given');
  t.same(claimed.problems, []);
  t.end();
});

t.test('buildFitSnapshotInSteps() takes as many steps as something has changed', (t) => {
  const services = Array.from({ length: 200 }, (_, i) =>
    makeView(`demo/svc-${100 + i}`, [`10.96.1.${i}`], [endpoint(`10.1.3.${i}`)]),
  );
  const pods = Array.from({ length: 4 }, (_, i) => makePod(`pod-${i}`, `svc-${i}`, { port: '8080' }));
  const count = (input: SnapshotInput, previous?: Snapshot): { readonly steps: number; readonly made: Snapshot } => {
    const building = buildFitSnapshotInSteps(input, { hash, ...(previous && { previous }) });
    for (let steps = 0; ; steps++) {
      const { done, value } = building.next();
      if (done) return { steps, made: value.snapshot };
    }
  };
  const inputOf = (podCount: number, serviceCount: number): SnapshotInput =>
    exampleInput({ pods: pods.slice(0, podCount), services: services.slice(0, serviceCount) });
  const first = count(inputOf(1, 198));
  t.ok(first.steps > 1000, 'all of them at first');
  // The first change looks at what all of them need.
  const second = count(inputOf(2, 198), first.made);
  for (const [title, input] of [
    ['a pod', inputOf(3, 198)],
    ['a service', inputOf(2, 199)],
    ['nothing', inputOf(2, 198)],
    ['a pod and a service', inputOf(4, 200)],
  ] as const) {
    const previous = count(inputOf(2, 198), count(inputOf(1, 198), second.made).made).made;
    const { steps, made } = count(input, previous);
    t.ok(steps < 60, `${title} more: ${steps} steps`);
    t.equal(made.resources.cluster.size, buildSnapshot(input, { hash }).resources.cluster.size);
  }
  t.end();
});
