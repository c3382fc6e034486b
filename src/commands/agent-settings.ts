// Every setting of `aether-cni agent`: name, default, unit, meaning. The README's table and the help are this one.

import { dirname, isAbsolute, join } from 'node:path';
import { countVips } from '../agent/vip-allocator.ts';
import {
  DEFAULT_ADMIN_SOCKET,
  DEFAULT_CNI_SOCKET,
  DEFAULT_HEALTH_SOCKET,
  DEFAULT_KUBELET_PODS_DIR,
  DEFAULT_PIN_DIR,
  DEFAULT_RECORD_DIR,
  DEFAULT_RELAY_SOCKET,
  DEFAULT_XDS_SOCKET,
} from '../core/default-paths.ts';
import { isRoot } from '../core/identifiers.ts';
import { type IpAddress, type IpRange, parseIp, parseIpRange } from '../core/ip.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import { parseSocketAddress, type SocketAddress } from '../core/socket-address.ts';
import { DEFAULT_MESH_DOMAIN, MESH_DNS_PORT } from '../mesh/constants.ts';
import type { AccessLogSettings } from '../xds/input.ts';
import { ACCESS_LOG_FORMS, parseAccessLog } from './access-log-setting.ts';
import { collectSettings, type SettingRow, type SettingSources, type SettingTexts } from './setting-source.ts';

