// Counting who needs what keeps an edited snapshot fit: nothing needed goes, and nothing taken is taken twice.
import t from 'tap';
import { runSteps } from '../../src/core/steps.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { PUSH_ORDER, type Snapshot } from '../../src/xds/resource.ts';
import { SnapshotIndex } from '../../src/xds/snapshot-index.ts';
import { makeView } from '../support/services.ts';
import { exampleInput, hash } from '../support/xds-example.ts';

const input = exampleInput();
const snapshot = buildSnapshot(input, { hash });
const resources = PUSH_ORDER.flatMap((kind) => [...snapshot.resources[kind].values()]);

function makeIndex(of: Snapshot = snapshot, services = input.services): SnapshotIndex {
  const index = runSteps(SnapshotIndex.make(of, services));
  if (index === undefined) throw new Error('not fit');
  return index;
}

const SHOP = { kind: 'cluster', name: 'shop.demo.aether.internal' } as const;

t.test('SnapshotIndex knows what clusters and endpoints are needed', (t) => {
  const index = makeIndex();
  t.ok(index.isNeeded(SHOP), 'named by hosts');
  t.ok(index.isNeeded({ kind: 'cluster', name: 'tcp:10.96.0.50:9000' }) === false, 'found by the address dialled');
  t.ok(index.isNeeded({ kind: 'endpoints', name: 'demo/shop' }));
  t.notOk(index.isNeeded({ kind: 'endpoints', name: 'demo/other' }));
  for (const resource of resources) index.release(resource);
  t.notOk(
    resources.some((resource) => index.isNeeded(resource)),
    'nobody is left',
  );
  t.ok(
    resources.every((resource) => index.claim(resource)),
    'and all may come again',
  );
  t.end();
});

t.test('SnapshotIndex counts who needs a cluster', (t) => {
  const index = makeIndex();
  const hosts = [...snapshot.resources.host.values()].filter(({ name }) => name.includes('shop'));
  for (const host of hosts.slice(1)) index.release(host);
  t.ok(index.isNeeded(SHOP));
  for (const host of hosts.slice(0, 1)) index.release(host);
  t.notOk(index.isNeeded(SHOP));
  t.end();
});

for (const [kind, what] of [
  ['listener', 'a socket'],
  ['host', 'a domain'],
] as const) {
  t.test(`SnapshotIndex refuses ${what} that another has`, (t) => {
    const [resource] = snapshot.resources[kind].values();
    if (resource === undefined) throw new Error(`no ${kind}`);
    t.notOk(makeIndex().claim({ ...resource, name: kind === 'host' ? `${resource.name}.x` : 'other' }));
    t.end();
  });
}

t.test('SnapshotIndex refuses an address that another service has', (t) => {
  const claim = makeView('demo/zoo', ['10.96.0.50'], []);
  t.notOk(makeIndex().claimAddresses(claim));
  t.equal(runSteps(SnapshotIndex.make(snapshot, [...input.services, claim])), undefined);
  t.end();
});

t.test('SnapshotIndex refuses endpoints for both protocols', (t) => {
  const [http, tcp] = [SHOP.name, 'tcp:10.96.0.50:9000'].map((name) => snapshot.resources.cluster.get(name));
  if (http === undefined || tcp === undefined) throw new Error('no clusters');
  t.notOk(makeIndex().claim({ ...http, name: 'tcp:10.96.0.99:9000' }));
  t.ok(makeIndex().claim({ ...tcp, name: 'tcp:10.96.0.99:9000' }), 'many of one protocol may share them');
  t.end();
});
