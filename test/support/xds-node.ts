// A node without an agent: pods as namespaces behind a bridge, the real Envoy fed by our own snapshot cache, and in each
// pod the two tables as the planners print them. One Envoy is both ends of the mesh hop. Root only.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { envoyPath } from '../../scripts/lab/places.ts';
import { type LabProcess, startProcess, waitUntil } from '../../scripts/lab/processes.ts';
import { createAdsServer } from '../../src/adapters/grpc/ads-server.ts';
import { systemClock } from '../../src/adapters/host/clock.ts';
import { openEmbeddedAuthority } from '../../src/adapters/identity/embedded-authority.ts';
import type { CertificateAuthority } from '../../src/agent/deps.ts';
import type { ResourceName } from '../../src/agent/publisher.ts';
import { SnapshotCache } from '../../src/agent/snapshot-cache.ts';
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { formatTable } from '../../src/nft/text.ts';
import { buildBootstrap } from '../../src/xds/bootstrap.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { NodePod, SnapshotInput, WorkloadCertificate } from '../../src/xds/input.ts';
import { PUSH_ORDER, type Snapshot } from '../../src/xds/resource.ts';
import { validateSnapshot } from '../../src/xds/validate-snapshot.ts';
import { makeNetns, type TestNetns } from './netns.ts';
import { RecordingLog } from './recording-log.ts';
import type { H2Job, HttpAnswer, HttpJob, TcpAnswer, TcpJob } from './xds-client.ts';
import { hash, makePod, type PodSpec } from './xds-example.ts';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

/** A pod of the node. `pod` is its part of the input. */
export interface XdsPod {
  readonly name: string;
  readonly netns: TestNetns;
  readonly ip4: string;
  readonly ip6: string;
  readonly pod: NodePod;
}

const CLIENT = `${import.meta.dirname}/xds-client.ts`;
const APP = `${import.meta.dirname}/xds-app.ts`;
const run = promisify(execFile);

export interface XdsNodeOptions {
  /** Added to Envoy's command line. */
  readonly envoyArgs?: readonly string[];
  /** Puts a pod's tables in place; by default as text, through nft. */
  readonly program?: (pod: XdsPod, snapshot: Snapshot) => void | Promise<void>;
}