export const AGENT_SETTINGS = [
  { name: 'cni-socket', value: 'PATH', help: 'gRPC for the CNI plugin', fallback: DEFAULT_CNI_SOCKET },
  {
    name: 'relay-socket',
    value: 'PATH',
    help: 'for the relay that the runtime starts',
    fallback: DEFAULT_RELAY_SOCKET,
  },
  { name: 'xds-socket', value: 'PATH', help: 'delta ADS for Envoy', fallback: DEFAULT_XDS_SOCKET },
  {
    name: 'xds-socket-mode',
    value: 'MODE',
    help: 'its permissions, octal; private keys pass over it',
    fallback: '0600',
  },
  { name: 'admin-socket', value: 'PATH', help: 'for the tool, and the plugin', fallback: DEFAULT_ADMIN_SOCKET },
  { name: 'health-socket', value: 'PATH', help: "Envoy's health gateway", fallback: DEFAULT_HEALTH_SOCKET },
  { name: 'record-dir', value: 'DIR', help: 'pod records', fallback: DEFAULT_RECORD_DIR },
  {
    name: 'state-dir',
    value: 'DIR',
    help: 'leases of service addresses',
    fallback: 'the directory above --record-dir',
  },
  { name: 'ca-dir', value: 'DIR', help: 'root of the embedded authority', fallback: 'ca in --state-dir' },
  {
    name: 'delete-queue-dir',
    value: 'DIR',
    help: 'removals that wait for the agent',
    fallback: 'delete-queue in --state-dir',
  },
  { name: 'netns-pin-dir', value: 'DIR', help: 'pins of network namespaces', fallback: DEFAULT_PIN_DIR },
  { name: 'node-name', value: 'NAME', help: "the node's name, and Envoy's node id", fallback: "the host's name" },
  { name: 'cluster-name', value: 'NAME', help: 'cluster that its endpoints belong to', fallback: 'local' },
  { name: 'region', value: 'NAME', help: 'where the node is', fallback: '(none)' },
  { name: 'zone', value: 'NAME', help: 'where in the region', fallback: '(none)' },
  { name: 'host-ip', value: 'IP', help: "the node's own address", fallback: 'the one of its default route' },
  {
    name: 'mesh-domain',
    value: 'DOMAIN',
    help: 'domain of service names, and trust domain',
    fallback: DEFAULT_MESH_DOMAIN,
  },
  {
    name: 'capture-redirect-all-default',
    help: 'capture all TCP of a pod of whose mode its plugin says nothing; this one always does (capture_redirect_all_default)',
    fallback: 'false',
  },
  {
    name: 'capture-form',
    value: 'FORM',
    help: "split; single: nothing is written to the pods' namespaces by the agent, Envoy alone decides",
    fallback: 'split',
  },
  {
    name: 'pod-source',
    value: 'SOURCE',
    help: 'what says whether a pod is managed: cni (its annotations)',
    fallback: 'cni',
  },
  { name: 'registry', value: 'KIND', help: 'where endpoints are kept: embedded', fallback: 'embedded' },
  { name: 'services', value: 'FILE', help: 'fixed addresses of services, JSON', fallback: '(none)' },
  {
    name: 'vip-cidr',
    value: 'CIDR',
    isList: true,
    help: 'range of service addresses, one of each family',
    fallback: '10.254.0.0/16 fd0a:e7e0::/112',
  },
  { name: 'identity', value: 'KIND', help: 'who issues certificates: embedded, none', fallback: 'embedded' },
  {
    name: 'certificate-lifetime',
    value: 'SECONDS',
    help: "of the workloads' certificates, renewed at half of it",
    fallback: '86400',
  },
  {
    name: 'kubelet-pods-dir',
    value: 'DIR',
    help: "where the kubelet keeps the pods' volumes, for applications on Unix sockets; off: there are none",
    fallback: DEFAULT_KUBELET_PODS_DIR,
  },
  {
    name: 'mesh-dns',
    value: 'ADDR:PORT',
    isList: true,
    help: 'where mesh DNS listens, or off',
    fallback: `--host-ip, port ${MESH_DNS_PORT}`,
  },
  {
    name: 'dns-upstream',
    value: 'ADDR[:PORT]',
    isList: true,
    help: 'resolvers for other names',
    fallback: 'those of /etc/resolv.conf',
  },
  { name: 'log-level', value: 'LEVEL', help: 'debug, info, warn or error', fallback: 'info' },
  {
    name: 'access-log',
    value: 'SINK',
    help: "Envoy's records of connections and requests: off, stdout, file:PATH, otlp:HOST:PORT or otlp:unix:PATH",
    fallback: 'off',
  },
  {
    name: 'access-log-sample',
    value: 'PERCENT',
    help: 'how much of what goes well it records; failures always',
    fallback: '100',
  },
  { name: 'metrics', value: 'ADDR:PORT', help: 'not yet: only off', fallback: 'off' },
  { name: 'page', value: 'ADDR:PORT', help: 'not yet: only off', fallback: 'off' },
  { name: 'registrar', value: 'ADDR', help: 'not yet', fallback: '(none)' },
  { name: 'repair', help: 'not yet', fallback: 'false' },
  {
    name: 'service-scope',
    value: 'SCOPE',
    help: "which services Envoy is given: all; demand: its pods' own, declared and asked for, and those with TCP ports",
    fallback: 'all',
  },
  {
    name: 'on-demand-tcp',
    help: 'Envoy fetches TCP clusters at the first dial: less memory in a big mesh',
    fallback: 'false',
  },
] as const satisfies readonly SettingRow[];

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface AgentSettings {
  readonly cniSocket: string;
  readonly relaySocket: string;
  readonly xdsSocket: string;
  readonly xdsSocketMode: number;
  readonly adminSocket: string;
  readonly healthSocket: string;
  readonly recordDir: string;
  readonly stateDir: string;
  readonly caDir: string;
  readonly deleteQueueDir: string;
  readonly netnsPinDir: string;
  readonly nodeName: string;
  readonly clusterName: string;
  readonly region: string;
  readonly zone: string;
  /** Undefined: the host has no default route and none was given. */
  readonly hostIp: IpAddress | undefined;
  readonly meshDomain: string;
  readonly captureRedirectAllDefault: boolean;
  readonly servicesFile: string | undefined;
  readonly vipRanges: readonly IpRange[];
  readonly identity: 'embedded' | 'none';
  readonly certificateLifetimeMs: number;
  /** Undefined: off. */
  readonly kubeletPodsDir: string | undefined;
  /** Empty: off. */
  readonly meshDns: readonly SocketAddress[];
  /** Empty: those of /etc/resolv.conf. */
  readonly dnsUpstreams: readonly SocketAddress[];
  readonly captureForm: 'split' | 'single';
  readonly serviceScope: 'all' | 'demand';
  readonly onDemandTcp: boolean;
  readonly logLevel: LogLevel;
  /** Undefined: off. */
  readonly accessLog: AccessLogSettings | undefined;
}

/** What the host itself says, for defaults. */
export interface HostFacts {
  readonly hostname: string;
  readonly hostIp: IpAddress | undefined;
}

/** Ranges of service addresses that `--vip-cidr` stands at. */
export const DEFAULT_RANGES: readonly string[] = ['10.254.0.0/16', 'fd0a:e7e0::/112'];
const DOMAIN = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;
const SUN_PATH_MAX = 107;

