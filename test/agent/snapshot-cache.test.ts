// Several Envoys and one snapshot, on a clock moved by hand: who is waited for, and the one refusal after which a listener is
// sent again, a namespace that is not there yet.
import t from 'tap';
import type { AdsResponse } from '../../src/agent/ads-protocol.ts';
import { type AdsStream, SnapshotCache } from '../../src/agent/snapshot-cache.ts';
import type { ResourceKind } from '../../src/xds/resource.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { ManualClock } from '../support/xds-clock.ts';
import { makeSnapshot } from '../support/xds-snapshots.ts';

const NETNS_MESSAGE = 'failed to open netns file /run/aether/netns/x: No such file or directory';

function setUp(options: { readonly pending?: ReadonlySet<string> } = {}) {
  const clock = new ManualClock();
  const log = new RecordingLog();
  const isPending = (_kind: ResourceKind, name: string) => options.pending?.has(name) ?? false;
  return { clock, log, cache: new SnapshotCache({ clock, log, isPending }) };
}

/** An Envoy that subscribes to listeners; `sent` is what it got, oldest first. */
function connect(cache: SnapshotCache) {
  const sent: AdsResponse[] = [];
  const stream: AdsStream = cache.openStream((response) => sent.push(response));
  const answer = (error?: string) =>
    stream.receive({
      kind: 'listener',
      subscribe: [],
      unsubscribe: [],
      initialVersions: {},
      nonce: sent.at(-1)?.nonce ?? '',
      ...(error === undefined ? {} : { error }),
    });
  answer();
  return { stream, sent, answer };
}

const shown = (sent: readonly AdsResponse[]) =>
  sent.map(({ resources, removed }) =>
    [...resources.map(({ name, version }) => `+${name}@${version}`), ...removed.map((name) => `-${name}`)].join(' '),
  );

const L = { kind: 'listener', name: 'l' } as const;
const FIRST_REQUEST = { kind: 'listener', subscribe: [], unsubscribe: [], initialVersions: {}, nonce: '' } as const;

t.test('SnapshotCache brings every stream to the published snapshot', (t) => {
  const { cache } = setUp();
  const early = connect(cache);
  t.same(early.sent, [], 'nothing is published');
  cache.publish(makeSnapshot('listener l 1'));
  const late = connect(cache);
  t.same(shown(early.sent), ['+l@1']);
  t.same(shown(late.sent), ['+l@1']);
  t.equal(cache.streams, 2);
  t.equal(cache.snapshot?.resources.listener.size, 1);
  t.end();
});

t.test('SnapshotCache does not count who asks for nothing', async (t) => {
  const { cache } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const sent: AdsResponse[] = [];
  const idle = cache.openStream((response) => sent.push(response));
  t.equal(cache.streams, 0);
  cache.publish(makeSnapshot('listener l 2'));
  idle.receive(FIRST_REQUEST);
  t.same(shown(sent), ['+l@2'], 'and gives what is published when it asks');
  idle.close();
  idle.receive(FIRST_REQUEST);
  t.equal(cache.streams, 0, 'a closed stream stays closed');
});

t.test('SnapshotCache waits until all Envoys took the version', async (t) => {
  const { cache } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const [one, two] = [connect(cache), connect(cache)];
  let settled = false;
  const result = cache.waitForAck([L], { timeoutMs: 1000 });
  result.then(
    () => {
      settled = true;
    },
    () => t.fail(),
  );
  one.answer();
  await Promise.resolve();
  t.notOk(settled);
  two.answer();
  t.same(await result, { kind: 'acknowledged' });
});

t.test('SnapshotCache no longer waits for an Envoy that went away', async (t) => {
  const { cache } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const [one, two] = [connect(cache), connect(cache)];
  const result = cache.waitForAck([L], { timeoutMs: 1000 });
  one.answer();
  two.stream.close();
  t.same(await result, { kind: 'acknowledged' });
  t.equal(cache.streams, 1);
});

