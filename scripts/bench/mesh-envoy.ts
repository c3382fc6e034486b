// What a new pod and a new service cost with the real Envoy and kernel: the agent in this process, its pods in namespaces. In a
// room only (lab/sandbox.ts).
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdsServer } from '../../src/adapters/grpc/ads-server.ts';
import type { MeshTables } from '../../src/agent/deps.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { openKernel } from '../../src/commands/open-kernel.ts';
import { serviceFqdn } from '../../src/mesh/names.ts';
import { CniRuntime } from '../lab/cni-runtime.ts';
import { type Envoy, startEnvoy } from '../lab/envoy.ts';
import { LOOPBACK_LIST, makeNetns, podNetwork, removeNetns } from '../lab/network.ts';
import { PLUGIN_DIRS } from '../lab/places.ts';
import { addressOf, describeAttachment } from '../lab/pods.ts';
import { inNetns, type LabProcess, startProcess, waitUntil } from '../lab/processes.ts';
import { ipOf, type MeshNode, openMeshNode, podRequest, register, registerMany, wireBytes } from './mesh-node.ts';
import { markdownTable, median, show } from './samples.ts';

const HTTP = { 8080: 'http' } as const;
const TCP = { 9000: 'tcp' } as const;
const ADD = { timeoutMs: 10_000, proxyReady: 'skip' } as const;
const APP = `${import.meta.dirname}/../lab/apps/pod-app.ts`;
const FIRST_ANSWER = `${import.meta.dirname}/first-answer.ts`;

export interface MeshEnvoyOptions {
  /** Of the room. */
  readonly dir: string;
  readonly rounds: number;
  readonly onProgress?: (text: string) => void;
}

export async function measureMeshEnvoy({ dir, rounds, onProgress }: MeshEnvoyOptions): Promise<string> {
  const pods: PodCost[] = [];
  for (const clusters of [100, 1000]) {
    onProgress?.(`${clusters} clusters, 30 pods`);
    pods.push(await measurePod(join(dir, `pods-${clusters}`), { clusters, rounds }));
  }
  onProgress?.('400 services, 100 pods');
  const service = await measureService(join(dir, 'services'), { rounds });
  const podTable = markdownTable([
    ['30 pods; clusters in Envoy', ...pods.map(({ clusters }) => String(clusters))],
    ['a new local pod, ADD to its first mTLS answer: ms', ...pods.map(({ ms }) => show(ms, 0))],
    ['— bytes to Envoy', ...pods.map(({ bytes }) => String(bytes))],
    ['an endpoint becomes healthy, to its first answer: ms', ...pods.map(({ endpointMs }) => show(endpointMs, 0))],
    ["Envoy's memory: MiB", ...pods.map(({ memoryMb }) => show(memoryMb, 0))],
  ]);
  const serviceTable = markdownTable([
    ['100 pods, 400 services', ''],
    ["a TCP service more, to Envoy's ACK: ms", show(service.ackMs, 0)],
    ['— bytes to Envoy', String(service.bytes)],
    ["— all pods' sets: ms", show(service.setsMs, 0)],
    ['— registered to dialled anywhere: ms', show(service.totalMs, 0)],
    ["Envoy's memory: MiB", show(service.memoryMb, 0)],
  ]);
  return `## The mesh with Envoy\n\nMedians of ${rounds}.\n\n${podTable}\n\n${serviceTable}`;
}

interface PodCost {
  readonly clusters: number;
  readonly ms: number;
  readonly bytes: number;
  readonly endpointMs: number;
  readonly memoryMb: number;
}

