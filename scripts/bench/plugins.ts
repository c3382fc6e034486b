// The plugins of the benchmark: what each is started with. All of them get the same pod; what is chained gets the same
// prevResult. Besides them what any process costs.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentPlaces } from '../lab/agent.ts';
import type { Json } from '../lab/cni-runtime.ts';
import { pluginEntry } from '../lab/lab.ts';
import { EXECUTABLE, RELAY, ROOT } from '../lab/places.ts';
import type { TimedCall } from './call-timer.ts';

/** START: no plugin, just the program. */
export type BenchVerb = 'START' | 'VERSION' | 'STATUS' | 'ADD' | 'CHECK' | 'DEL';

/** One plugin as the benchmark calls it. */
export interface BenchPlugin {
  readonly name: string;
  readonly program: string;
  readonly args?: readonly string[];
  /** In the order of the calls. */
  readonly verbs: readonly BenchVerb[];
  /** The agent whose work counts with its own. */
  readonly agentPid?: number;
  /** lo of the namespace at DEL. */
  readonly loAtDel: 'up' | 'down';
  /** Its configuration for pod number `index`; it may need files. */
  readonly config: (index: number) => Json;
  readonly env: Readonly<Record<string, string>>;
}

/** An agent that ours is measured with. */
export interface BenchAgent {
  readonly dir: string;
  readonly pid: number;
  readonly places: AgentPlaces;
}

export interface PluginPlaces {
  /** For whatever the plugins write. */
  readonly dir: string;
  /** No Envoy, as the others are without the daemons that carry their traffic. */
  readonly agent: BenchAgent;
  /** With an Envoy that takes every change. */
  readonly proxied: BenchAgent;
}

/** Where scripts/runtimes/setup.sh puts what it builds of Go modules. */
export const GO_DIR = join(ROOT, 'build/runtimes/bin');
const ALL = ['VERSION', 'STATUS', 'ADD', 'CHECK', 'DEL'] as const;
/** Plugins that know no CHECK or STATUS of their own, or answer it without looking. */
const BASIC = ['VERSION', 'ADD', 'DEL'] as const;

export const NODE = 'node -e 0';
/** The reference: a plugin of the Go project that does nothing. */
export const NOOP = 'no-op (Go)';
export const TUNING = 'tuning (Go)';
export const OURS = 'relay, scoped';
export const OURS_ALL = 'relay, redirect-all';
/** A certificate and a whole service more, in Envoy and in every pod's table; the others are one more pod of a service. */
const OURS_FIRST = 'relay, scoped, first pod of its service';
export const OURS_LO_DOWN = 'relay, scoped, `lo` down at DEL';
export const OURS_PROXIED = 'relay, scoped, Envoy connected';
/** The program without the relay: as installed, it asks the agent at the relay's socket. */
export const OURS_FILE = 'full file, asking the agent';
/** And where it does the call itself, and the agent has to be told by gRPC: beside the Go mesh's agent. */
export const OURS_ALONE = 'full file, by gRPC';

/** Of all pods but the first of their own. */
const SERVICES = 10;

/** Those whose program is there, in the order of the table. */
export function listPlugins(places: PluginPlaces): readonly BenchPlugin[] {
  const all = [...listFloors(), ...listGoPlugins(places.dir), ...listOurs(places)];
  return all.filter(({ program }) => existsSync(program));
}

function listFloors(): readonly BenchPlugin[] {
  const floor = (name: string, program: string, args: readonly string[] = []): BenchPlugin => ({
    ...{ name, program, args, verbs: ['START'], loAtDel: 'up', env: {} },
    config: () => ({}),
  });
  return [
    floor('/bin/true', '/bin/true'),
    floor('hello (Go)', join(GO_DIR, 'hello')),
    floor(NODE, process.execPath, ['-e', '0']),
  ];
}

function listGoPlugins(dir: string): readonly BenchPlugin[] {
  const go = (name: string, file: string, config: BenchPlugin['config'], verbs: readonly BenchVerb[] = BASIC) => ({
    ...{ name, program: join(GO_DIR, file), verbs, loAtDel: 'up' as const, env: {}, config },
  });
  return [
    go(NOOP, 'noop', (index) => ({ ...chained(index), debugFile: noopFile(dir) }), ALL),
    go(TUNING, 'tuning', (index) => ({ ...chained(index), sysctl: { 'net.core.somaxconn': '500' } })),
    go('bridge + host-local (Go)', 'bridge', () => ({
      cniVersion: '1.0.0',
      name: 'bench',
      bridge: 'bench0',
      isGateway: true,
      ipam: { type: 'host-local', dataDir: join(dir, 'ipam'), ranges: [[{ subnet: '10.77.0.0/16' }]] },
    })),
    go('portmap, nftables (Go)', 'portmap', (index) => ({
      ...chained(index),
      backend: 'nftables',
      snat: true,
      runtimeConfig: { portMappings: [{ hostPort: 20_000 + index, containerPort: 80, protocol: 'tcp' }] },
    })),
  ];
}

