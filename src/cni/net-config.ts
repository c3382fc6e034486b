// The plugin's network configuration: stdin of every verb but VERSION, keys in README "Network configuration". Reading
// never stops at the first problem, and always gives a usable value (defaults stand in for what is wrong), because DEL
// must go on with whatever it gets; ADD refuses a configuration with problems.
import { Buffer } from 'node:buffer';
import {
  DEFAULT_ADMIN_SOCKET,
  DEFAULT_CNI_SOCKET,
  DEFAULT_DELETE_QUEUE_DIR,
  DEFAULT_PIN_DIR,
  DEFAULT_PLUGIN_LOG,
} from '../core/default-paths.ts';
import { DecodeError, InputError } from '../core/errors.ts';
import { isNetworkName, isRoot, parseContainerId } from '../core/identifiers.ts';
import { type IpAddress, parseIp } from '../core/ip.ts';
import { type Problem, ProblemList, quoteValue } from '../core/problems.ts';
import { CONFIG_MAX_BYTES } from './config-limit.ts';
import type { Verb } from './environment.ts';
import { type JsonNode, type JsonObject, parseJson } from './json.ts';
import { mustBe, type NamedValue, ObjectReader } from './object-reader.ts';
import { type PrevResult, parsePrevResult } from './result.ts';
import { type CniVersion, parseVersion } from './versions.ts';

export const PROXY_READY_CHOICES = ['wait', 'require', 'skip'] as const;
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** One entry of `cni.dev/valid-attachments`. */
export interface ValidAttachment {
  readonly containerId: string;
  readonly ifname: string;
}

/** All defaults are filled in. Paths are absolute. */
export interface NetConfig {
  /** Name of the network; '' where DEL was given none. */
  readonly name: string;
  readonly agentSocket: string;
  readonly adminSocket: string;
  readonly agentTimeoutMs: number;
  readonly proxyReady: (typeof PROXY_READY_CHOICES)[number];
  readonly pinDisabled: boolean;
  readonly pinDir: string;
  readonly deleteQueueDir: string;
  /** How long a pin stays after DEL; 0: not at all. */
  readonly unpinDelaySeconds: number;
  readonly redirectAllDefault: boolean;
  /** Comma lists in the grammar of the pod's annotations; '' is none. */
  readonly excludePorts: string;
  readonly excludeRanges: string;
  readonly meshDnsEnabled: boolean;
  readonly hostIp?: IpAddress;
  /** Lower case. */
  readonly excludedNamespaces: ReadonlySet<string>;
  readonly agentPod: { readonly namespace: string; readonly namePrefix: string };
  readonly logLevel: LogLevel;
  readonly logFile: string;
  readonly podAnnotations: Readonly<Record<string, string>>;
  /** Absent: not given, null, or unreadable. */
  readonly prevResult?: PrevResult;
  /** Absent: the runtime gave no list (an empty one means that it has no attachment left). */
  readonly validAttachments?: readonly ValidAttachment[];
}

/** A configuration as text and as a tree whose offsets point into the text. */
export interface ConfigSource {
  readonly text: string;
  readonly root: JsonObject;
}