async function measurePod(
  dir: string,
  { clusters, rounds }: { readonly clusters: number; readonly rounds: number },
): Promise<PodCost> {
  await using room = await Room.open(dir);
  // Two clusters each: its name, and its port as an alias.
  await registerMany(room.node.registry, { services: Math.round(clusters / 2), endpoints: 1, ports: HTTP });
  await room.start();
  const server = await room.addPod('shop-0', 'shop');
  await room.startApp(server, ['http=8080']);
  const client = await room.addPod('client-0', 'client');
  for (let i = 2; i < 29; i++) await room.addPod(`pod-${i}`, `local-${i}`);
  const samples: number[] = [];
  const bytes: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const pod = await room.makePod(`new-${round}`);
    const answer = await askUntilAnswered(pod.netns, 'shop');
    await room.settle();
    room.node.cache.take();
    const begun = performance.timeOrigin + performance.now();
    await room.node.life.addPod(podRequest({ ...pod, account: `new-${round}` }), ADD);
    samples.push((await answer.at) - begun);
    await room.settle();
    bytes.push(wireBytes(room.node.cache.take()));
    await room.node.life.removePod(podRequest({ ...pod, account: `new-${round}` }));
  }
  const endpointMs = await measureEndpoint(room, { server, client, rounds });
  return { clusters, ms: median(samples), bytes: median(bytes), endpointMs, memoryMb: room.envoyMb() };
}

// The only endpoint of a service is not healthy, then it is: until the client's first answer.
async function measureEndpoint(
  room: Room,
  { server, client, rounds }: { readonly server: BenchPod; readonly client: BenchPod; readonly rounds: number },
): Promise<number> {
  const samples: number[] = [];
  const { registry } = room.node;
  for (let round = 0; round < rounds; round++) {
    await register(registry, { service: 'shop', ip: server.ip, ports: HTTP, health: 'unhealthy' });
    await room.settle();
    const answer = await askUntilAnswered(client.netns, 'shop');
    await sleep(100);
    const begun = performance.timeOrigin + performance.now();
    await register(registry, { service: 'shop', ip: server.ip, ports: HTTP });
    samples.push((await answer.at) - begun);
  }
  return median(samples);
}

async function measureService(dir: string, { rounds }: { readonly rounds: number }) {
  const sets: number[] = [];
  await using room = await Room.open(dir, (ms) => void sets.push(ms));
  await registerMany(room.node.registry, { services: 400, endpoints: 1, ports: { ...HTTP, ...TCP } });
  await room.start();
  for (let i = 0; i < 100; i++) await room.addBarePod(i);
  const [ack, total, bytes, setsMs]: [number[], number[], number[], number[]] = [[], [], [], []];
  for (let round = 0; round < rounds; round++) {
    await room.settle();
    room.node.cache.take();
    sets.length = 0;
    const begun = performance.now();
    await register(room.node.registry, { service: `new-${round}`, ip: ipOf(800, round), ports: TCP });
    // The kernels are told when Envoy has taken it.
    await room.node.settle();
    total.push(performance.now() - begun);
    await room.settle();
    setsMs.push(sets.reduce((sum, ms) => sum + ms, 0));
    ack.push((total.at(-1) ?? 0) - (setsMs.at(-1) ?? 0));
    bytes.push(wireBytes(room.node.cache.take()));
  }
  return {
    ...{ ackMs: median(ack), totalMs: median(total), bytes: median(bytes), setsMs: median(setsMs) },
    memoryMb: room.envoyMb(),
  };
}

interface BenchPod {
  readonly name: string;
  readonly netns: string;
  readonly ip: string;
}

/** A node of its own: agent, Envoy, pods on a bridge. */
class Room implements AsyncDisposable {
  readonly node: MeshNode;
  readonly #dir: string;
  readonly #runtime = new CniRuntime(PLUGIN_DIRS);
  readonly #apps: LabProcess[] = [];
  readonly #namespaces: string[] = [];
  #envoy: Envoy | undefined;
  #end: (() => Promise<void>) | undefined;

  private constructor(dir: string, node: MeshNode) {
    this.#dir = dir;
    this.node = node;
  }

  /** `onSets`: milliseconds of each change of all pods' sets. */
  static async open(dir: string, onSets: (ms: number) => void = () => {}): Promise<Room> {
    mkdirSync(dir, { recursive: true });
    const { namespaces, rules } = openKernel();
    const tables: MeshTables = {
      replaceTable: (netns, table, options) => rules.replaceTable(netns, table, options),
      destroyTable: (netns, name) => rules.destroyTable(netns, name),
      changeElements: async (netns, change) => {
        const begun = performance.now();
        const results = await rules.changeElements(netns, change);
        onSets(performance.now() - begun);
        return results;
      },
    };
    return new Room(dir, await openMeshNode({ dir, tables, namespaces }));
  }

