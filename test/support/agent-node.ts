// A node with the whole agent, the real kernel and the real Envoy: pods are namespaces behind a bridge, added through
// the agent's own pod service. Only the host's routes are left alone. Root only.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { envoyPath } from '../../scripts/lab/places.ts';
import { startProcess, waitUntil } from '../../scripts/lab/processes.ts';
import { createNamespaces } from '../../src/adapters/kernel/namespaces.ts';
import { createRules } from '../../src/adapters/kernel/rules.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { type AgentProcess, openAgentProcess } from '../../src/commands/agent-process.ts';
import { parseAgentSettings } from '../../src/commands/agent-settings.ts';
import { parseContainerId } from '../../src/core/identifiers.ts';
import { formatTable } from '../../src/nft/text.ts';
import type { PodRequest } from '../../src/plugin/deps.ts';
import { buildBootstrap } from '../../src/xds/bootstrap.ts';
import { openNative } from './native.ts';
import { makeNetns, type TestNetns } from './netns.ts';
import { RecordingLog } from './recording-log.ts';
import { makeIp } from './services.ts';
import type { HttpAnswer, HttpJob, TcpAnswer, TcpJob } from './xds-client.ts';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

export interface AgentNode {
  readonly log: RecordingLog;
  readonly dir: string;
  /** Starts the agent on the node's disk; at most one at a time. */
  startAgent(): Promise<AgentProcess>;
  /** Starts Envoy and waits until it has connected to the agent. */
  startEnvoy(agent: AgentProcess): Promise<void>;
  /** A namespace behind the bridge with the plugin's table, as its ADD would be told to the agent. */
  makePod(name: string, annotations: Readonly<Record<string, string>>): AgentNodePod;
  admin(path: string): Promise<string>;
}

export interface AgentNodePod {
  readonly netns: TestNetns;
  readonly request: PodRequest;
  startApp(...apps: readonly string[]): Promise<void>;
  http(job: HttpJob): Promise<readonly HttpAnswer[]>;
  tcp(job: TcpJob): Promise<TcpAnswer>;
}

const CLIENT = `${import.meta.dirname}/xds-client.ts`;
const APP = `${import.meta.dirname}/xds-app.ts`;
const run = promisify(execFile);

