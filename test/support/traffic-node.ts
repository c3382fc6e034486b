// The node under traffic: the lab's parts with the real executables, but pods that come and go one by one, and an agent and an
// Envoy that are ended and started again. Inside a sandbox only.
import { Resolver } from 'node:dns/promises';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type AgentPlaces, agentPlaces, startAgent } from '../../scripts/lab/agent.ts';
import { CniRuntime, type NetworkList } from '../../scripts/lab/cni-runtime.ts';
import { type Envoy, startEnvoy } from '../../scripts/lab/envoy.ts';
import { pluginEntry } from '../../scripts/lab/lab.ts';
import { HOST_IP, POD_DNS_IP, podNetwork, prepareNode, removeNetns } from '../../scripts/lab/network.ts';
import { PLUGIN_DIRS } from '../../scripts/lab/places.ts';
import { type Pod, startPod } from '../../scripts/lab/pods.ts';
import { type LabProcess, startProcess, waitUntil } from '../../scripts/lab/processes.ts';
import type { Sandbox } from '../../scripts/lab/sandbox.ts';
import { MESH_DNS_PORT } from '../../src/mesh/constants.ts';
import { type StreamSpec, Traffic } from './traffic.ts';

const NODE_NAME = 'traffic-node';
const POD_APP = `${import.meta.dirname}/../../scripts/lab/apps/pod-app.ts`;

/** A pod and its application, which answers with the pod's name. */
export interface TrafficPod {
  readonly pod: Pod;
  app: LabProcess | undefined;
}

export class TrafficNode {
  readonly dir: string;
  readonly places: AgentPlaces;
  readonly runtime = new CniRuntime(PLUGIN_DIRS);
  readonly network: NetworkList;
  readonly #agentFlags: readonly string[];
  readonly #apps: LabProcess[] = [];
  #agent: LabProcess | undefined;
  #envoy: Envoy | undefined;

  constructor(sandbox: Sandbox, options: { readonly agentFlags?: readonly string[] } = {}) {
    this.dir = sandbox.dir;
    this.places = agentPlaces(sandbox.dir);
    this.network = podNetwork(join(sandbox.dir, 'ipam'), [pluginEntry(this.places, sandbox.dir)]);
    this.#agentFlags = options.agentFlags ?? [];
  }

  async start(): Promise<void> {
    prepareNode();
    await this.startAgent();
    await this.startEnvoy();
  }

  get agent(): LabProcess {
    if (this.#agent === undefined) throw new Error('the agent was not started');
    return this.#agent;
  }

  get envoy(): Envoy {
    if (this.#envoy === undefined) throw new Error('Envoy was not started');
    return this.#envoy;
  }

  /** `flags`: instead of the node's own. */
  async startAgent(flags: readonly string[] = this.#agentFlags): Promise<void> {
    const { dir, places } = this;
    this.#agent = await startAgent({ dir, nodeName: NODE_NAME, places, more: flags });
  }

  async startEnvoy(): Promise<void> {
    this.#envoy = await startEnvoy({ dir: this.dir, nodeName: NODE_NAME, xdsSocket: this.places.xdsSocket });
  }

  /** ADD, then the application (as `apps` of pod-app.ts), then Envoy finding it healthy. */
  async addPod(
    name: string,
    annotations: Readonly<Record<string, string>>,
    apps: readonly string[] = [],
  ): Promise<TrafficPod> {
    const spec = { name, namespace: 'demo', serviceAccount: name.replace(/-[^-]*$/, ''), annotations, apps: [] };
    const pod = await startPod(spec, { dir: this.dir, runtime: this.runtime, network: this.network });
    const started: TrafficPod = { pod, app: undefined };
    if (apps.length > 0) {
      this.startApp(started, apps);
      await this.untilServed(started);
    }
    return started;
  }

  startApp(started: TrafficPod, apps: readonly string[]): void {
    mkdirSync(join(this.dir, 'log'), { recursive: true });
    const { name } = started.pod.spec;
    started.app = startProcess({
      name: `application of ${name}`,
      command: [process.execPath, POD_APP, name, ...apps],
      netns: started.pod.netns,
      logFile: join(this.dir, `log/${name}.log`),
    });
    this.#apps.push(started.app);
  }

  /** Envoy sends traffic to it. */
  async untilServed({ pod }: TrafficPod): Promise<void> {
    const line = `::${pod.ip4}:18008::health_flags::healthy`;
    await waitUntil(`${pod.spec.name} to be served`, async () => (await this.envoy.admin('/clusters')).includes(line), {
      timeoutMs: 30_000,
    });
  }

  /** DEL, as a runtime does it, while the application still runs; the milliseconds that it took. */
  async detach({ pod }: TrafficPod): Promise<number> {
    const begun = performance.now();
    await this.runtime.delete(this.network, pod.attachment, pod.result);
    return performance.now() - begun;
  }

  /** What comes after DEL: the application's end and the namespace's. */
  async discard(started: TrafficPod): Promise<void> {
    await started.app?.stop();
    removeNetns(started.pod.netns);
    await this.runtime.delete(this.network, { ...started.pod.attachment, netns: '' });
  }

  /** The service's IPv4 address, from mesh DNS. */
  async addressOf(serviceAccount: string): Promise<string> {
    const resolver = new Resolver({ timeout: 1000, tries: 3 });
    resolver.setServers([`${HOST_IP}:${MESH_DNS_PORT}`]);
    const [address] = await resolver.resolve4(`${serviceAccount}.demo.aether.internal`);
    if (address === undefined) throw new Error(`mesh DNS has no address of ${serviceAccount}`);
    return address;
  }

  traffic({ pod }: TrafficPod, streams: readonly StreamSpec[]): Traffic {
    return new Traffic(pod.netns, streams, { dnsServer: POD_DNS_IP });
  }

  /** What the agent logged from half a second before until now, `+12 ms agent.pod.health {…}`. */
  listEvents(sinceMs: number): readonly string[] {
    const lines = readFileSync(this.agent.logFile, 'utf8').trim().split('\n');
    return lines.flatMap((line) => {
      if (!line.startsWith('{')) return [];
      const {
        time,
        event,
        level: _,
        process: __,
        ...fields
      } = JSON.parse(line) as { time: number; event: string; level: number; process: string };
      return time < sinceMs - 500 ? [] : [`${time - sinceMs} ms  ${event} ${JSON.stringify(fields)}`];
    });
  }

  /** Everything that is left. */
  async stop(): Promise<void> {
    await Promise.all(this.#apps.map((app) => app.stop()));
    await this.#agent?.stop();
    await this.#envoy?.process.stop();
  }
}
