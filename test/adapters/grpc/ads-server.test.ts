// xds.sock with gRPC clients of our own, good and bad ones. Then with the real Envoy in real namespaces: it is sent nothing
// twice when the server comes back, and gets a listener again whose namespace came late.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import t from 'tap';
import { startEnvoy } from '../../../scripts/lab/envoy.ts';
import { waitUntil } from '../../../scripts/lab/processes.ts';
import { DELTA_METHOD, typeUrlOf } from '../../../src/adapters/grpc/ads-messages.ts';
import { type AdsServer, createAdsServer } from '../../../src/adapters/grpc/ads-server.ts';
import { systemClock } from '../../../src/adapters/host/clock.ts';
import type { AdsResponse } from '../../../src/agent/ads-protocol.ts';
import type { AckResult, ResourceName } from '../../../src/agent/publisher.ts';
import { SnapshotCache } from '../../../src/agent/snapshot-cache.ts';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryRequestSchema,
} from '../../../src/gen/envoy/service/discovery/v3/discovery_pb.js';
import { buildSnapshot } from '../../../src/xds/build-snapshot.ts';
import type { NodePod } from '../../../src/xds/input.ts';
import { PUSH_ORDER, type ResourceKind, type Snapshot } from '../../../src/xds/resource.ts';
import { execIn, makeNetns } from '../../support/netns.ts';
import { RecordingLog } from '../../support/recording-log.ts';
import { exampleInput, hash, makePod, type PodSpec } from '../../support/xds-example.ts';
import { makeSnapshot } from '../../support/xds-snapshots.ts';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

function makeDir(t: TearsDown): string {
  const dir = mkdtempSync('/tmp/ae-ads-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function serve(t: TearsDown, socketPath: string, snapshot?: Snapshot) {
  const log = new RecordingLog();
  const cache = new SnapshotCache({ clock: systemClock, log });
  if (snapshot !== undefined) cache.publish(snapshot);
  const server: AdsServer = createAdsServer({ socketPath, mode: 0o600, cache, log });
  await server.start();
  t.teardown(() => server.close());
  return { cache, log, server };
}

type Stream = ClientDuplexStream<DeltaDiscoveryRequest, AdsResponse>;

/** A stream of our own; `received` fills as responses come. */
function openStream(t: TearsDown, socketPath: string) {
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure());
  t.teardown(() => client.close());
  const stream: Stream = client.makeBidiStreamRequest(
    DELTA_METHOD.path,
    DELTA_METHOD.requestSerialize,
    DELTA_METHOD.responseDeserialize,
  );
  const received: AdsResponse[] = [];
  const state = { ended: false };
  stream.on('data', (response: AdsResponse) => received.push(response));
  stream.on('error', () => {
    state.ended = true;
  });
  stream.on('end', () => {
    state.ended = true;
  });
  return { stream, received, state, client };
}

const ask = (kind: ResourceKind): DeltaDiscoveryRequest =>
  create(DeltaDiscoveryRequestSchema, { typeUrl: typeUrlOf(kind) });

const everything = (snapshot: Snapshot): readonly ResourceName[] =>
  PUSH_ORDER.flatMap((kind) => [...snapshot.resources[kind].keys()].map((name) => ({ kind, name })));

const ACKNOWLEDGED: AckResult = { kind: 'acknowledged' };

t.test('createAdsServer() makes the socket for its owner only, in a directory that it makes', async (t) => {
  const socketPath = join(makeDir(t), 'none/xds.sock');
  const first = await serve(t, socketPath);
  await t.rejects(serve(t, socketPath), { code: 'E_STORE', message: /another agent answers there/ });
  await first.server.close();
  await serve(t, socketPath);
  t.equal(statSync(socketPath).mode & 0o777, 0o600);
});