/** `flags` of the agent, beside the places. */
export function makeAgentNode(t: TearsDown, flags: Readonly<Record<string, readonly string[]>> = {}): AgentNode {
  const dir = mkdtempSync('/tmp/ae-node-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const netns = makeNetns(t, 'node');
  inside(netns, 'ip', 'link', 'add', 'br0', 'type', 'bridge');
  inside(netns, 'ip', 'addr', 'add', '10.78.0.1/24', 'dev', 'br0');
  inside(netns, 'ip', 'link', 'set', 'br0', 'up');
  const log = new RecordingLog();
  let pods = 0;
  return {
    log,
    dir,
    startAgent: async () => {
      const agent = await openOn({ dir, log, more: flags });
      t.teardown(() => agent.close());
      return agent;
    },
    startEnvoy: async (agent) => {
      const file = join(dir, 'envoy.json');
      const bootstrap = buildBootstrap({
        nodeName: 'node1',
        xdsSocket: join(dir, 'xds.sock'),
        adminSocket: join(dir, 'envoy.sock'),
      });
      writeFileSync(file, JSON.stringify(bootstrap));
      const envoy = startProcess({
        name: 'envoy',
        command: [envoyPath(), '-c', file, '-l', 'warning', '--concurrency', '1', '--disable-hot-restart'],
        logFile: join(dir, 'envoy.log'),
        netns: netns.path,
      });
      t.teardown(() => envoy.stop());
      await waitUntil('Envoy to connect', () => agent.cache.streams > 0, { timeoutMs: 30_000, process: envoy });
    },
    makePod: (name, annotations) => makePod(t, { dir, node: netns, number: ++pods + 1, name, annotations }),
    admin: async (path) => {
      const { stdout } = await run('curl', ['-sS', '--unix-socket', join(dir, 'envoy.sock'), `http://envoy${path}`]);
      return stdout;
    },
  };
}

/** What an ADD promises is the way to the pod. Traffic comes when its application was seen to answer and Envoy knows it. */
export async function untilServed(node: AgentProcess, containerId: string): Promise<void> {
  const { agent } = node;
  const isHealthy = (): boolean => {
    const pod = agent.findPod(containerId);
    return pod !== undefined && agent.liveness?.healthOf(pod) === 'healthy';
  };
  await waitUntil(`${containerId} to be healthy`, isHealthy, { timeoutMs: 20_000 });
  await untilTaken(node);
}

/** Everything that was asked for is told, and taken by Envoy. */
export async function untilTaken({ agent, cache }: AgentProcess): Promise<void> {
  await new Promise(setImmediate);
  await agent.runner.idle();
  const names = (['cluster', 'endpoints'] as const).flatMap((kind) =>
    [...(agent.snapshot?.resources[kind].keys() ?? [])].map((name) => ({ kind, name })),
  );
  const taken = await cache.waitForAck(names, { timeoutMs: 20_000 });
  if (taken.kind !== 'acknowledged') throw new Error(`Envoy has not taken ${JSON.stringify(taken)}`);
}

async function openOn({
  dir,
  log,
  more,
}: {
  readonly dir: string;
  readonly log: RecordingLog;
  readonly more: Readonly<Record<string, readonly string[]>>;
}): Promise<AgentProcess> {
  const paths = {
    'cni-socket': 'cni.sock',
    'xds-socket': 'xds.sock',
    'admin-socket': 'admin.sock',
    'health-socket': 'health.sock',
    'record-dir': 'lib/registry',
  };
  const flags = new Map<string, readonly string[]>(
    Object.entries(paths).map(([name, path]) => [name, [join(dir, path)]]),
  );
  flags
    .set('mesh-dns', ['127.0.0.1:0'])
    .set('node-name', ['node1'])
    .set('netns-pin-dir', [join(dir, 'netns')]);
  flags.set('capture-redirect-all-default', ['true']);
  for (const [name, texts] of Object.entries(more)) flags.set(name, texts);
  const parsed = parseAgentSettings({ flags, environment: {} }, { hostname: 'node1', hostIp: makeIp('10.78.0.1') });
  if (parsed.kind === 'problems') throw new Error(JSON.stringify(parsed.problems));
  const native = openNative();
  const routes = { prohibit: async () => {}, release: async () => {} };
  const kernel = { namespaces: createNamespaces(native), tables: createRules(native), routes };
  return openAgentProcess({ settings: parsed.value, kernel, log, version: 'test' });
}

function makePod(
  t: TearsDown,
  {
    dir,
    node,
    number,
    name,
    annotations,
  }: { dir: string; node: TestNetns; number: number; name: string; annotations: Readonly<Record<string, string>> },
): AgentNodePod {
  const netns = makeNetns(t, 'node');
  const ip = `10.78.0.${number}`;
  inside(node, 'ip', 'link', 'add', `v${number}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', netns.name);
  inside(node, 'ip', 'link', 'set', `v${number}`, 'master', 'br0', 'up');
  inside(netns, 'ip', 'addr', 'add', `${ip}/24`, 'dev', 'eth0');
  inside(netns, 'ip', 'link', 'set', 'eth0', 'up');
  inside(netns, 'ip', 'route', 'add', 'default', 'via', '10.78.0.1');
  const rules = formatTable(planPluginTable({ redirectAll: true, excludePorts: [], excludeRanges: [] }));
  execFileSync('nsenter', [`--net=${netns.path}`, '--', 'nft', '-f', '-'], { input: rules });
  const containerId = parseContainerId(`c-${name}`);
  if (typeof containerId === 'object') throw new Error(containerId.problem);
  const client = async (job: HttpJob | TcpJob): Promise<string> => {
    const command = [`--net=${netns.path}`, '--', process.execPath, CLIENT, JSON.stringify(job)];
    return (await run('nsenter', command)).stdout;
  };
  return {
    netns,
    request: {
      name,
      namespace: 'demo',
      containerId,
      networkNamespace: netns.path,
      ips: [ip],
      annotations: {
        'aether.io/managed': 'true',
        'aether.io/service-account': name.replace(/-[0-9]+$/, ''),
        ...annotations,
      },
      uid: '',
    },
    startApp: async (...apps) => {
      const app = startProcess({
        name: `app of ${name}`,
        command: [process.execPath, APP, name, ...apps],
        logFile: join(dir, `${name}.log`),
        netns: netns.path,
      });
      t.teardown(() => app.stop());
      const count = (): number =>
        app
          .tail()
          .split('\n')
          .filter((line) => line.startsWith('listening')).length;
      await waitUntil(`the applications of ${name}`, () => count() === apps.length, {
        timeoutMs: 30_000,
        process: app,
      });
    },
    http: async (job) => JSON.parse(await client(job)) as readonly HttpAnswer[], // printed by our own client
    tcp: async (job) => {
      const [answer] = JSON.parse(await client(job)) as readonly TcpAnswer[]; // printed by our own client
      if (answer === undefined) throw new Error('the client said nothing');
      return answer;
    },
  };
}

function inside(netns: TestNetns, ...command: readonly string[]): void {
  execFileSync('nsenter', [`--net=${netns.path}`, '--', ...command]);
}