function listOurs({ agent, proxied }: PluginPlaces): readonly BenchPlugin[] {
  const ours = (name: string, more: Partial<BenchPlugin> & { at?: BenchAgent; annotations?: Json } = {}) => {
    const { at = agent, annotations = {}, ...rest } = more;
    const entry = { ...pluginEntry(at.places, at.dir), proxy_ready: 'skip', log_level: 'info' };
    const config = (index: number): Json => ({ ...entry, ...chained(index, annotations) });
    const env = { AETHER_RELAY_SOCKET: at.places.relaySocket };
    return { name, program: RELAY, verbs: ALL, loAtDel: 'up' as const, env, agentPid: at.pid, ...rest, config };
  };
  return [
    ours(OURS),
    ours(OURS_ALL, { verbs: ['ADD', 'DEL'], annotations: { 'capture.aether.io/redirect-all': 'true' } }),
    ours(OURS_FIRST, { verbs: ['ADD', 'DEL'], annotations: { 'aether.io/service-account': 'alone' } }),
    ours(OURS_LO_DOWN, { loAtDel: 'down', verbs: ['ADD', 'DEL'] }),
    ours(OURS_PROXIED, { at: proxied, verbs: ['ADD', 'CHECK', 'DEL'] }),
    ours(OURS_FILE, { program: EXECUTABLE }),
    // Its configuration names the agent's socket for gRPC, and nothing another one.
    ours(OURS_ALONE, { program: EXECUTABLE, env: {} }),
  ];
}

/** One call for pod number `index`, whose namespace is at `netns`. Writes what goes to stdin. */
export function describeCall(
  plugin: BenchPlugin,
  verb: BenchVerb,
  { dir, index, netns }: { readonly dir: string; readonly index: number; readonly netns: string },
): TimedCall {
  const { program, args = [] } = plugin;
  const call = { label: `${plugin.name}|${verb}`, program, args };
  if (verb === 'START') return { ...call, env: {} };
  const common = { CNI_COMMAND: verb, PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...plugin.env };
  if (verb === 'VERSION') return { ...call, env: common };
  const stdin = join(dir, `stdin/${plugin.name.replaceAll(/\W+/g, '-')}-${verb === 'STATUS' ? 'status' : index}.json`);
  mkdirSync(join(dir, 'stdin'), { recursive: true });
  const config = plugin.config(index);
  writeFileSync(stdin, JSON.stringify(verb === 'STATUS' ? { ...config, ...statusOnly(plugin) } : config));
  const env = { ...common, CNI_PATH: GO_DIR };
  if (verb === 'STATUS') return { ...call, stdin, env };
  return { ...call, stdin, env: { ...env, ...describeContainer(plugin, { index, netns }) } };
}

// STATUS came with version 1.1.0. A runtime gives it nothing of a pod; but the no-op fails without a result.
function statusOnly({ name }: BenchPlugin): Json {
  return { cniVersion: '1.1.0', ...(name === NOOP ? {} : { prevResult: undefined, runtimeConfig: undefined }) };
}

function describeContainer(plugin: BenchPlugin, pod: { readonly index: number; readonly netns: string }) {
  const containerId = `${plugin.name.replaceAll(/\W/g, '').slice(0, 12)}${String(pod.index).padStart(8, '0')}`;
  const args = [
    ['IgnoreUnknown', '1'],
    ['K8S_POD_NAMESPACE', 'bench'],
    ['K8S_POD_NAME', `pod-${pod.index}`],
    ['K8S_POD_INFRA_CONTAINER_ID', containerId],
    ['K8S_POD_UID', `uid-${pod.index}`],
  ];
  return {
    CNI_CONTAINERID: containerId,
    CNI_NETNS: pod.netns,
    CNI_IFNAME: 'eth0',
    CNI_ARGS: args.map(([key, value]) => `${key}=${value}`).join(';'),
  };
}

/** What every plugin gets that does not come first. */
export function chained(index: number, annotations: Json = {}): Json {
  return {
    cniVersion: '1.0.0',
    name: 'bench',
    prevResult: {
      cniVersion: '1.0.0',
      interfaces: [{ name: 'eth0', sandbox: '/run/netns/x' }],
      ips: [{ address: `10.78.${index >> 8}.${index & 0xff}/16`, interface: 0 }],
    },
    runtimeConfig: {
      'io.kubernetes.cri.pod-annotations': {
        'aether.io/managed': 'true',
        'aether.io/service-account': `account-${index % SERVICES}`,
        'endpoint.aether.io/ports': '8080,9000=tcp',
        ...annotations,
      },
    },
  };
}

// It reads from a file what it shall answer, and writes there what it was asked: one file for all its calls.
function noopFile(dir: string): string {
  const path = join(dir, 'noop.json');
  writeFileSync(path, JSON.stringify({ ReportResult: 'PASSTHROUGH' }));
  return path;
}