export interface NetConfigReading {
  readonly config: NetConfig;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** What an error says was read. */
export const NET_CONFIG = 'the network configuration';
// sockaddr_un.sun_path is 108 bytes with its NUL (linux/un.h).
const SOCKET_PATH_MAX = 107;
const PATH_MAX = 4095;
/** What the runtime adds, call by call. */
export const RUNTIME_KEYS: ReadonlySet<string> = new Set([
  'cni.dev/attachments',
  'cni.dev/valid-attachments',
  'prevResult',
  'runtimeConfig',
]);
const ANNOTATIONS_KEY = 'io.kubernetes.cri.pod-annotations';
const IGNORED_NAMESPACES = ['kube-system', 'aether-system', 'spire-mgmt', 'spire-server', 'spire-system'];
// Keys of the specification and of libcni, which every plugin is given; and of the Go mesh that mean nothing here.
const FOREIGN_KEYS: ReadonlySet<string> = new Set([
  'args',
  'capabilities',
  'cniVersions',
  'disableCheck',
  'disableGC',
  'dns',
  'ipMasq',
  'ipam',
  'loadOnlyInlinedPlugins',
  'type',
]);

/** Throws DecodeError for what is no JSON object in UTF-8. */
export function decodeNetConfig(bytes: Uint8Array): ConfigSource {
  return parseNetConfig(decodeConfigText(bytes));
}

/** Throws DecodeError for what is no JSON object. */
export function parseNetConfig(text: string): ConfigSource {
  const root = parseJson(text, NET_CONFIG);
  if (root.kind !== 'object') throw new DecodeError(`decoding ${NET_CONFIG}: ${mustBe('object', root)}`);
  return { text, root };
}

/** A text is taken as it is; it must be ASCII. Throws DecodeError for what is no UTF-8, or too long. */
export function decodeConfigText(stdin: string | Uint8Array): string {
  if (stdin.length > CONFIG_MAX_BYTES) {
    throw new DecodeError(`decoding ${NET_CONFIG}: ${stdin.length} bytes, more than ${CONFIG_MAX_BYTES}`);
  }
  return typeof stdin === 'string' ? stdin : decodeUtf8(stdin);
}

// Kept: to make one, or a Buffer over the bytes, costs more than to decode.
let decoder: InstanceType<typeof TextDecoder> | undefined;

// Without a byte order mark, with which some editors begin a file.
function decodeUtf8(bytes: Uint8Array): string {
  decoder ??= new TextDecoder('utf-8', { fatal: true });
  try {
    return decoder.decode(bytes);
  } catch {
    throw new DecodeError(`decoding ${NET_CONFIG}: it is not UTF-8`);
  }
}

/** The version that stands under `cniVersion`, fit for the verb. Throws VersionError, InputError. */
export function parseConfigVersion(value: JsonNode | undefined, verb: Verb): CniVersion {
  if (value === undefined || value.kind === 'null') return parseVersion(undefined, verb);
  if (value.kind === 'string') return parseVersion(value.value, verb);
  throw new InputError(`reading ${NET_CONFIG}`, [{ path: 'cniVersion', message: mustBe('string', value) }]);
}

/** What a configuration without any key means; DEL goes on with it where the text cannot be read. */
export function defaultNetConfig(): NetConfig {
  const root: JsonObject = { kind: 'object', members: [], start: 0, end: 2 };
  return readNetConfig({ text: '{}', root }).config;
}

/** Never throws; a key with a problem has its default in `config`. `standing`: where that was read already. */
export function readNetConfig({ text, root }: ConfigSource, standing = readStandingKeys(root)): NetConfigReading {
  const members = root.members.filter(({ key }) => RUNTIME_KEYS.has(key));
  return addRuntimeKeys(standing, { text, members });
}

/** What the administrator wrote, which is the same in every call. */
export interface StandingReading extends Omit<NetConfigReading, 'config'> {
  readonly config: Omit<NetConfig, 'podAnnotations'>;
}

/** All keys but RUNTIME_KEYS. */
export function readStandingKeys(root: JsonObject): StandingReading {
  return readMembers({ ...root, members: root.members.filter(({ key }) => !RUNTIME_KEYS.has(key)) });
}

/** The members under RUNTIME_KEYS; their offsets point into the text. */
export function addRuntimeKeys(
  standing: StandingReading,
  { text, members }: { readonly text: string; readonly members: readonly NamedValue[] },
): NetConfigReading {
  const list = new ProblemList();
  const reader = new ObjectReader({ members }, { path: '', list });
  return {
    config: { ...standing.config, ...readRuntimeKeys(reader, { text, list }) },
    problems: [...standing.problems, ...list.problems],
    warnings: [...standing.warnings, ...list.warnings],
  };
}

function readMembers(root: JsonObject): StandingReading {
  const list = new ProblemList();
  const reader = new ObjectReader(root, { path: '', list });
  reader.find('cniVersion');
  const config = {
    name: readName(reader, list),
    ...readAgentKeys(reader, list),
    ...readCaptureKeys(reader, list),
    ...readExclusionOfPods(reader),
    ...readFileKeys(reader, list),
  };
  for (const key of ['cri_socket', 'otlp_endpoint']) reader.readString(key);
  reader.warnUnknown((key) => FOREIGN_KEYS.has(key) || key.startsWith('cni.dev/'));
  return { config, problems: list.problems, warnings: list.warnings };
}

function readName(reader: ObjectReader, list: ProblemList): string {
  const node = reader.find('name');
  const name = reader.readString('name') ?? '';
  if (isNetworkName(name)) return name;
  if (node === undefined || (node.kind === 'string' && node.value === '')) {
    list.add('name', 'is required and missing or empty');
  } else if (node.kind === 'string') {
    list.add('name', `must start with a letter or digit and hold only letters, digits, "_", "." and "-"`);
  }
  return '';
}

function readAgentKeys(reader: ObjectReader, list: ProblemList) {
  const skip = reader.readBoolean('readiness_probe_disabled') ?? false;
  const proxyReady = readChoice(reader, 'proxy_ready', { choices: PROXY_READY_CHOICES, list }) ?? 'wait';
  return {
    agentSocket: readPath(reader, 'agent_cni_path', { max: SOCKET_PATH_MAX, list }) ?? DEFAULT_CNI_SOCKET,
    adminSocket: readPath(reader, 'admin_socket', { max: SOCKET_PATH_MAX, list }) ?? DEFAULT_ADMIN_SOCKET,
    agentTimeoutMs: reader.readInteger('agent_timeout_ms', { min: 1, max: 600_000 }) ?? 5000,
    proxyReady: skip ? ('skip' as const) : proxyReady,
  };
}

function readCaptureKeys(reader: ObjectReader, list: ProblemList) {
  const meshDnsEnabled = reader.readBoolean('mesh_dns_enabled') ?? false;
  const hostIpText = reader.readString('host_ip');
  const hostIp = hostIpText === undefined ? undefined : parseIp(hostIpText);
  if (hostIpText !== undefined && hostIp === undefined) {
    list.add('host_ip', `must be an IP address, got ${quoteValue(hostIpText)}`);
  }
  if (meshDnsEnabled && hostIpText === undefined) {
    list.add('host_ip', 'is required with mesh_dns_enabled: the mesh DNS answers there');
  }
  return {
    meshDnsEnabled,
    ...(hostIp === undefined ? {} : { hostIp }),
    redirectAllDefault: reader.readBoolean('capture_redirect_all_default') ?? false,
    excludePorts: readCommaList(reader, 'exclude_outbound_ports', list),
    excludeRanges: readCommaList(reader, 'exclude_outbound_ip_ranges', list),
  };
}

function readExclusionOfPods(reader: ObjectReader) {
  const namespaces = reader.readArray('excluded_namespaces', (item, path) => reader.itemString(item, path));
  const agentPod = reader.readObject('agent_pod');
  const result = {
    excludedNamespaces: new Set((namespaces ?? IGNORED_NAMESPACES).map((name) => name.toLowerCase())),
    agentPod: {
      namespace: agentPod?.readString('namespace') ?? 'aether-system',
      namePrefix: agentPod?.readString('name_prefix') ?? 'aether-agent-',
    },
  };
  agentPod?.warnUnknown(() => false);
  return result;
}

function readFileKeys(reader: ObjectReader, list: ProblemList) {
  const logFile = readPath(reader, 'log_file', { max: PATH_MAX, list });
  // A device or a descriptor may be stdout, which belongs to the result alone.
  if (logFile !== undefined && /^\/+(dev|proc)\//.test(logFile)) {
    list.add('log_file', 'must be a regular file, not one under /dev or /proc');
  }
  return {
    pinDisabled: reader.readBoolean('netns_pin_disabled') ?? false,
    pinDir: readPath(reader, 'netns_pin_dir', { max: PATH_MAX, list }) ?? DEFAULT_PIN_DIR,
    // The Go mesh's key; a negative number is its way to say "no delay".
    unpinDelaySeconds: Math.max(0, reader.readInteger('netns_unpin_delay_seconds', { min: -86_400, max: 86_400 }) ?? 0),
    deleteQueueDir: readPath(reader, 'delete_queue_dir', { max: PATH_MAX, list }) ?? DEFAULT_DELETE_QUEUE_DIR,
    logLevel: readChoice(reader, 'log_level', { choices: LOG_LEVELS, list }) ?? ('info' as const),
    logFile: logFile ?? DEFAULT_PLUGIN_LOG,
  };
}

function readRuntimeKeys(reader: ObjectReader, { text, list }: { readonly text: string; readonly list: ProblemList }) {
  const annotations = reader.readObject('runtimeConfig')?.readObject(ANNOTATIONS_KEY)?.readStrings() ?? {};
  const prevResult = readPrevResult(reader, { text, list });
  const valid = readAttachments(reader, 'cni.dev/valid-attachments', list);
  const attachments = valid ?? readAttachments(reader, 'cni.dev/attachments', list);
  return {
    podAnnotations: annotations,
    ...(prevResult === undefined ? {} : { prevResult }),
    ...(attachments === undefined ? {} : { validAttachments: attachments }),
  };
}

function readPrevResult(
  reader: ObjectReader,
  { text, list }: { readonly text: string; readonly list: ProblemList },
): PrevResult | undefined {
  const node = reader.find('prevResult');
  if (node === undefined) return undefined;
  if (node.kind !== 'object') {
    list.add('prevResult', mustBe('object', node));
    return undefined;
  }
  // An empty object is nobody's result: whoever made an interface says so.
  if (node.members.length === 0) return undefined;
  const parsed = parsePrevResult(text, node);
  if (parsed.kind === 'value') return parsed.value;
  list.addAll(parsed.problems);
  return undefined;
}

function readAttachments(reader: ObjectReader, key: string, list: ProblemList): readonly ValidAttachment[] | undefined {
  return reader.readArray(key, (item, path) => {
    if (item.kind !== 'object') {
      list.add(path, mustBe('object', item));
      return undefined;
    }
    const entry = new ObjectReader(item, { path, list });
    const containerId = entry.readString('containerID');
    const ifname = entry.readString('ifname') ?? '';
    if (containerId !== undefined && typeof parseContainerId(containerId) === 'string') return { containerId, ifname };
    list.add(`${path}.containerID`, 'must be a container id');
    return undefined;
  });
}

function readPath(
  reader: ObjectReader,
  key: string,
  { max, list }: { readonly max: number; readonly list: ProblemList },
): string | undefined {
  const path = reader.readString(key);
  if (path === undefined) return undefined;
  if (!path.startsWith('/')) list.add(key, `must be an absolute path, got ${quoteValue(path)}`);
  else if (isRoot(path)) list.add(key, 'must not be the root directory');
  else if (path.includes('\u0000')) list.add(key, 'must not hold NUL');
  else if (Buffer.byteLength(path) > max) list.add(key, `must be at most ${max} bytes long`);
  else return path;
  return undefined;
}

function readChoice<T extends string>(
  reader: ObjectReader,
  key: string,
  { choices, list }: { readonly choices: readonly T[]; readonly list: ProblemList },
): T | undefined {
  const text = reader.readString(key);
  if (text === undefined) return undefined;
  const choice = choices.find((candidate) => candidate === text);
  if (choice === undefined) list.add(key, `must be one of ${choices.join(', ')}, got ${quoteValue(text)}`);
  return choice;
}

// `"80,8000-8100"` as in the annotation, or `[80, "8000-8100"]`.
function readCommaList(reader: ObjectReader, key: string, list: ProblemList): string {
  const value = reader.find(key);
  if (value === undefined) return '';
  if (value.kind === 'string') return value.value;
  if (value.kind !== 'array') {
    list.add(key, `must be a comma list or an array, got ${value.kind}`);
    return '';
  }
  const texts = reader.readArray(key, (item: JsonNode, path) => {
    if (item.kind === 'string' || item.kind === 'number') return String(item.value);
    list.add(path, `must be a string or a number, got ${item.kind}`);
    return undefined;
  });
  return (texts ?? []).join(',');
}
