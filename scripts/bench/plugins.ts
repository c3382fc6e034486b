// The plugins of the benchmark: what each is started with. All of them get the same pod; what is chained gets the same
// prevResult.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentPlaces } from '../lab/agent.ts';
import type { Json } from '../lab/cni-runtime.ts';
import { pluginEntry } from '../lab/lab.ts';
import { EXECUTABLE, RELAY, ROOT } from '../lab/places.ts';
import type { TimedCall } from './call-timer.ts';

export type BenchVerb = 'VERSION' | 'STATUS' | 'ADD' | 'CHECK' | 'DEL';

/** One plugin as the benchmark calls it. */
export interface BenchPlugin {
  readonly name: string;
  readonly program: string;
  /** In the order of the calls. */
  readonly verbs: readonly BenchVerb[];
  /** lo of the namespace at DEL. */
  readonly loAtDel: 'up' | 'down';
  /** Its configuration for pod number `index`; it may need files. */
  readonly config: (index: number) => Json;
  readonly env: Readonly<Record<string, string>>;
}

export interface PluginPlaces {
  /** For whatever the plugins write. */
  readonly dir: string;
  readonly agent: AgentPlaces;
}

/** Where scripts/runtimes/setup.sh puts what it builds of Go modules. */
export const GO_DIR = join(ROOT, 'build/runtimes/bin');
const ALL = ['VERSION', 'STATUS', 'ADD', 'CHECK', 'DEL'] as const;
/** Plugins that know no CHECK or STATUS of their own, or answer it without looking. */
const BASIC = ['VERSION', 'ADD', 'DEL'] as const;

/** The reference: a plugin of the Go project that does nothing. */
export const NOOP = 'no-op (Go)';
export const TUNING = 'tuning (Go)';
export const OURS = 'ours by relay';
export const OURS_ALL = 'ours by relay, redirect-all';
export const OURS_LO_DOWN = 'ours by relay, lo down at DEL';
export const OURS_ALONE = 'ours standalone';

/** Those whose program is there. */
export function listPlugins({ dir, agent }: PluginPlaces): readonly BenchPlugin[] {
  const ours = (name: string, more: Partial<BenchPlugin> = {}, annotations: Json = {}): BenchPlugin => ({
    name,
    program: RELAY,
    verbs: ALL,
    loAtDel: 'up',
    env: { AETHER_RELAY_SOCKET: agent.relaySocket },
    ...more,
    config: (index) => ({ ...pluginEntry(agent, dir), proxy_ready: 'skip', ...chained(index, annotations) }),
  });
  const go = (name: string, file: string, config: BenchPlugin['config'], verbs: readonly BenchVerb[] = BASIC) => ({
    name,
    program: join(GO_DIR, file),
    verbs,
    loAtDel: 'up' as const,
    env: {},
    config,
  });
  const plugins: readonly BenchPlugin[] = [
    go(NOOP, 'noop', (index) => ({ ...chained(index), debugFile: noopFile(dir) }), ALL),
    ours(OURS),
    ours(OURS_ALL, {}, { 'capture.aether.io/redirect-all': 'true' }),
    ours(OURS_LO_DOWN, { loAtDel: 'down' }),
    ours(OURS_ALONE, { program: EXECUTABLE, env: {} }),
    go(TUNING, 'tuning', (index) => chained(index)),
    go('portmap, nftables (Go)', 'portmap', (index) => ({
      ...chained(index),
      backend: 'nftables',
      snat: true,
      runtimeConfig: { portMappings: [{ hostPort: 20_000 + index, containerPort: 80, protocol: 'tcp' }] },
    })),
    go('bridge + host-local (Go)', 'bridge', () => ({
      cniVersion: '1.0.0',
      name: 'bench',
      bridge: 'bench0',
      ipam: { type: 'host-local', dataDir: join(dir, 'ipam'), ranges: [[{ subnet: '10.77.0.0/16' }]] },
    })),
  ];
  return plugins.filter(({ program }) => existsSync(program));
}

/** One call for pod number `index`, whose namespace is at `netns`. Writes what goes to stdin. */
export function describeCall(
  plugin: BenchPlugin,
  verb: BenchVerb,
  { dir, index, netns }: { readonly dir: string; readonly index: number; readonly netns: string },
): TimedCall {
  const label = `${plugin.name}|${verb}`;
  const common = { CNI_COMMAND: verb, PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...plugin.env };
  if (verb === 'VERSION') return { label, program: plugin.program, env: common };
  const stdin = join(dir, `stdin/${plugin.name.replaceAll(/\W+/g, '-')}-${verb === 'STATUS' ? 'status' : index}.json`);
  mkdirSync(join(dir, 'stdin'), { recursive: true });
  const config = plugin.config(index);
  // STATUS came with version 1.1.0.
  writeFileSync(stdin, JSON.stringify(verb === 'STATUS' ? { ...config, cniVersion: '1.1.0' } : config));
  const env = { ...common, CNI_PATH: GO_DIR };
  if (verb === 'STATUS') return { label, program: plugin.program, stdin, env };
  const containerId = `${plugin.name.replaceAll(/\W/g, '').slice(0, 12)}${String(index).padStart(8, '0')}`;
  const args = [
    ['IgnoreUnknown', '1'],
    ['K8S_POD_NAMESPACE', 'bench'],
    ['K8S_POD_NAME', `pod-${index}`],
    ['K8S_POD_INFRA_CONTAINER_ID', containerId],
    ['K8S_POD_UID', `uid-${index}`],
  ];
  const attachment = {
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: 'eth0',
    CNI_ARGS: args.map(([key, value]) => `${key}=${value}`).join(';'),
  };
  return { label, program: plugin.program, stdin, env: { ...env, ...attachment } };
}

function chained(index: number, annotations: Json = {}): Json {
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
        'aether.io/service-account': `account-${index % 10}`,
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
