// The lab: one node with the real agent and the real Envoy, its pods attached by the real conflist, and clients in them.
// Runs inside a sandbox (sandbox.ts), whose end removes everything; disposing a lab takes it down in good order before.
import { join } from 'node:path';
import { type AgentPlaces, agentPlaces, startAgent } from './agent.ts';
import { CniRuntime, type Json, type NetworkList } from './cni-runtime.ts';
import type { Dial, DialReport } from './dial.ts';
import { DialClient } from './dial-client.ts';
import { chainsBetween, type Envoy, startEnvoy } from './envoy.ts';
import { HOST_IP, POD_DNS_IP, podNetwork, prepareNode } from './network.ts';
import { PLUGIN_DIRS } from './places.ts';
import { type Pod, type PodSpec, startPod, stopPod } from './pods.ts';
import { type LabProcess, waitUntil } from './processes.ts';
import type { Sandbox } from './sandbox.ts';
import { writeTlsFiles } from './strange-authority.ts';

const MESH_DOMAIN = 'aether.internal';
const NODE_NAME = 'lab-node';

/** The pods of every lab: four services, and two clients that differ in what is captured of them. */
export const LAB_PODS: readonly PodSpec[] = [
  pod('shop', { 'endpoint.aether.io/ports': '8080,9000=tcp' }, ['http=8080', 'echo=9000']),
  pod('db', { 'endpoint.aether.io/protocol': 'tcp', 'endpoint.aether.io/port': '5432' }, ['banner=5432']),
  pod('web', {}, ['http=8080']),
  pod('vault', { 'endpoint.aether.io/ports': '8080,443=tcp' }, ['http=8080', 'tls=443']),
  pod('client', { 'capture.aether.io/redirect-all': 'true' }, []),
  pod('scoped', { 'capture.aether.io/redirect-all': 'false' }, []),
];

/** What one dial showed: the client's report, and the chains in Envoy that took it. */
export interface Sighting {
  readonly report: DialReport;
  readonly chains: readonly string[];
}

export interface Lab extends AsyncDisposable {
  readonly dir: string;
  readonly places: AgentPlaces;
  readonly runtime: CniRuntime;
  readonly network: NetworkList;
  readonly envoy: Envoy;
  readonly agent: LabProcess;
  pod(name: string): Pod;
  /** Dials from a pod (`client`, `scoped`) or from the node itself (`node`). One dial at a time. */
  dial(from: string, dial: Dial): Promise<Sighting>;
}

export interface LabOptions {
  /** Told what has just been done. */
  readonly onStep?: (step: string) => void;
  /** Further flags of the agent. */
  readonly agentFlags?: readonly string[];
}

/** Starts everything and waits until the mesh answers. */
export async function startLab(sandbox: Sandbox, options: LabOptions = {}): Promise<Lab> {
  const { onStep = () => {}, agentFlags = [] } = options;
  await using undo = new AsyncDisposableStack();
  const { dir } = sandbox;
  const places = agentPlaces(dir);
  const runtime = new CniRuntime(PLUGIN_DIRS);
  const network = podNetwork(join(dir, 'ipam'), [pluginEntry(places, dir)]);
  prepareNode();
  const agent = undo.adopt(await startAgent({ dir, nodeName: NODE_NAME, places, more: agentFlags }), (process) =>
    process.stop(),
  );
  onStep('agent started');
  const envoy = await startEnvoy({ dir, nodeName: NODE_NAME, xdsSocket: places.xdsSocket });
  undo.defer(() => envoy.process.stop());
  onStep('Envoy started');
  const pods = new Map<string, Pod>();
  const env = await writeTlsFiles(dir);
  for (const spec of LAB_PODS) {
    const started = await startPod(spec, { dir, runtime, network, env });
    undo.defer(() => stopPod(started, { runtime, network }));
    pods.set(spec.serviceAccount, started);
    onStep(`pod ${spec.name} added (${started.ip4}, ${started.ip6})`);
  }
  const clients = new Map<string, DialClient>([['node', undo.use(new DialClient(undefined, HOST_IP))]]);
  for (const name of ['client', 'scoped']) {
    clients.set(name, undo.use(new DialClient(find(pods, name).netns, POD_DNS_IP)));
  }
  const lab: Omit<Lab, typeof Symbol.asyncDispose> = {
    ...{ dir, places, runtime, network, envoy, agent },
    pod: (name) => find(pods, name),
    dial: (from, dial) => dialAndWatch(find(clients, from), dial, envoy),
  };
  await waitForMesh(lab);
  onStep('first 200 through the mesh');
  const owned = undo.move();
  return { ...lab, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The mesh name of a lab service. */
export function meshName(serviceAccount: string): string {
  return `${serviceAccount}.demo.${MESH_DOMAIN}`;
}

/** Our entry of the conflist, with every path of it in the lab's directory. */
export function pluginEntry(places: AgentPlaces, dir: string): { readonly type: string } & Json {
  return {
    type: 'aether-cni',
    capabilities: { 'io.kubernetes.cri.pod-annotations': true },
    agent_cni_path: places.cniSocket,
    admin_socket: places.adminSocket,
    netns_pin_dir: places.pinDir,
    delete_queue_dir: places.deleteQueueDir,
    mesh_dns_enabled: true,
    host_ip: HOST_IP,
    log_file: join(dir, 'plugin.log'),
    log_level: 'debug',
  };
}

function pod(name: string, annotations: PodSpec['annotations'], apps: PodSpec['apps']): PodSpec {
  return { name: `${name}-0`, namespace: 'demo', serviceAccount: name, annotations, apps };
}

function find<T>(map: ReadonlyMap<string, T>, name: string): T {
  const value = map.get(name);
  if (value === undefined) throw new Error(`the lab has no "${name}"`);
  return value;
}

async function dialAndWatch(client: DialClient, dial: Dial, envoy: Envoy): Promise<Sighting> {
  const before = await envoy.counters();
  const report = await client.dial(dial);
  return { report, chains: chainsBetween(before, await envoy.counters()) };
}

// The last pod's ADD waits for its own listeners; the services of the pods before it may still be on their way.
async function waitForMesh(lab: Pick<Lab, 'dial' | 'agent'>): Promise<void> {
  for (const from of ['client', 'scoped']) {
    for (const name of ['shop', 'web']) {
      const dial: Dial = { kind: 'http', host: meshName(name), port: 18081, family: 4, timeoutMs: 2000 };
      let last = '';
      await waitUntil(
        `the first 200 from ${name} at ${from}`,
        async () => {
          const { report } = await lab.dial(from, dial);
          last = JSON.stringify(report);
          if (report.status !== 200) throw new Error(last);
          return true;
        },
        { timeoutMs: 30_000, process: lab.agent },
      );
    }
  }
}
