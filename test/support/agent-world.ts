// A node for the agent's tests: real stores in a temporary directory, the real authority, a clock that is moved by hand, and
// a kernel and an Envoy in memory that hold the agent to its order: no element without its cluster, at any moment.
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openEmbeddedAuthority } from '../../src/adapters/identity/embedded-authority.ts';
import { FileRecordStore } from '../../src/adapters/store/record-store.ts';
import { FileRemovalQueue } from '../../src/adapters/store/removal-queue.ts';
import { FileVipStore } from '../../src/adapters/store/vip-store.ts';
import type { AgentDeps, Clock, MeshTables, NamespaceResult } from '../../src/agent/deps.ts';
import { NodeAgent, type NodeAgentSettings } from '../../src/agent/node-agent.ts';
import { PodLife } from '../../src/agent/pod-life.ts';
import type { AckResult, ResourceName, SnapshotPublisher } from '../../src/agent/publisher.ts';
import { KernelError, NetnsError } from '../../src/core/errors.ts';
import { type ContainerId, type NetnsPath, parseContainerId } from '../../src/core/identifiers.ts';
import { parseIpRange } from '../../src/core/ip.ts';
import type { KernelTable } from '../../src/nft/kernel-table.ts';
import type { ElementChange, NftSet, Table } from '../../src/nft/model.ts';
import { listElements } from '../../src/nft/text.ts';
import type { Namespaces, PodRequest, RuleReader } from '../../src/plugin/deps.ts';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';
import type { Snapshot } from '../../src/xds/resource.ts';
import { reportTable } from './kernel-report.ts';
import { RecordingLog } from './recording-log.ts';

/** Time stands still until it is advanced. */
export class TestClock implements Clock {
  #nowMs = Date.parse('2026-11-29T12:00:00Z');
  readonly #timers = new Set<{ readonly atMs: number; readonly callback: () => void }>();