/** Reads all settings. All problems are collected, each under the name of where it was given. */
export function parseAgentSettings(sources: SettingSources, host: HostFacts): Parsed<AgentSettings> {
  const list = new ProblemList();
  const read = new SettingReader(collectSettings(AGENT_SETTINGS, sources, list), list);
  refuseUnbuilt(read);
  const recordDir = read.path('record-dir', DEFAULT_RECORD_DIR);
  const stateDir = read.path('state-dir', dirname(recordDir));
  const hostIp = read.hostIp(host.hostIp);
  const settings: AgentSettings = {
    cniSocket: read.socket('cni-socket', DEFAULT_CNI_SOCKET),
    relaySocket: read.socket('relay-socket', DEFAULT_RELAY_SOCKET),
    xdsSocket: read.socket('xds-socket', DEFAULT_XDS_SOCKET),
    xdsSocketMode: read.mode('xds-socket-mode', 0o600),
    adminSocket: read.socket('admin-socket', DEFAULT_ADMIN_SOCKET),
    healthSocket: read.socket('health-socket', DEFAULT_HEALTH_SOCKET),
    recordDir,
    stateDir,
    caDir: read.path('ca-dir', join(stateDir, 'ca')),
    deleteQueueDir: read.path('delete-queue-dir', join(stateDir, 'delete-queue')),
    netnsPinDir: read.path('netns-pin-dir', DEFAULT_PIN_DIR),
    nodeName: read.text('node-name', host.hostname),
    clusterName: read.text('cluster-name', 'local'),
    region: read.text('region', ''),
    zone: read.text('zone', ''),
    hostIp,
    meshDomain: read.domain('mesh-domain', DEFAULT_MESH_DOMAIN),
    captureRedirectAllDefault: read.boolean('capture-redirect-all-default'),
    servicesFile: read.has('services') ? read.path('services', '') : undefined,
    vipRanges: read.ranges('vip-cidr', DEFAULT_RANGES),
    identity: read.choice('identity', ['embedded', 'none'], ['files', 'spire']),
    certificateLifetimeMs: read.seconds('certificate-lifetime', 86_400) * 1000,
    kubeletPodsDir: read.pathOrOff('kubelet-pods-dir', DEFAULT_KUBELET_PODS_DIR),
    meshDns: read.meshDns(hostIp),
    dnsUpstreams: read.addresses('dns-upstream', 53),
    captureForm: read.choice('capture-form', ['split', 'single']),
    serviceScope: read.choice('service-scope', ['all', 'demand']),
    onDemandTcp: read.boolean('on-demand-tcp'),
    logLevel: read.choice('log-level', ['info', 'debug', 'warn', 'error']),
    accessLog: read.accessLog(),
  };
  return list.finish(() => settings);
}

// A setting that is taken and does nothing would be believed: what is not built is refused by name.
function refuseUnbuilt(read: SettingReader): void {
  read.choice('pod-source', ['cni'], ['kubernetes']);
  read.choice('registry', ['embedded'], ['etcd', 'kubernetes', 'registrar']);
  read.choice('metrics', ['off'], 'any');
  read.choice('page', ['off'], 'any');
  for (const name of ['registrar', 'repair']) read.refuse(name);
}

class SettingReader {
  readonly #texts: SettingTexts;
  readonly #list: ProblemList;

  constructor(texts: SettingTexts, list: ProblemList) {
    this.#texts = texts;
    this.#list = list;
  }

  has(name: string): boolean {
    return this.#texts.has(name);
  }

  text(name: string, fallback: string): string {
    const given = this.#texts.get(name);
    const [text = ''] = given?.texts ?? [fallback];
    if (given !== undefined && given.texts.length > 1) this.#list.add(given.path, 'may be given only once');
    return text;
  }

  path(name: string, fallback: string): string {
    const text = this.text(name, fallback);
    if (!isAbsolute(text) || text.includes('\u0000')) this.#wrong(name, 'an absolute path', text);
    else if (isRoot(text)) this.#wrong(name, 'something below the root directory', text);
    return text;
  }

  pathOrOff(name: string, fallback: string): string | undefined {
    return this.text(name, fallback) === 'off' ? undefined : this.path(name, fallback);
  }

  socket(name: string, fallback: string): string {
    const path = this.path(name, fallback);
    if (Buffer.byteLength(path) > SUN_PATH_MAX) this.#wrong(name, `a path of ${SUN_PATH_MAX} bytes at most`, path);
    return path;
  }

  mode(name: string, fallback: number): number {
    const text = this.text(name, fallback.toString(8));
    if (!/^0?[0-7]{3}$/.test(text)) this.#wrong(name, 'permissions in octal, such as 0660', text);
    return Number.parseInt(text, 8);
  }