/** Starts the node; everything ends with the test. */
export async function startXdsNode(t: TearsDown, options: XdsNodeOptions = {}): Promise<XdsNode> {
  const dir = mkdtempSync('/tmp/ae-xds-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const netns = makeNetns(t, 'xds');
  inside(netns, 'ip', 'link', 'add', 'br0', 'type', 'bridge');
  inside(netns, 'ip', 'addr', 'add', '10.77.0.1/24', 'dev', 'br0');
  inside(netns, 'ip', 'addr', 'add', 'fd77::1/64', 'dev', 'br0', 'nodad');
  inside(netns, 'ip', 'link', 'set', 'br0', 'up');
  const authority = await openEmbeddedAuthority({
    caDir: join(dir, 'ca'),
    trustDomain: 'aether.internal',
    clock: systemClock,
  });
  const node = new XdsNode(t, { dir, netns, authority, options });
  await node.start();
  return node;
}

export class XdsNode {
  readonly log = new RecordingLog();
  /** Identities whose certificate is being issued. */
  readonly pending = new Set<string>();
  readonly cache = new SnapshotCache({
    clock: systemClock,
    log: this.log,
    isPending: (kind, name) => kind === 'secret' && this.pending.has(name),
  });
  readonly #t: TearsDown;
  readonly #dir: string;
  readonly #netns: TestNetns;
  readonly #authority: CertificateAuthority;
  readonly #options: XdsNodeOptions;
  readonly #certificates = new Map<string, WorkloadCertificate>();
  #pods = 0;
  #envoy: LabProcess | undefined;

  constructor(
    t: TearsDown,
    parts: {
      readonly dir: string;
      readonly netns: TestNetns;
      readonly authority: CertificateAuthority;
      readonly options: XdsNodeOptions;
    },
  ) {
    this.#t = t;
    this.#dir = parts.dir;
    this.#netns = parts.netns;
    this.#authority = parts.authority;
    this.#options = parts.options;
  }

  /** Where Envoy runs: the host's own namespace to the pods. */
  get netns(): TestNetns {
    return this.#netns;
  }

  /** For the test's files; it goes with the node. */
  get dir(): string {
    return this.#dir;
  }

  /** Serves ADS and starts Envoy; it waits for the first snapshot. */
  async start(): Promise<void> {
    const socketPath = join(this.#dir, 'xds.sock');
    const server = createAdsServer({ socketPath, mode: 0o600, cache: this.cache, log: this.log });
    await server.start();
    this.#t.teardown(() => server.close());
    const file = join(this.#dir, 'envoy.json');
    const adminSocket = join(this.#dir, 'admin.sock');
    writeFileSync(file, JSON.stringify(buildBootstrap({ nodeName: 'node1', xdsSocket: socketPath, adminSocket })));
    const envoy = startProcess({
      name: 'envoy',
      command: [
        envoyPath(),
        ...['-c', file, '-l', 'warning', '--concurrency', '1', '--disable-hot-restart'],
        ...(this.#options.envoyArgs ?? []),
      ],
      logFile: join(this.#dir, 'envoy.log'),
      netns: this.#netns.path,
    });
    this.#t.teardown(() => envoy.stop());
    this.#envoy = envoy;
    await waitUntil('Envoy to connect', () => this.cache.streams > 0, { timeoutMs: 30_000, process: envoy });
  }

  /** A namespace behind the bridge, 10.77.0.N and fd77::N. */
  addPod(name: string, account: string, spec: PodSpec): XdsPod {
    this.#pods += 1;
    const number = this.#pods + 1;
    const netns = makeNetns(this.#t, 'xds');
    const veth = `v${number}`;
    inside(this.#netns, 'ip', 'link', 'add', veth, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns.name);
    inside(this.#netns, 'ip', 'link', 'set', veth, 'master', 'br0', 'up');
    const [ip4, ip6] = [`10.77.0.${number}`, `fd77::${number}`];
    inside(netns, 'ip', 'addr', 'add', `${ip4}/24`, 'dev', 'eth0');
    inside(netns, 'ip', 'addr', 'add', `${ip6}/64`, 'dev', 'eth0', 'nodad');
    inside(netns, 'ip', 'link', 'set', 'eth0', 'up');
    inside(netns, 'ip', 'route', 'add', 'default', 'via', '10.77.0.1');
    inside(netns, 'ip', '-6', 'route', 'add', 'default', 'via', 'fd77::1');
    return { name, netns, ip4, ip6, pod: makePod(name, account, { ...spec, netnsPath: netns.path }) };
  }

  /** Starts the application of a pod (`http=8080`, …) and waits until it listens. */
  async startApp(pod: Pick<XdsPod, 'name' | 'netns'>, ...apps: readonly string[]): Promise<void> {
    const app = startProcess({
      name: `app of ${pod.name}`,
      command: [process.execPath, APP, pod.name, ...apps],
      logFile: join(this.#dir, `${pod.name}.log`),
      netns: pod.netns.path,
    });
    this.#t.teardown(() => app.stop());
    const isUp = () =>
      app
        .tail()
        .split('\n')
        .filter((line) => line.startsWith('listening')).length === apps.length;
    await waitUntil(`the applications of ${pod.name}`, isUp, { timeoutMs: 30_000, process: app });
  }

  /** Certificate of an identity, issued once. */
  async certify(identity: string): Promise<WorkloadCertificate> {
    const known = this.#certificates.get(identity);
    if (known !== undefined) return known;
    const certificate = await this.#authority.issue(identity);
    this.#certificates.set(identity, certificate);
    return certificate;
  }

  /** The next publish carries a new certificate of this identity. */
  rotate(identity: string): void {
    this.#certificates.delete(identity);
  }

  /**
   * Builds, checks, publishes, waits until Envoy took all of it, then programs the pods. `edit` may spoil the snapshot on
   * purpose. Throws on anything that is refused.
   */
  async publish(
    pods: readonly XdsPod[],
    input: Pick<SnapshotInput, 'node' | 'services'>,
    edit: (snapshot: Snapshot) => Snapshot = (snapshot) => snapshot,
  ): Promise<Snapshot> {
    const identities = [...new Set(pods.map(({ pod }) => pod.identity))].filter((id) => !this.pending.has(id));
    const certificates = await Promise.all(identities.map((identity) => this.certify(identity)));
    const trust = input.node.identity === 'none' ? {} : { trustBundlePem: this.#authority.trustBundlePem };
    const previous = this.cache.snapshot;
    const snapshot = edit(
      buildSnapshot(
        { ...input, ...trust, pods: pods.map(({ pod }) => pod), certificates },
        previous === undefined ? { hash } : { hash, previous },
      ),
    );
    const problems = validateSnapshot(snapshot);
    if (problems.length > 0) throw new Error(JSON.stringify(problems));
    this.cache.publish(snapshot);
    await this.settle(snapshot);
    for (const pod of pods) await (this.#options.program ?? program)(pod, snapshot);
    return snapshot;
  }

  /** Waits until Envoy took everything; throws with its words otherwise. */
  async settle(snapshot: Snapshot): Promise<void> {
    const clusters = [...snapshot.resources.cluster.values()];
    const edsNames = new Set(clusters.flatMap(({ edsName, isOnDemand }) => (isOnDemand ? [] : (edsName ?? []))));
    const names = PUSH_ORDER.flatMap((kind): ResourceName[] =>
      [...snapshot.resources[kind].keys()].map((name) => ({ kind, name })),
    ).filter(({ kind, name }) => kind !== 'endpoints' || edsNames.has(name));
    const result = await this.cache.waitForAck(names, { timeoutMs: 30_000 });
    if (result.kind !== 'acknowledged') {
      throw new Error(`publishing: ${JSON.stringify(result)}\n${this.#envoy?.tail() ?? ''}`);
    }
  }

  async http(from: XdsPod, job: HttpJob | H2Job): Promise<readonly HttpAnswer[]> {
    return JSON.parse(await this.#client(from, job)) as readonly HttpAnswer[]; // printed by our own client
  }

  async tcp(from: XdsPod, job: TcpJob): Promise<TcpAnswer> {
    const [answer] = JSON.parse(await this.#client(from, job)) as readonly TcpAnswer[]; // printed by our own client
    if (answer === undefined) throw new Error('the client said nothing');
    return answer;
  }

  /** Value of a counter or gauge; 0 when Envoy has none. */
  async counter(name: string): Promise<number> {
    const text = await this.admin(`/stats?filter=^${encodeURIComponent(name.replaceAll('.', '\\.'))}$`);
    return Number(/: ([0-9]+)/.exec(text)?.[1] ?? 0);
  }

  /** Sum of all counters whose name ends so. Throws where there is none. */
  async total(ending: string): Promise<number> {
    const text = await this.admin(`/stats?filter=${encodeURIComponent(`\\.${ending}$`)}`);
    const values = [...text.matchAll(/: ([0-9]+)$/gm)].map(([, value]) => Number(value));
    if (values.length === 0) throw new Error(`Envoy counts no "${ending}"`);
    return values.reduce((sum, value) => sum + value, 0);
  }

  /** So many connections were kept waiting for bytes that did not come. */
  inspectorTimeouts(): Promise<number> {
    return this.total('downstream_pre_cx_timeout');
  }

  admin(path: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const call = request({ socketPath: join(this.#dir, 'admin.sock'), path }, (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (text: string) => {
          body += text;
        });
        response.on('end', () => resolve(body));
      });
      call.on('error', reject);
      call.end();
    });
  }

  async #client(from: XdsPod, job: HttpJob | H2Job | TcpJob): Promise<string> {
    const command = [`--net=${from.netns.path}`, '--', process.execPath, CLIENT, JSON.stringify(job)];
    const { stdout } = await run('nsenter', command, { maxBuffer: 64 * 1024 * 1024 });
    return stdout;
  }
}

function program({ netns, pod }: XdsPod, { meshSets }: Snapshot): void {
  const policy = { redirectAll: pod.redirectAll, excludePorts: [], excludeRanges: [] };
  const text = [planPluginTable(policy), planMeshTable(policy, meshSets)].map(formatTable).join('');
  execFileSync('nsenter', [`--net=${netns.path}`, '--', 'nft', '-f', '-'], { input: `flush ruleset\n${text}` });
}

function inside(netns: TestNetns, ...command: readonly string[]): void {
  execFileSync('nsenter', [`--net=${netns.path}`, '--', ...command]);
}
