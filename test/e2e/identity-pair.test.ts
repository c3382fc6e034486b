// One Envoy, one cluster, two client pods: does each request go out under the certificate of the pod that sent it? The pool
// of upstream connections is shared; what keeps the pods apart is that the identity is a hashable filter state. The
// negative control takes just that away, and must mix them: otherwise this test would prove nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { anyPack, anyUnpack } from '@bufbuild/protobuf/wkt';
import t from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import type { FilterChain } from '../../src/gen/envoy/config/listener/v3/listener_components_pb.js';
import { ListenerSchema } from '../../src/gen/envoy/config/listener/v3/listener_pb.js';
import { ConfigSchema as SetFilterStateSchema } from '../../src/gen/envoy/extensions/filters/network/set_filter_state/v3/set_filter_state_pb.js';
import { captureListenerName } from '../../src/mesh/names.ts';
import type { Resource, Snapshot } from '../../src/xds/resource.ts';
import { makeView } from '../support/services.ts';
import type { HttpAnswer } from '../support/xds-client.ts';
import { EXAMPLE_NODE, hash } from '../support/xds-example.ts';
import { startXdsNode, type XdsNode, type XdsPod } from '../support/xds-node.ts';

const VIP = '10.96.0.50';
const SHOP = 'shop.demo.aether.internal';
const REQUESTS = 100;
const HASHABLE = 'envoy.hashable_string';

interface Pair {
  readonly node: XdsNode;
  readonly pods: readonly [XdsPod, XdsPod, XdsPod];
  readonly services: readonly ReturnType<typeof makeView>[];
}

async function startPair(t: { teardown(fn: () => unknown): unknown }): Promise<Pair> {
  const node = await startXdsNode(t);
  const one = node.addPod('one-0', 'one', { port: '8080' });
  const two = node.addPod('two-0', 'two', { port: '8080' });
  const shop = node.addPod('shop-0', 'shop', { port: '8080', ports: '8080,9090,9000=tcp' });
  await node.startApp(shop, 'http=8080', 'http=9090', 'echo=9000');
  const ports = { 8080: 'http', 9090: 'http', 9000: 'tcp' } as const;
  return {
    node,
    pods: [one, two, shop],
    services: [makeView('demo/shop', [VIP], [{ ip: shop.ip4, primary: 8080, ports }])],
  };
}

/** The snapshot with the filters of the capture listeners changed; each is sent as a new version. */
function editFilters(snapshot: Snapshot, edit: (chain: FilterChain) => void): Snapshot {
  const listener = new Map(snapshot.resources.listener);
  for (const [name, resource] of listener) {
    if (!name.startsWith(captureListenerName(''))) continue;
    const message = fromBinary(ListenerSchema, resource.bytes);
    for (const chain of message.filterChains) edit(chain);
    const bytes = toBinary(ListenerSchema, message);
    const edited: Resource = { ...resource, bytes, version: hash(bytes) };
    listener.set(name, edited);
  }
  // Not what the snapshot says of itself: the edit is a change more.
  const { change: _, ...whole } = snapshot;
  return { ...whole, resources: { ...snapshot.resources, listener } };
}

// The identity as a plain string: it still names the certificate, but no longer keeps connections apart.
function makeUnhashable(chain: FilterChain): void {
  for (const { configType } of chain.filters) {
    const config = configType.case === 'typedConfig' ? anyUnpack(configType.value, SetFilterStateSchema) : undefined;
    if (config === undefined) continue;
    for (const value of config.onNewConnection) {
      if (value.factoryKey === HASHABLE) value.factoryKey = 'envoy.string';
    }
    if (configType.case === 'typedConfig') configType.value = anyPack(SetFilterStateSchema, config);
  }
}

// A chain that does not say who calls.
function forgetIdentity(chain: FilterChain): void {
  chain.filters = chain.filters.filter(
    ({ configType }) =>
      configType.case !== 'typedConfig' || anyUnpack(configType.value, SetFilterStateSchema) === undefined,
  );
}

function callerOf(answer: HttpAnswer): string {
  if (answer.status !== 200) return `${answer.status} ${answer.error ?? answer.body}`;
  const { headers } = JSON.parse(answer.body) as { headers: Record<string, string> }; // written by xds-app
  return /URI=(\S+)$/.exec(headers['x-forwarded-client-cert'] ?? '')?.[1] ?? 'nobody';
}