t.test('createAdsServer() does not remove what is no socket', async (t) => {
  const socketPath = join(makeDir(t), 'xds.sock');
  writeFileSync(socketPath, 'somebody needs this');
  await t.rejects(serve(t, socketPath), { code: 'E_STORE', message: /something else than a socket/ });
  t.equal(statSync(socketPath).size, 19);
});

t.test('createAdsServer() says why it cannot listen', async (t) => {
  const file = join(makeDir(t), 'file');
  writeFileSync(file, '');
  await t.rejects(serve(t, join(file, 'xds.sock')), { code: 'E_STORE', message: /listening on/ });
});

t.test('createAdsServer() lets garbage end its own stream alone', async (t) => {
  const socketPath = join(makeDir(t), 'xds.sock');
  const { cache } = await serve(t, socketPath, makeSnapshot('cluster a 1'));
  const good = openStream(t, socketPath);
  good.stream.write(ask('cluster'));
  await waitUntil('an answer', () => good.received.length === 1, { timeoutMs: 20_000 });

  const bad = openStream(t, socketPath);
  const raw = bad.client.makeBidiStreamRequest<Buffer, AdsResponse>(
    DELTA_METHOD.path,
    (bytes) => bytes,
    DELTA_METHOD.responseDeserialize,
  );
  const failed = new Promise<Error>((resolve) => raw.on('error', resolve));
  raw.write(Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x00]));
  t.ok(await failed, 'the stream with garbage ends');

  t.notOk(good.state.ended);
  cache.publish(makeSnapshot('cluster a 2'));
  const [first] = good.received;
  good.stream.write(
    create(DeltaDiscoveryRequestSchema, { typeUrl: typeUrlOf('cluster'), responseNonce: first?.nonce ?? '' }),
  );
  await waitUntil('the next version', () => good.received.length === 2, { timeoutMs: 20_000 });
  t.equal(good.received[1]?.resources[0]?.version, '2');
});

t.test('createAdsServer() goes on after a type that it does not serve', async (t) => {
  const socketPath = join(makeDir(t), 'xds.sock');
  const { log } = await serve(t, socketPath, makeSnapshot('cluster a 1'));
  const { stream, received } = openStream(t, socketPath);
  stream.write(create(DeltaDiscoveryRequestSchema, { typeUrl: 'type.googleapis.com/no.such.Type' }));
  stream.write(ask('cluster'));
  await waitUntil('an answer', () => received.length === 1, { timeoutMs: 20_000 });
  t.ok(log.has('xds.request.unknown-type', /no\.such\.Type/));
});

t.test('createAdsServer() forgets a stream whose client is gone', async (t) => {
  const socketPath = join(makeDir(t), 'xds.sock');
  const { cache } = await serve(t, socketPath, makeSnapshot());
  const { stream, client } = openStream(t, socketPath);
  stream.write(ask('cluster'));
  await waitUntil('the stream', () => cache.streams === 1, { timeoutMs: 20_000 });
  stream.cancel();
  client.close();
  t.ok(await waitUntil('its end', () => cache.streams === 0, { timeoutMs: 20_000 }));
});

/** A pod with a namespace of its own. */
function addPod(t: TearsDown, name: string, spec: PodSpec): NodePod {
  return makePod(name, name, { ...spec, netnsPath: makeNetns(t, 'ads').path });
}