  now(): Date {
    return new Date(this.#nowMs);
  }

  after(delayMs: number, callback: () => void): Disposable {
    const timer = { atMs: this.#nowMs + delayMs, callback };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  advance(ms: number): void {
    this.#nowMs += ms;
    const due = [...this.#timers].filter(({ atMs }) => atMs <= this.#nowMs).sort((a, b) => a.atMs - b.atMs);
    for (const timer of due) if (this.#timers.delete(timer)) timer.callback();
  }
}

/** Envoy: takes what it is given, as `answer` says. */
export class TestEnvoy implements SnapshotPublisher {
  streams = 1;
  snapshot: Snapshot | undefined;
  answer: (names: readonly ResourceName[]) => AckResult | Promise<AckResult> = () => ({ kind: 'acknowledged' });
  readonly #node: { readonly events: string[]; check(): void };

  constructor(node: { readonly events: string[]; check(): void }) {
    this.#node = node;
  }

  publish(snapshot: Snapshot): void {
    this.snapshot = snapshot;
    this.#node.events.push('publish');
    this.#node.check();
  }

  async waitForAck(names: readonly ResourceName[]): Promise<AckResult> {
    this.#node.events.push(`await ${names.map(({ name }) => name).join(' ')}`);
    return this.answer(names);
  }
}

/** Namespaces that are there; a table of the agent in some of them, as set name -> elements. */
export class TestKernel implements Namespaces, MeshTables, RuleReader {
  readonly alive = new Set<string>();
  readonly tables = new Map<string, Map<string, Set<string>>>();
  readonly events: string[] = [];
  /** Called before each change; what it throws is what the kernel answers. */
  refuse: (what: string, netns: string) => void = () => {};
  check: () => void = () => {};

  async assertUsable(path: NetnsPath): Promise<void> {
    if (!this.alive.has(path)) throw new NetnsError('missing', path, `using ${path}: no such file`);
  }

  /** Paths that lead to the namespace of another. */
  readonly links = new Map<string, string>();

  async identify(path: NetnsPath): Promise<string | undefined> {
    const real = this.links.get(path) ?? path;
    return this.alive.has(real) ? real : undefined;
  }

  async pin(path: NetnsPath): Promise<NetnsPath> {
    return path;
  }

  async unpin({ pinDir, containerId }: { readonly pinDir: string; readonly containerId: ContainerId }): Promise<void> {
    this.events.push(`unpin ${join(pinDir, containerId)}`);
  }

  async replaceTable(netns: NetnsPath, table: Table): Promise<void> {
    this.refuse('replace', netns);
    await this.assertUsable(netns);
    this.tables.set(netns, new Map(table.sets.map((set) => [set.name, new Set(listElements(set))])));
    this.events.push(`table ${netns}`);
    this.check();
  }

  async destroyTable(netns: NetnsPath): Promise<void> {
    await this.assertUsable(netns);
    this.tables.delete(netns);
    this.events.push(`no table ${netns}`);
  }

  async changeElements(netns: readonly NetnsPath[], change: ElementChange): Promise<readonly NamespaceResult[]> {
    const results = netns.map((path) => this.#change(path, change));
    const show = (sign: string, sets: readonly NftSet[]): string[] =>
      sets.flatMap((set) => listElements(set).map((element) => `${sign}${set.name}{${element}}`));
    this.events.push(`elements ${[...show('-', change.remove), ...show('+', change.add)].join(' ')}`);
    this.check();
    return results;
  }

  /** As the kernel would report the table that was put there, with the elements that it has now. */
  async readTable(netns: NetnsPath, planned: Table): Promise<KernelTable | undefined> {
    await this.assertUsable(netns);
    const sets = this.tables.get(netns);
    if (sets === undefined) return undefined;
    const kept = (set: NftSet): NftSet => {
      const texts = listElements(set);
      return { ...set, elements: set.elements.filter((_, i) => sets.get(set.name)?.has(texts[i] ?? '')) } as NftSet;
    };
    return reportTable({ ...planned, sets: planned.sets.map(kept) });
  }

  /** The elements of a set in one namespace, sorted. */
  elements(netns: string, set: string): readonly string[] {
    return [...(this.tables.get(netns)?.get(set) ?? [])].sort();
  }

  #change(netns: NetnsPath, { add, remove }: ElementChange): NamespaceResult {
    try {
      this.refuse('elements', netns);
      if (!this.alive.has(netns)) throw new NetnsError('missing', netns, `using ${netns}: no such file`);
      const table = this.tables.get(netns);
      if (table === undefined) throw new KernelError('changing elements: no such table', 2, 'ENOENT');
      for (const set of remove) for (const element of listElements(set)) table.get(set.name)?.delete(element);
      for (const set of add) for (const element of listElements(set)) table.get(set.name)?.add(element);
      return { netns };
    } catch (error) {
      return { netns, error: error instanceof Error ? error : new Error(String(error)) };
    }
  }
}

/** One node; `agent` may be made anew on the same disk and kernel, as after a kill. */
export interface World extends AsyncDisposable {
  readonly dir: string;
  readonly kernel: TestKernel;
  readonly clock: TestClock;
  readonly log: RecordingLog;
  /** A new process: nothing in memory is kept. */
  boot(changes?: Partial<NodeAgentSettings>, deps?: Partial<AgentDeps>): Promise<Booted>;
  /** It was killed in the middle: it never ends by itself, and nobody waits for it. */
  disown(agent: NodeAgent): void;
}

export interface Booted {
  readonly agent: NodeAgent;
  readonly life: PodLife;
  readonly envoy: TestEnvoy;
  readonly registry: EmbeddedRegistry;
}

export async function makeWorld(options: { readonly identity?: 'mtls' | 'none' } = {}): Promise<World> {
  const dir = await mkdtemp('/tmp/ae-world-');
  const kernel = new TestKernel();
  const clock = new TestClock();
  const log = new RecordingLog();
  const identity = options.identity ?? 'mtls';
  const booted = new Set<NodeAgent>();
  const boot: World['boot'] = async (changes = {}, deps = {}) => {
    const registry = new EmbeddedRegistry();
    const envoy = new TestEnvoy(kernel);
    kernel.check = () => assertClusters(kernel, envoy);
    const caDir = join(dir, 'ca');
    const authority =
      identity === 'none' ? undefined : await openEmbeddedAuthority({ caDir, trustDomain: 'aether.internal', clock });
    const agent = new NodeAgent(
      {
        records: new FileRecordStore(join(dir, 'registry')),
        vips: new FileVipStore(join(dir, 'vips.json')),
        removals: new FileRemovalQueue(join(dir, 'delete-queue')),
        registry,
        authority,
        namespaces: kernel,
        tables: kernel,
        publisher: envoy,
        clock,
        log,
        ...deps,
      },
      { ...defaultSettings(identity, dir), ...changes },
    );
    booted.add(agent);
    return { agent, life: new PodLife(agent), envoy, registry };
  };
  return {
    dir,
    kernel,
    clock,
    log,
    boot,
    disown: (agent) => void booted.delete(agent),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...booted].map((agent) => agent[Symbol.asyncDispose]()));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** A node for pods that are only read. */
export const FACTS = {
  nodeName: 'n',
  clusterName: 'c',
  region: '',
  zone: '',
  hostIp: '',
  trustDomain: 'td',
  redirectAllDefault: false,
};

function defaultSettings(identity: 'mtls' | 'none', dir: string): NodeAgentSettings {
  const trustDomain = 'aether.internal';
  return {
    facts: {
      nodeName: 'node-a',
      clusterName: 'test',
      region: '',
      zone: '',
      hostIp: '192.0.2.10',
      trustDomain,
      redirectAllDefault: false,
    },
    node: { meshDomain: 'aether.internal', trustDomain, identity },
    vipRanges: ['10.254.0.0/16', 'fd0a:e7e0::/112'].flatMap((text) => parseIpRange(text) ?? []),
    pins: new Map(),
    pinDir: join(dir, 'netns'),
    // The clock stands still unless a test moves it.
    drainMs: 0,
  };
}

/** Every TCP element of every namespace leads to a cluster that Envoy was given. */
function assertClusters(kernel: TestKernel, envoy: TestEnvoy): void {
  for (const [netns, sets] of kernel.tables) {
    if (!kernel.alive.has(netns)) continue;
    for (const set of ['mesh_tcp4', 'mesh_tcp6']) {
      for (const element of sets.get(set) ?? []) {
        const [address, port] = element.split(' . ');
        const cluster = `tcp:${address}:${port}`;
        // Before the first snapshot Envoy still has what the agent's predecessor gave it.
        if (envoy.snapshot !== undefined && !envoy.snapshot.resources.cluster.has(cluster)) {
          throw new Error(`${netns} sends ${element} to ${cluster}, which Envoy was not given`);
        }
      }
    }
  }
}

/** An ADD of a managed pod `<ns>/<name>` whose namespace is made alive; container id and service account follow the name. */
export function podRequest(
  kernel: TestKernel,
  pod: string,
  options: {
    readonly ip: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly containerId?: string;
  },
): PodRequest {
  const [namespace = '', name = ''] = pod.split('/');
  const containerId = parseContainerId(options.containerId ?? `c-${name}`);
  if (typeof containerId === 'object') throw new Error(containerId.problem);
  const networkNamespace = `/run/netns/${containerId}`;
  kernel.alive.add(networkNamespace);
  return {
    name,
    namespace,
    containerId,
    networkNamespace,
    ips: [options.ip],
    annotations: {
      'aether.io/managed': 'true',
      'aether.io/service-account': name.replace(/-[0-9]+$/, ''),
      ...options.annotations,
    },
    uid: `uid-${name}`,
  };
}
