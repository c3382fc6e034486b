// Everything of a node that a call may change, read from the kernel, the disk and the agent's own sockets, as plain values
// for comparison: what is equal before and after was left alone.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import { create, toJson } from '@bufbuild/protobuf';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { callUnary } from '../../src/adapters/grpc/unary-client.ts';
import {
  AdminService,
  GetSnapshotRequestSchema,
  ListPodsRequestSchema,
  ListPodsResponseSchema,
  ListServicesRequestSchema,
  ListServicesResponseSchema,
} from '../../src/gen/aether/admin/v1/admin_pb.js';
import type { TestPod } from './hostile-node.ts';
import { PLACES, ROOM_DIR } from './hostile-room.ts';

/** By what it is; compare with strictSame. */
export interface NodeState {
  /** `nft list ruleset` by pod, and of the node itself under `node`. */
  readonly rulesets: Readonly<Record<string, string>>;
  /** Mount points of namespaces below the pin directory. */
  readonly pinMounts: readonly string[];
  /** `path hash` of everything in the room's directory but logs and what the tests put there. */
  readonly files: readonly string[];
  /** Pods, services and resources by name and version, as the agent tells them. */
  readonly agent: unknown;
  /** Command lines of our programs besides the agent's. */
  readonly processes: readonly string[];
}

/** Logs grow, and the rest are the tests' own. */
const NOT_STATE = /(^|\/)([^/]+\.log(\.1)?|bin|test-[^/]+)$/;

export async function readState(pods: readonly TestPod[]): Promise<NodeState> {
  return { ...readStateWithoutAgent(pods), agent: await readAgent() };
}

/** For when there is none. */
export function readStateWithoutAgent(pods: readonly TestPod[]): Omit<NodeState, 'agent'> {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return {
    rulesets: Object.fromEntries([
      ['node', execFileSync('nft', ['list', 'ruleset'], { encoding: 'utf8' })],
      ...pods.map(({ name, netns }) => [name, rulesetOf(netns)]),
    ]),
    pinMounts: mounts
      .map((line) => line.split(' ')[4] ?? '')
      .filter((path) => path.startsWith(PLACES.pinDir))
      .sort(),
    files: [...listFiles(ROOM_DIR), ...listTemporaries('/tmp'), ...listTemporaries('/dev/shm')].sort(),
    processes: listProcesses(),
  };
}

/** Tables in order of name: the kernel has them in the order in which they were made. */
export function rulesetOf(netns: string): string {
  const text = execFileSync('nsenter', [`--net=${netns}`, 'nft', 'list', 'ruleset'], { encoding: 'utf8' });
  return text
    .split(/^(?=table )/m)
    .sort()
    .join('');
}

/** The state once it stays: an ADD that doesn't wait for the proxy is answered before other pods' tables know of it. */
export async function readSettledState(pods: readonly TestPod[]): Promise<NodeState> {
  let last = await readState(pods);
  let equalReads = 0;
  await waitUntil(
    'the node to settle',
    async () => {
      const next = await readState(pods);
      equalReads = JSON.stringify(next) === JSON.stringify(last) ? equalReads + 1 : 0;
      last = next;
      return equalReads >= 5;
    },
    { timeoutMs: 30_000, stepMs: 200 },
  );
  return last;
}

/** Waits until the node is as it was; gives the last state read, equal or not. What was queued takes a few seconds. */
export async function waitForState(
  before: NodeState,
  pods: readonly TestPod[],
  timeoutMs: number = 12_000,
): Promise<NodeState> {
  const wanted = JSON.stringify(before);
  let last = before;
  await waitUntil(
    'the state before',
    async () => {
      last = await readState(pods);
      return JSON.stringify(last) === wanted;
    },
    { timeoutMs, stepMs: 100 },
  ).catch(() => {});
  return last;
}

