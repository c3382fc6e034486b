// A node under attack: its agent, pods as a runtime would describe them, and calls of our plugin in both forms, each part of
// which a test may spoil or kill.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { startAgent } from '../../scripts/lab/agent.ts';
import { pluginEntry } from '../../scripts/lab/lab.ts';
import { EXECUTABLE, RELAY } from '../../scripts/lab/places.ts';
import { type LabProcess, waitUntil } from '../../scripts/lab/processes.ts';
import { PLACES, ROOM_DIR } from './hostile-room.ts';

/** `full`: the whole plugin in one file. `relay`: the small front, with the full file beside it. */
export type Form = 'full' | 'relay';
export type Verb = 'ADD' | 'DEL' | 'CHECK' | 'GC' | 'STATUS' | 'VERSION';
type Json = Readonly<Record<string, unknown>>;

const ANNOTATIONS_KEY = 'io.kubernetes.cri.pod-annotations';
const NETWORK = 'hostile';

/** Starts the room's agent, also over the sockets of one that was killed. */
export async function startNodeAgent(
  options: { readonly env?: Readonly<Record<string, string>>; readonly program?: readonly [string, ...string[]] } = {},
): Promise<LabProcess> {
  const agent = await startAgent({ dir: ROOM_DIR, nodeName: 'hostile-node', places: PLACES, ...options });
  // A killed agent leaves its files: only an answer shows that this one is there. The relay is let in last.
  await waitUntil("the relay's socket", () => isAnswered(PLACES.relaySocket), { timeoutMs: 30_000, process: agent });
  return agent;
}

function isAnswered(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const finish = (yes: boolean): void => {
      socket.destroy();
      resolve(yes);
    };
    socket.once('connect', () => finish(true));
    socket.once('error', () => finish(false));
  });
}

/** A pod as its runtime knows it. `annotations` besides the two that make it ours. */
export interface TestPod {
  readonly name: string;
  readonly containerId: string;
  readonly netns: string;
  readonly ip: string;
  readonly annotations: Readonly<Record<string, string>>;
}

let podCount = 0;

/** Pods with a namespace each, made in one go. They end with the room, or by removePods(). */
export function makePods(number: number, annotate: (index: number) => TestPod['annotations'] = () => ({})): TestPod[] {
  const pods = Array.from({ length: number }, (_, index) => {
    const n = ++podCount;
    return {
      name: `pod-${n}`,
      containerId: randomBytes(16).toString('hex'),
      netns: `/run/netns/pod-${n}`,
      ip: `10.99.${n >> 8}.${n & 255}`,
      annotations: annotate(index),
    };
  });
  runIpBatch(pods.map(({ name }) => `netns add ${name}`));
  return pods;
}

export function makePod(annotations: TestPod['annotations'] = {}): TestPod {
  const [pod] = makePods(1, () => annotations);
  if (pod === undefined) throw new Error('making a pod');
  return pod;
}

/** Removes the namespaces as a runtime does; throws when one is busy. */
export function removePods(pods: readonly TestPod[]): void {
  runIpBatch(pods.map(({ name }) => `netns del ${name}`));
}

/** The same pod with a new sandbox. */
export function renewed(pod: TestPod): TestPod {
  return { ...pod, containerId: randomBytes(16).toString('hex') };
}

function runIpBatch(lines: readonly string[]): void {
  execFileSync('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n`, stdio: ['pipe', 'ignore', 'pipe'] });
}

/** The answer of the plugin before us, with a key that nobody knows. */
export function prevResultOf(pod: TestPod): Json {
  return {
    cniVersion: '1.1.0',
    interfaces: [{ name: 'eth0', sandbox: pod.netns }],
    ips: [{ address: `${pod.ip}/24`, interface: 0 }],
    dns: {},
    vendor: { kept: [1, null, 'é'] },
  };
}

/** What libcni would write to our standard input; `undefined` in `more` takes a key away. */
export function configOf(pod: TestPod, more: Json = {}): Json {
  return {
    ...pluginEntry(PLACES, ROOM_DIR),
    cniVersion: '1.1.0',
    name: NETWORK,
    proxy_ready: 'skip',
    runtimeConfig: {
      [ANNOTATIONS_KEY]: { 'aether.io/managed': 'true', 'aether.io/service-account': 'shop', ...pod.annotations },
    },
    prevResult: prevResultOf(pod),
    ...more,
  };
}

export type Variables = Readonly<Record<string, string | undefined>>;

export function variablesOf(verb: Verb, pod: TestPod): Variables {
  return {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: pod.containerId,
    CNI_NETNS: pod.netns,
    CNI_IFNAME: 'eth0',
    CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=${pod.name};K8S_POD_UID=u-${pod.name}`,
    CNI_PATH: '/opt/cni/bin',
  };
}

/** `config`: merged into a good one. `stdin`: in its place; `open`: written and not closed. `wrapper`: runs before the program. */
export interface CallOptions {
  readonly config?: Json;
  readonly variables?: Variables;
  readonly stdin?: string | Buffer;
  readonly open?: boolean;
  readonly wrapper?: readonly string[];
}

export interface Run {
  /** The code, or the name of the signal that ended it. */
  readonly exit: number | string;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

export interface RunningCall {
  readonly child: ChildProcess;
  readonly done: Promise<Run>;
}

/** The program of a form, installed as `install` does it. */
function pluginFile(form: Form): string {
  if (form === 'full') return EXECUTABLE;
  const dir = join(ROOM_DIR, 'bin');
  if (!existsSync(dir)) {
    mkdirSync(dir);
    copyFileSync(RELAY, join(dir, 'aether-cni'));
    symlinkSync(EXECUTABLE, join(dir, 'aether-cni-standalone'));
  }
  return join(dir, 'aether-cni');
}

/** Starts a call; a runtime's environment, nothing of ours. */
export function startCall(form: Form, verb: Verb, call: CallOptions & { readonly pod: TestPod }): RunningCall {
  const { pod, config, variables = {}, open = false, wrapper = [] } = call;
  const stdin = call.stdin ?? JSON.stringify(configOf(pod, config));
  const env = Object.entries({
    PATH: process.env['PATH'],
    // With it the full file would do as the relay does, and nothing by itself.
    ...(form === 'relay' ? { AETHER_RELAY_SOCKET: PLACES.relaySocket } : {}),
    ...variablesOf(verb, pod),
    ...variables,
  }).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const [file = '', ...args] = [...wrapper, pluginFile(form)];
  const start = performance.now();
  const child = spawn(file, args, { env: Object.fromEntries(env), stdio: ['pipe', 'pipe', 'pipe'] });
  const texts = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    texts.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    texts.stderr += text;
  });
  // A program that ends without reading its stdin.
  child.stdin.on('error', () => {});
  child.stdin.write(stdin);
  if (!open) child.stdin.end();
  const done = new Promise<Run>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      child.stdin.destroy();
      resolve({ exit: code ?? signal ?? '', ...texts, ms: performance.now() - start });
    });
  });
  return { child, done };
}

export function runCall(form: Form, verb: Verb, call: CallOptions & { readonly pod: TestPod }): Promise<Run> {
  return startCall(form, verb, call).done;
}

/** GC of our network: everything goes but these. */
export function runGc(form: Form, valid: readonly TestPod[]): Promise<Run> {
  const [pod] = valid;
  if (pod === undefined) throw new Error('running GC: it needs a pod to stay');
  const attachments = valid.map(({ containerId }) => ({ containerID: containerId, ifname: 'eth0' }));
  return runCall(form, 'GC', { pod, config: { 'cni.dev/valid-attachments': attachments, prevResult: undefined } });
}