  /** From 10 seconds to a year. */
  seconds(name: string, fallback: number): number {
    const text = this.text(name, String(fallback));
    const seconds = /^[0-9]{1,8}$/.test(text) ? Number(text) : 0;
    if (seconds < 10 || seconds > 31_536_000) this.#wrong(name, 'a number of seconds from 10 to 31536000', text);
    return seconds;
  }

  domain(name: string, fallback: string): string {
    const text = this.text(name, fallback);
    if (!DOMAIN.test(text) || text.length > 200) this.#wrong(name, 'a domain in lower case', text);
    return text;
  }

  boolean(name: string): boolean {
    const text = this.text(name, 'false');
    if (text !== 'true' && text !== 'false') this.#wrong(name, 'true or false', text);
    return text === 'true';
  }

  /** The first of `choices` is the default. `later`: words that are known but not built; `any`: every other text is. */
  choice<T extends string>(name: string, choices: readonly [T, ...T[]], later: readonly string[] | 'any' = []): T {
    const text = this.text(name, choices[0]);
    const found = choices.find((choice) => choice === text);
    if (found !== undefined) return found;
    const isLater = later === 'any' || later.includes(text);
    if (isLater)
      this.#list.add(this.#pathOf(name), `${quoteValue(text)} is not implemented yet; use ${choices.join(' or ')}`);
    else this.#wrong(name, `one of ${choices.join(', ')}`, text);
    return choices[0];
  }

  refuse(name: string): void {
    const given = this.#texts.get(name);
    if (given === undefined || given.texts.join() === 'false') return;
    this.#list.add(given.path, 'is not implemented yet');
  }

  hostIp(fallback: IpAddress | undefined): IpAddress | undefined {
    if (!this.has('host-ip')) return fallback;
    const text = this.text('host-ip', '');
    const ip = parseIp(text);
    if (ip === undefined) this.#wrong('host-ip', 'an IP address', text);
    return ip;
  }

  accessLog(): AccessLogSettings | undefined {
    const text = this.text('access-log', 'off');
    const sink = parseAccessLog(text);
    if (sink === undefined) this.#wrong('access-log', ACCESS_LOG_FORMS, text);
    const percent = this.text('access-log-sample', '100');
    const successPercent = /^[0-9]{1,3}(\.[0-9]{1,2})?$/.test(percent) ? Number(percent) : Number.NaN;
    if (!(successPercent <= 100)) this.#wrong('access-log-sample', 'from 0 to 100, with two decimals at most', percent);
    return sink === undefined || sink === 'off' ? undefined : { sink, successPercent };
  }

  addresses(name: string, defaultPort?: number): readonly SocketAddress[] {
    return (this.#texts.get(name)?.texts ?? []).flatMap((text) => {
      const address = parseSocketAddress(text, defaultPort);
      if (address === undefined) this.#wrong(name, 'like 10.0.0.1:53 or [fd00::1]:53', text);
      return address ?? [];
    });
  }

  meshDns(hostIp: IpAddress | undefined): readonly SocketAddress[] {
    const texts = this.#texts.get('mesh-dns')?.texts;
    if (texts?.join() === 'off') return [];
    if (texts !== undefined) return this.addresses('mesh-dns');
    if (hostIp !== undefined) return [{ address: hostIp, port: MESH_DNS_PORT }];
    if (!this.has('host-ip'))
      this.#list.add('--host-ip', 'is needed for mesh DNS: the host has no default route; or use --mesh-dns off');
    return [];
  }

  ranges(name: string, fallback: readonly string[]): readonly IpRange[] {
    const ranges: IpRange[] = [];
    for (const text of this.#texts.get(name)?.texts ?? fallback) {
      const range = parseIpRange(text);
      if (range === undefined) this.#wrong(name, 'a range such as 10.254.0.0/16', text);
      else if (countVips(range) === 0n) this.#wrong(name, 'a range of at least 4 addresses', text);
      else if (ranges.some(({ family }) => family === range.family)) {
        this.#list.add(
          this.#pathOf(name),
          `one range of a family only: ${range.text} is a second of IPv${range.family}`,
        );
      } else ranges.push(range);
    }
    return ranges;
  }

  #wrong(name: string, wanted: string, text: string): void {
    this.#list.add(this.#pathOf(name), `must be ${wanted}, got ${quoteValue(text)}`);
  }

  #pathOf(name: string): string {
    return this.#texts.get(name)?.path ?? `--${name}`;
  }
}