async function readAgent(): Promise<unknown> {
  const options = { socketPath: PLACES.adminSocket, timeoutMs: 5000 };
  const { method } = AdminService;
  const [pods, services, snapshot] = await Promise.all([
    callUnary(method.listPods, create(ListPodsRequestSchema), options),
    callUnary(method.listServices, create(ListServicesRequestSchema), options),
    callUnary(method.getSnapshot, create(GetSnapshotRequestSchema), options),
  ]);
  return {
    pods: toJson(ListPodsResponseSchema, pods.response),
    services: toJson(ListServicesResponseSchema, services.response),
    resources: snapshot.response.resources.map(({ name, version }) => `${name} ${version}`),
  };
}

function listFiles(dir: string): readonly string[] {
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (NOT_STATE.test(path)) return [];
    if (entry.isDirectory()) return listFiles(path);
    const isPlain = entry.isFile() && !path.startsWith(`${PLACES.pinDir}/`);
    const hash = isPlain ? createHash('sha256').update(readContent(path)).digest('hex').slice(0, 12) : '';
    return [`${relative(ROOM_DIR, path)} ${hash}`.trim()];
  });
}

// An address that was given back stays its service's for a day; since when is no difference.
function readContent(path: string): string {
  return readFileSync(path, 'latin1').replace(/"releasedAt":\s*"[^"]*"/g, '"releasedAt"');
}

// Others work there, too: only what our executable may leave there.
function listTemporaries(dir: string): readonly string[] {
  return readdirSync(dir).filter((name) => name.includes('.aether-cni'));
}

function listProcesses(): readonly string[] {
  return listPids().flatMap((pid) => {
    const command = commandOf(pid);
    return command[0]?.includes('aether-cni') && command[1] !== 'agent' ? [command.join(' ')] : [];
  });
}

function listPids(): readonly string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
}

function commandOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** What a process holds: its descriptors counted by kind, its threads by network namespace, its memory. */
export interface Holdings {
  readonly descriptors: Readonly<Record<string, number>>;
  readonly namespaces: readonly string[];
  readonly threads: number;
  readonly residentBytes: number;
}

function readHoldings(pid: number): Holdings {
  const descriptors: Record<string, number> = {};
  for (const target of readLinks(`/proc/${pid}/fd`)) {
    const kind = target.replace(/:\[\d+\]$/, '').replace(/^\/.*\//, '');
    descriptors[kind] = (descriptors[kind] ?? 0) + 1;
  }
  const tasks = readdirSync(`/proc/${pid}/task`);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    descriptors: Object.fromEntries(Object.entries(descriptors).sort()),
    namespaces: [...new Set(listThreads(pid).map(({ namespace }) => namespace))],
    threads: tasks.length,
    residentBytes: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1024,
  };
}

/** The same when nothing changes any more: sockets are closed late on purpose, and idle ones after seconds. */
export async function readSettledHoldings(pid: number): Promise<Holdings> {
  let last = readHoldings(pid);
  let sameSince = performance.now();
  await waitUntil(
    'the descriptors to settle',
    () => {
      const next = readHoldings(pid);
      if (JSON.stringify(next.descriptors) !== JSON.stringify(last.descriptors)) sameSince = performance.now();
      last = next;
      return performance.now() - sameSince > 1500;
    },
    { timeoutMs: 20_000, stepMs: 50 },
  );
  return last;
}

/** Threads and their network namespaces at this moment; the native helper's own live for microseconds and may show up. */
export function listThreads(pid: number): readonly { readonly task: string; readonly namespace: string }[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readLink(`/proc/${pid}/task/${task}/ns/net`).map((namespace) => ({ task, namespace })),
  );
}

function readLinks(dir: string): readonly string[] {
  return readdirSync(dir).flatMap((name) => readLink(join(dir, name)));
}

function readLink(path: string): readonly string[] {
  try {
    return [readlinkSync(path)];
  } catch {
    // Gone meanwhile.
    return [];
  }
}