const certificateOf = (answer: HttpAnswer | undefined): string =>
  /Hash=([0-9a-f]+)/.exec(answer?.body ?? '')?.[1] ?? '';

/** Both pods ask at the same time, each on one kept connection; how many answers name somebody else than the sender. */
async function countWrong({
  node,
  pods,
}: Pair): Promise<{ readonly asked: number; readonly wrong: readonly string[] }> {
  const [one, two] = pods;
  const job = { http: { host: VIP, port: 80, authority: SHOP }, times: REQUESTS, keep: true };
  const answers = await Promise.all(
    [one, two].map(async (pod) => (await node.http(pod, job)).map((answer) => ({ pod, caller: callerOf(answer) }))),
  );
  const all = answers.flat();
  const wrong = all.filter(({ pod, caller }) => caller !== pod.pod.identity);
  return { asked: all.length, wrong: wrong.map(({ pod, caller }) => `${pod.name}: ${caller}`) };
}

t.test('two pods share a cluster', async (t) => {
  const pair = await startPair(t);
  const { node, pods, services } = pair;
  const [one, two, shop] = pods;
  const input = { node: EXAMPLE_NODE, services };
  const ask = async (pod: XdsPod, authority = SHOP) =>
    (await node.http(pod, { http: { host: VIP, port: 80, authority } }))[0];

  t.test('hashable: every request goes out under its own pod', async (t) => {
    await node.publish(pods, input);
    const { asked, wrong } = await countWrong(pair);
    t.equal(asked, 2 * REQUESTS);
    t.same(wrong, []);
  });

  t.test('plain string, the negative control: they are mixed', async (t) => {
    await node.publish(pods, input, (snapshot) => editFilters(snapshot, makeUnhashable));
    const { asked, wrong } = await countWrong(pair);
    t.equal(asked, 2 * REQUESTS);
    t.ok(wrong.length > 0, 'else the first half of the pair would prove nothing');
    t.comment(`${wrong.length} of ${asked} under the other pod's identity`);
  });

  t.test('a chain that forgot the identity gets nothing', async (t) => {
    await node.publish(pods, input, (snapshot) => editFilters(snapshot, forgetIdentity));
    // A port that no connection of the chain before leads to.
    const answer = await ask(one, `${SHOP}:9090`);
    t.equal(answer?.status, 503);
    t.ok((answer?.ms ?? 1e9) < 5000, `${answer?.ms} ms`);
    await node.publish(pods, input);
    const again = await ask(one, `${SHOP}:9090`);
    t.equal(again?.status, 200, 'and with it everything');
  });

  t.test('a pod that is both ends is served as both', async (t) => {
    const answer = await ask(shop);
    t.equal(answer === undefined ? '' : callerOf(answer), shop.pod.identity);
    t.match(await node.tcp(shop, { tcp: { host: VIP, port: 9000 }, send: 'ping \r\n' }), { got: /^shop-0:9000 ping/ });
  });

  t.test('a new certificate is used by the next connection', async (t) => {
    const before = certificateOf(await ask(two));
    node.rotate(two.pod.identity);
    await node.publish(pods, input);
    const after = certificateOf(await ask(two, `${SHOP}:9090`));
    t.match(before, /^[0-9a-f]{64}$/);
    t.match(after, /^[0-9a-f]{64}$/);
    t.not(after, before);
  });

  t.test('while a certificate is being issued the dial waits', async (t) => {
    const late = node.addPod('late-0', 'late', { port: '8080' });
    node.pending.add(late.pod.identity);
    await node.publish([...pods, late], input);
    const connections = 'cluster.demo/shop.upstream_cx_total';
    const before = await node.counter(connections);
    const answer = ask(late);
    await waitUntil('the dial', async () => (await node.counter(connections)) > before, { timeoutMs: 20_000 });
    await sleep(500);
    node.pending.delete(late.pod.identity);
    await node.publish([...pods, late], input);
    const { status = 0, ms = 0, body = '' } = (await answer) ?? {};
    t.equal(status, 200, body);
    t.ok(ms > 400, `${ms} ms`);
  });

  t.test('a certificate that will never be is refused at once', async (t) => {
    const never = node.addPod('never-0', 'never', { port: '8080' });
    node.pending.add(never.pod.identity);
    await node.publish([...pods, never], input);
    node.pending.delete(never.pod.identity);
    node.cache.refresh();
    const answer = await ask(never);
    t.equal(answer?.status, 503);
    t.ok((answer?.ms ?? 1e9) < 5000, `${answer?.ms} ms`);
  });
});
