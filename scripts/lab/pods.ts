// Pods of the lab: a namespace attached through the configuration lists as a runtime does it, with applications in it.
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Attachment, CniRuntime, Json, NetworkList } from './cni-runtime.ts';
import { LOOPBACK_LIST, makeNetns, removeNetns } from './network.ts';
import { type LabProcess, startProcess, waitUntil } from './processes.ts';

/** `apps` as pod-app.ts takes them: `http=8080`. `annotations` without the ones that make the pod managed. */
export interface PodSpec {
  readonly name: string;
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly apps: readonly string[];
}

export interface Pod {
  readonly spec: PodSpec;
  readonly netns: string;
  readonly attachment: Attachment;
  /** What ADD printed at the end of the list. */
  readonly result: Json;
  /** First address of each family. */
  readonly ip4: string;
  readonly ip6: string;
  readonly app: LabProcess | undefined;
}

const POD_APP = `${import.meta.dirname}/apps/pod-app.ts`;
const ANNOTATIONS_CAPABILITY = 'io.kubernetes.cri.pod-annotations';

/** How a runtime asks for this pod: a fresh container id, Kubernetes' CNI_ARGS, the annotations as a capability. */
export function describeAttachment(spec: PodSpec, netns: string): Attachment {
  const containerId = randomBytes(16).toString('hex');
  return {
    containerId,
    netns,
    ifname: 'eth0',
    args: {
      IgnoreUnknown: '1',
      K8S_POD_NAMESPACE: spec.namespace,
      K8S_POD_NAME: spec.name,
      K8S_POD_INFRA_CONTAINER_ID: containerId,
      K8S_POD_UID: randomUUID(),
    },
    capabilities: {
      [ANNOTATIONS_CAPABILITY]: {
        'aether.io/managed': 'true',
        'aether.io/service-account': spec.serviceAccount,
        ...spec.annotations,
      },
    },
  };
}

/** `env`: further variables of the applications. */
export interface StartPodOptions {
  readonly dir: string;
  readonly runtime: CniRuntime;
  readonly network: NetworkList;
  readonly env?: Readonly<Record<string, string>>;
}

/** Makes the namespace, runs ADD through both lists, starts the applications and waits until they listen. */
export async function startPod(spec: PodSpec, options: StartPodOptions): Promise<Pod> {
  const netns = makeNetns(join(options.dir, 'ns'), spec.name);
  const attachment = describeAttachment(spec, netns);
  await options.runtime.add(LOOPBACK_LIST, { ...attachment, ifname: 'lo' });
  const result = await options.runtime.add(options.network, attachment);
  const pod = { spec, netns, attachment, result, ip4: addressOf(result, 4), ip6: addressOf(result, 6) };
  return { ...pod, app: await startApps(pod, options) };
}

/** Stops the applications and runs DEL twice, as runtimes do: with the namespace, and without it or a result. */
export async function stopPod(
  pod: Pod,
  options: { readonly runtime: CniRuntime; readonly network: NetworkList },
): Promise<void> {
  await pod.app?.stop();
  await options.runtime.delete(options.network, pod.attachment, pod.result);
  await options.runtime.delete(LOOPBACK_LIST, { ...pod.attachment, ifname: 'lo' });
  removeNetns(pod.netns);
  await options.runtime.delete(options.network, { ...pod.attachment, netns: '' });
}

async function startApps(pod: Omit<Pod, 'app'>, options: StartPodOptions): Promise<LabProcess | undefined> {
  const { dir, env } = options;
  if (pod.spec.apps.length === 0) return undefined;
  mkdirSync(join(dir, 'log'), { recursive: true });
  const app = startProcess({
    name: `application of ${pod.spec.name}`,
    command: [process.execPath, POD_APP, pod.spec.serviceAccount, ...pod.spec.apps],
    netns: pod.netns,
    logFile: join(dir, `log/${pod.spec.name}.log`),
    ...(env === undefined ? {} : { env }),
  });
  for (const spec of pod.spec.apps) {
    const port = Number(spec.split('=')[1]);
    await waitUntil(`${app.name} to listen on ${port}`, () => accepts(pod.ip4, port), {
      timeoutMs: 30_000,
      process: app,
    });
  }
  return app;
}

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const finish = (yes: boolean) => {
      socket.destroy();
      resolve(yes);
    };
    socket.on('connect', () => finish(true));
    socket.on('error', () => finish(false));
  });
}

/** The first address of a family in a CNI result. */
export function addressOf(result: Json, family: 4 | 6): string {
  const ips: unknown = result['ips'];
  const addresses = Array.isArray(ips) ? ips.map((entry: { address?: string }) => entry.address ?? '') : [];
  const address = addresses.find((text) => text.includes(':') === (family === 6));
  if (address === undefined) throw new Error(`reading the result of ADD: no IPv${family} address`);
  return address.split('/')[0] ?? '';
}
