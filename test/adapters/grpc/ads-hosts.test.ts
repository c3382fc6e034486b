// Virtual hosts in the real Envoy (VHDS): what it needs of them beyond what the protocol says.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Envoy, startEnvoy } from '../../../scripts/lab/envoy.ts';
import { waitUntil } from '../../../scripts/lab/processes.ts';
import { createAdsServer } from '../../../src/adapters/grpc/ads-server.ts';
import { systemClock } from '../../../src/adapters/host/clock.ts';
import type { ResourceName } from '../../../src/agent/publisher.ts';
import { SnapshotCache } from '../../../src/agent/snapshot-cache.ts';
import type { ServiceView } from '../../../src/mesh/service-view.ts';
import { buildSnapshot } from '../../../src/xds/build-snapshot.ts';
import type { NodePod } from '../../../src/xds/input.ts';
import { PUSH_ORDER, type Snapshot } from '../../../src/xds/resource.ts';
import { makeNetns } from '../../support/netns.ts';
import { RecordingLog } from '../../support/recording-log.ts';
import { makeView } from '../../support/services.ts';
import { exampleInput, hash, makePod } from '../../support/xds-example.ts';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

/** Longer than anything takes but Envoy's own time-out for what it waits for (15 s). */
const PATIENCE = { timeoutMs: 8000 };

class Node {
  readonly dir = mkdtempSync('/tmp/ae-hosts-');
  #cache: SnapshotCache | undefined;
  #end: (() => Promise<void>) | undefined;
  #previous: Snapshot | undefined;

  get cache(): SnapshotCache {
    if (this.#cache === undefined) throw new Error('not served');
    return this.#cache;
  }

  /** A new agent, which knows nothing of the one before. */
  async serve(pods: readonly NodePod[], services: readonly ServiceView[]): Promise<void> {
    await this.#end?.();
    this.#previous = undefined;
    this.#cache = new SnapshotCache({ clock: systemClock, log: new RecordingLog() });
    this.#publish(pods, services);
    const socketPath = join(this.dir, 'xds.sock');
    const server = createAdsServer({ socketPath, mode: 0o600, cache: this.cache, log: new RecordingLog() });
    await server.start();
    this.#end = () => server.close();
  }

  /** Resolves when Envoy has taken everything. */
  async publish(pods: readonly NodePod[], services: readonly ServiceView[]): Promise<void> {
    const before = this.#previous;
    this.#publish(pods, services);
    await this.settle(before);
  }

  async settle(before?: Snapshot): Promise<void> {
    // Route tables are asked for only while a pod needs them.
    const kinds = PUSH_ORDER.filter((kind) => kind !== 'routes');
    const names = [before, this.cache.snapshot].flatMap((snapshot) =>
      kinds.flatMap((kind): ResourceName[] =>
        [...(snapshot?.resources[kind].keys() ?? [])].map((name) => ({ kind, name })),
      ),
    );
    const result = await this.cache.waitForAck(names, PATIENCE);
    if (result.kind !== 'acknowledged') throw new Error(JSON.stringify(result));
  }

  #publish(pods: readonly NodePod[], services: readonly ServiceView[]): void {
    const { trustBundlePem: _, ...input } = exampleInput({ pods, services });
    const previous = this.#previous === undefined ? {} : { previous: this.#previous };
    this.#previous = buildSnapshot(input, { hash, ...previous });
    this.cache.publish(this.#previous);
  }

  async close(): Promise<void> {
    await this.#end?.();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

async function startNode(
  t: TearsDown,
  pods: readonly NodePod[],
  services: readonly ServiceView[],
): Promise<{ readonly node: Node; readonly envoy: Envoy }> {
  const node = new Node();
  t.teardown(() => node.close());
  await node.serve(pods, services);
  const envoy = await startEnvoy({
    ...{ dir: node.dir, nodeName: 'node1', xdsSocket: join(node.dir, 'xds.sock') },
    args: ['--drain-time-s', '1', '--drain-strategy', 'immediate'],
  });
  t.teardown(() => envoy.process.stop());
  await node.settle();
  return { node, envoy };
}

function addPod(t: TearsDown, name: string): NodePod {
  return makePod(name, name, { port: '8080', netnsPath: makeNetns(t, 'hosts').path });
}

const listening = async (envoy: Envoy): Promise<void> => {
  await waitUntil(
    'the listeners to be warm',
    async () => (await envoy.counters()).get('listener_manager.total_listeners_warming') === 0,
    PATIENCE,
  );
};

/** Virtual hosts of `cap_http`, sorted. */
async function hostsOf(envoy: Envoy): Promise<readonly string[]> {
  const dump = await envoy.admin('/config_dump?resource=dynamic_route_configs');
  return [...new Set([...dump.matchAll(/"name": "cap_http\/([^"]+)"/g)].map(([, name = '']) => name))].sort();
}

const http = (name: string): ServiceView =>
  makeView(`demo/${name}`, ['10.96.0.50'], [{ ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http' } }]);
const A = 'a.demo.aether.internal';

t.test('the real Envoy listens at once though there is no host, and takes the first one', async (t) => {
  const pod = addPod(t, 'client-0');
  const { node, envoy } = await startNode(t, [pod], []);
  await listening(envoy);
  t.same(await hostsOf(envoy), []);
  await node.publish([pod], [http('a')]);
  t.same(await hostsOf(envoy), [A, `${A}:8080`]);
  await node.publish([pod], []);
  t.same(await hostsOf(envoy), []);
});

t.test('the real Envoy moves a domain from one host to another in one response', async (t) => {
  const pod = addPod(t, 'client-0');
  const view = (primary: number) =>
    makeView('demo/a', ['10.96.0.50'], [{ ip: '10.1.2.3', primary, ports: { 8080: 'http', 9090: 'http' } }]);
  const { node, envoy } = await startNode(t, [pod], [view(8080)]);
  await node.publish([pod], [view(9090)]);
  await node.publish([pod], [view(8080)]);
  t.same(node.cache.listRejections(), []);
  t.same(await hostsOf(envoy), [A, `${A}:8080`, `${A}:9090`]);
});

t.test('the real Envoy gets all hosts for its first pod after it had none, also from another agent', async (t) => {
  const [first, second] = [addPod(t, 'first-0'), addPod(t, 'second-0')];
  const { node, envoy } = await startNode(t, [first], [http('a')]);
  await listening(envoy);
  await node.publish([], [http('a')]);
  await waitUntil('the table to go', async () => !(await envoy.admin('/config_dump')).includes('"cap_http"'), PATIENCE);
  // What it lists of hosts when it connects again is of before.
  await node.serve([], [http('a')]);
  await waitUntil('Envoy to come back', () => node.cache.streams > 0, PATIENCE);
  await node.settle();
  await node.publish([second], [http('a')]);
  await listening(envoy);
  t.same(await hostsOf(envoy), [A, `${A}:8080`]);
});
