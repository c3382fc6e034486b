// What Envoy has not taken makes an explanation say "not now", and only where it is in the way. A real snapshot, and a
// publisher that says what the test wants.
import t from 'tap';
import { explainDestination } from '../../src/agent/explain.ts';
import { judgeNow, type Told } from '../../src/agent/explain-obstacles.ts';
import type { AckResult } from '../../src/agent/publisher.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { EXAMPLE_NODE, exampleInput, hash } from '../support/xds-example.ts';

const input = exampleInput();
const snapshot = buildSnapshot(input, { hash });
const POD = {
  ...{ namespace: 'demo', name: 'client-0', resourceName: 'demo_client-0' },
  policy: { redirectAll: true, excludePorts: [], excludeRanges: [] },
};

/** `states`: of resources that Envoy has not taken. */
function told(states: Readonly<Record<string, AckResult>> = {}, more: Partial<Told> = {}): Told {
  return {
    snapshot,
    leftOut: [],
    publisher: {
      streams: 1,
      publish: () => {},
      waitForAck: async (names) =>
        names.flatMap(({ kind, name }) => states[`${kind} ${name}`] ?? [])[0] ?? { kind: 'acknowledged' },
    },
    ...more,
  };
}

const now = (destination: string, state: Told) =>
  judgeNow(explainDestination(destination, POD, { node: EXAMPLE_NODE, services: input.services }), state);

t.test('judgeNow() leaves what Envoy has taken as it is', async (t) => {
  const { resolved, verdict } = await now('http://shop.demo.aether.internal/', told());
  t.ok(resolved);
  t.match(verdict, /^over the mesh to demo\/shop/);
});

const WAITING = { kind: 'timeout', waitingFor: [] } as const;
const REFUSED = { kind: 'rejected', resources: [{ name: 'x', message: 'bad port' }] } as const;
for (const [title, destination, state, want] of [
  [
    'no Envoy',
    'http://shop.demo.aether.internal/',
    'away',
    /^not now: no proxy is connected, .*Otherwise: over the mesh/,
  ],
  [
    'a listener that waits',
    '10.96.0.50:9000',
    { 'listener capture_tcp_demo_client-0': WAITING },
    /^not now: the proxy has not acknowledged listener capture_tcp_demo_client-0 yet\. Otherwise: over/,
  ],
  [
    'a cluster that is refused',
    '10.96.0.50:9000',
    { 'cluster tcp:10.96.0.50:9000': REFUSED },
    /^not now: the proxy refuses cluster tcp:10.96.0.50:9000: bad port\. /,
  ],
  [
    'endpoints that wait',
    '10.96.0.50:9000',
    { 'endpoints tcp:shop.demo.aether.internal:9000': WAITING },
    /has not acknowledged endpoints tcp:shop/,
  ],
  [
    'routes that wait',
    'http://example.com/',
    { 'routes cap_http': WAITING },
    /has not acknowledged routes cap_http yet.*Otherwise: passes through/,
  ],
] as const) {
  t.test(`judgeNow() is not resolved with ${title}`, async (t) => {
    const away = { publisher: { ...told().publisher, streams: 0 } };
    const { resolved, verdict } = await now(destination, state === 'away' ? told({}, away) : told(state));
    t.notOk(resolved);
    t.match(verdict, want);
  });
}

t.test('judgeNow() asks nothing of Envoy for what never comes to it', async (t) => {
  const away = { publisher: { ...told().publisher, streams: 0 } };
  t.ok((await now('127.0.0.1:9000', told({}, away))).resolved);
});

t.test('judgeNow() names a service that is left out, and a pod that Envoy is not told of', async (t) => {
  const problems = [{ path: 'name', message: 'is too long' }];
  const without = told({}, { leftOut: [{ kind: 'service', name: 'demo/shop', problems }] });
  t.match((await now('10.96.0.50:9000', without)).verdict, /^not now: demo\/shop is left out .*is too long/);
  const empty = told({}, { snapshot: undefined });
  t.match((await now('http://example.com/', empty)).verdict, /is not told of listener capture_demo_client-0/);
});

t.test('judgeNow() keeps the verdict of what leads nowhere anyhow, and notes the rest', async (t) => {
  const waits = told({ 'listener capture_demo_client-0': WAITING });
  const { resolved, verdict, notes } = await now('http://shop.demo.aether.internal:4444/', waits);
  t.notOk(resolved);
  t.match(verdict, /^refused with HTTP 503/);
  t.match(notes, [/has not acknowledged listener capture_demo_client-0/]);
});