  get envoy(): Envoy {
    if (this.#envoy === undefined) throw new Error('Envoy was not started');
    return this.#envoy;
  }

  async start(): Promise<void> {
    await startAgent(this.node.agent);
    const xdsSocket = join(this.#dir, 'xds.sock');
    const { cache, agent } = this.node;
    const server = createAdsServer({ socketPath: xdsSocket, mode: 0o600, cache, log: agent.deps.log });
    await server.start();
    this.#end = () => server.close();
    this.#envoy = await startEnvoy({ dir: this.#dir, nodeName: 'bench', xdsSocket });
    await waitUntil('Envoy to connect', () => cache.streams > 0, { timeoutMs: 10_000 });
    await this.settle();
  }

  /** Everything is told, and what Envoy was told is taken. */
  async settle(): Promise<void> {
    await this.node.settle();
    const { cache } = this.node;
    const resources = cache.snapshot?.resources;
    const names = (['cluster', 'listener', 'host'] as const).flatMap((kind) =>
      [...(resources?.[kind].keys() ?? [])].map((name) => ({ kind, name })),
    );
    const result = await cache.waitForAck(names, { timeoutMs: 30_000 });
    if (result.kind !== 'acknowledged') throw new Error(`waiting for Envoy: ${result.kind}`);
  }

  /** A namespace with an address; the agent does not know it. */
  async makePod(name: string): Promise<BenchPod> {
    const netns = makeNetns(join(this.#dir, 'ns'), name);
    this.#namespaces.push(netns);
    const attachment = describeAttachment(
      { name, namespace: 'demo', serviceAccount: name, annotations: {}, apps: [] },
      netns,
    );
    await this.#runtime.add(LOOPBACK_LIST, { ...attachment, ifname: 'lo' });
    const result = await this.#runtime.add(podNetwork(join(this.#dir, 'ipam'), []), attachment);
    return { name, netns, ip: addressOf(result, 4) };
  }

  async addPod(name: string, account: string): Promise<BenchPod> {
    const pod = await this.makePod(name);
    await this.node.life.addPod(podRequest({ ...pod, account }), ADD);
    return pod;
  }

  /** A namespace without a network: enough for listeners and sets. */
  async addBarePod(index: number): Promise<void> {
    const netns = makeNetns(join(this.#dir, 'ns'), `bare-${index}`);
    this.#namespaces.push(netns);
    const request = podRequest({ name: `bare-${index}`, account: 'bare', netns, ip: `10.91.0.${1 + index}` });
    await this.node.life.addPod(request, ADD);
  }

  async startApp(pod: BenchPod, apps: readonly string[]): Promise<void> {
    const app = startProcess({
      name: `application of ${pod.name}`,
      command: [process.execPath, APP, pod.name, ...apps],
      netns: pod.netns,
      logFile: join(this.#dir, `${pod.name}.log`),
    });
    this.#apps.push(app);
    await (await askUntilAnswered(pod.netns, 'shop')).at;
  }

  envoyMb(): number {
    const status = readFileSync(`/proc/${this.envoy.process.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+([0-9]+)/.exec(status)?.[1]) / 1024;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#apps.map((app) => app.stop()));
    await this.#envoy?.process.stop();
    await this.#end?.();
    await this.node[Symbol.asyncDispose]();
    for (const netns of this.#namespaces) removeNetns(netns);
  }
}

// Resolves when the client asks; `at`: when it had its answer.
async function askUntilAnswered(netns: string, account: string): Promise<{ readonly at: Promise<number> }> {
  const authority = serviceFqdn({ namespace: 'demo', serviceAccount: account }, 'aether.internal');
  const [file, ...args] = inNetns(netns, [process.execPath, FIRST_ANSWER, '18081', authority]);
  const child: ChildProcess = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  if (child.stdout === null) throw new Error('asking: the client has no stdout');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  const read = async (): Promise<number> => Number((await lines.next()).value);
  return { at: read() };
}