t.test('SnapshotCache keeps the newer stream of a proxy when the older one closes after it (K042)', async (t) => {
  const { cache } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const older = connect(cache);
  const newer = connect(cache);
  newer.answer();
  older.stream.close();
  t.same(await cache.waitForAck([L], { timeoutMs: 1000 }), { kind: 'acknowledged' });
  cache.publish(makeSnapshot('listener l 2'));
  t.same(shown(newer.sent), ['+l@1', '+l@2']);
  t.equal(cache.streams, 1);
});

t.test('SnapshotCache says disconnected when the time is over and there is no Envoy', async (t) => {
  const { cache, clock } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const result = cache.waitForAck([L], { timeoutMs: 1000 });
  clock.advance(1000);
  t.same(await result, { kind: 'disconnected' });
});

t.test('SnapshotCache waits for a removal', async (t) => {
  const { cache } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const envoy = connect(cache);
  envoy.answer();
  cache.publish(makeSnapshot());
  t.same(shown(envoy.sent), ['+l@1', '-l']);
  const result = cache.waitForAck([L], { timeoutMs: 1000 });
  envoy.answer();
  t.same(await result, { kind: 'acknowledged' });
});

t.test("SnapshotCache reports a refusal in Envoy's words", async (t) => {
  const { cache, log } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const envoy = connect(cache);
  const result = cache.waitForAck([L], { timeoutMs: 1000 });
  envoy.answer('Error adding/updating listener(s) l: duplicate address');
  const message = 'Error adding/updating listener(s) l: duplicate address';
  t.same(await result, { kind: 'rejected', resources: [{ name: 'l', message }] });
  t.same(cache.listRejections(), [{ kind: 'listener', name: 'l', message }]);
  t.ok(log.has('xds.rejected', /"name":"l".*duplicate address/));
});

t.test('SnapshotCache sends a listener again whose namespace was missing, later each time', (t) => {
  const { cache, clock } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const envoy = connect(cache);
  for (const delayMs of [250, 500, 1000]) {
    envoy.sent.length = 1;
    envoy.answer(`Error adding/updating listener(s) l: ${NETNS_MESSAGE}`);
    clock.advance(delayMs - 1);
    t.same(shown(envoy.sent.slice(1)), []);
    clock.advance(1);
    t.same(shown(envoy.sent.slice(1)), ['-l'], 'taken away');
    envoy.answer();
    t.same(shown(envoy.sent.slice(1)), ['-l', '+l@1'], 'sent again');
    envoy.sent.splice(0, envoy.sent.length - 1);
  }
  envoy.answer();
  t.same(cache.listRejections(), []);
  t.equal(clock.pending, 0);
  t.end();
});

t.test('SnapshotCache does not send again what is refused for another reason', (t) => {
  const { cache, clock } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  connect(cache).answer('Error adding/updating listener(s) l: duplicate address');
  t.equal(clock.pending, 0);
  t.end();
});

t.test('SnapshotCache forgets its retries with the stream', (t) => {
  const { cache, clock } = setUp();
  cache.publish(makeSnapshot('listener l 1'));
  const envoy = connect(cache);
  envoy.answer(`Error adding/updating listener(s) l: ${NETNS_MESSAGE}`);
  t.equal(clock.pending, 1);
  envoy.stream.close();
  t.equal(clock.pending, 0);
  t.end();
});

t.test('SnapshotCache answers a pending name when it is refreshed', (t) => {
  const pending = new Set(['spiffe://aether.internal/ns/demo/sa/new']);
  const { cache } = setUp({ pending });
  cache.publish(makeSnapshot());
  const envoy = connect(cache);
  const before = envoy.sent.length;
  envoy.stream.receive({ kind: 'secret', subscribe: [...pending], unsubscribe: [], initialVersions: {}, nonce: '' });
  cache.refresh();
  t.equal(envoy.sent.length, before);
  const [name] = pending;
  pending.clear();
  cache.refresh();
  t.same(shown(envoy.sent.slice(before)), [`-${name}`]);
  t.end();
});