t.test('the real Envoy takes everything, keeps it over a restart, gives it back', { timeout: 120_000 }, async (t) => {
  const dir = makeDir(t);
  const socketPath = join(dir, 'xds.sock');
  const pods = [
    addPod(t, 'client-0', { port: '8080' }),
    addPod(t, 'db-0', { port: '5432', protocol: 'tcp', redirectAll: false }),
    addPod(t, 'shop-0', { port: '8080', ports: '8080,9090=h2,9000=tcp,5432=tcp' }),
  ];
  const { trustBundlePem: _, ...input } = exampleInput({ pods });
  const snapshot = buildSnapshot(input, { hash });
  const first = await serve(t, socketPath, snapshot);
  const envoy = await startEnvoy({ dir, nodeName: 'node1', xdsSocket: socketPath });
  t.teardown(() => envoy.process.stop());
  const patience = { timeoutMs: 30_000 };

  t.same(await first.cache.waitForAck(everything(snapshot), patience), ACKNOWLEDGED);
  t.same(first.cache.listRejections(), []);
  const before = await envoy.counters();
  t.equal(before.get('listener_manager.total_listeners_active'), 15);
  t.equal(before.get('cluster_manager.warming_clusters'), 0);

  await first.server.close();
  await waitUntil('the end of the stream', () => first.cache.streams === 0, { timeoutMs: 20_000 });
  const second = await serve(t, socketPath, buildSnapshot(input, { hash }));
  t.same(await second.cache.waitForAck(everything(snapshot), patience), ACKNOWLEDGED);
  const after = await envoy.counters();
  const reloads = [...before.keys()].filter((name) => /(rds|vhds)\..*config_reload$/.test(name));
  t.equal(reloads.length, 4, reloads.join(', '));
  for (const name of ['listener_manager.listener_modified', 'cluster_manager.cluster_modified', ...reloads]) {
    t.equal(after.get(name), before.get(name), `${name}: nothing is sent again`);
  }

  const bare = buildSnapshot({ ...input, pods: [], services: [] }, { hash, previous: snapshot });
  second.cache.publish(bare);
  t.same(await second.cache.waitForAck(everything(snapshot), patience), ACKNOWLEDGED, 'removals too');
  await waitUntil(
    'the listeners to drain',
    async () => (await envoy.counters()).get('listener_manager.total_listeners_active') === 0,
    patience,
  );
});

t.test('the real Envoy gets a listener again when its namespace appears', { timeout: 120_000 }, async (t) => {
  const dir = makeDir(t);
  const socketPath = join(dir, 'xds.sock');
  const late = makePod('late-0', 'late', { port: '8080', netnsPath: join(dir, 'pin') });
  const { trustBundlePem: _, ...input } = exampleInput({ pods: [late], services: [] });
  const snapshot = buildSnapshot(input, { hash });
  const { cache } = await serve(t, socketPath, snapshot);
  const envoy = await startEnvoy({ dir, nodeName: 'node1', xdsSocket: socketPath });
  t.teardown(() => envoy.process.stop());
  const refused = await cache.waitForAck(everything(snapshot), { timeoutMs: 30_000 });
  t.match(refused, { kind: 'rejected', resources: [{ message: /netns/ }] });

  const netns = makeNetns(t, 'ads');
  writeFileSync(join(dir, 'pin'), '');
  execFileSync('mount', ['--bind', netns.path, join(dir, 'pin')]);
  t.teardown(() => execFileSync('umount', [join(dir, 'pin')]));
  await waitUntil('the listeners', () => cache.listRejections().length === 0, { timeoutMs: 30_000 });
  t.same(await cache.waitForAck(everything(snapshot), { timeoutMs: 30_000 }), ACKNOWLEDGED);
});

t.test('the real Envoy listens where the namespace has IPv6 switched off', { timeout: 120_000 }, async (t) => {
  const dir = makeDir(t);
  const socketPath = join(dir, 'xds.sock');
  const netns = makeNetns(t, 'ads');
  execIn(netns, ['sh', '-c', 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6']);
  const pod = makePod('four-0', 'four', { port: '8080', netnsPath: netns.path });
  const { trustBundlePem: _, ...input } = exampleInput({ pods: [pod], services: [] });
  const snapshot = buildSnapshot(input, { hash });
  const { cache } = await serve(t, socketPath, snapshot);
  const envoy = await startEnvoy({ dir, nodeName: 'node1', xdsSocket: socketPath });
  t.teardown(() => envoy.process.stop());
  t.same(await cache.waitForAck(everything(snapshot), { timeoutMs: 30_000 }), ACKNOWLEDGED);
});
