// A pod as the mesh sees it: who it is, which ports it serves, how it registers. Parsed once from its record; after
// that no annotation is read again.
import { isDnsLabel, isDnsName } from '../core/identifiers.ts';
import type { IpAddress } from '../core/ip.ts';
import { parseIp } from '../core/ip.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import {
  ANNOTATION_HEALTH_CHECK_MODE,
  ANNOTATION_HEALTH_PATH,
  ANNOTATION_METADATA_PREFIX,
  ANNOTATION_SERVICE_ACCOUNT,
  ANNOTATION_UDS_SOCKET,
  ANNOTATION_UPSTREAMS,
  ANNOTATION_WEIGHT,
  DEFAULT_WEIGHT,
} from './constants.ts';
import type { HealthCheckMode } from './endpoint.ts';
import { parseServiceKey, type ServiceKey } from './names.ts';
import { parseWorkloadPorts, type WorkloadPorts } from './port-protocols.ts';
import { parseUdsSocket, type UdsSocket } from './uds-socket.ts';

/** What is stored of a pod (aether.cni.v1.CNIPod). Labels and service account come from the pod source. */
export interface PodRecord {
  readonly name: string;
  readonly namespace: string;
  /** Path of the pod's namespace, the pin where one was made. */
  readonly networkNamespace: string;
  readonly containerId: string;
  readonly ips: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly serviceAccount: string;
  readonly terminating: boolean;
  readonly uid: string;
}

/**
 * The first of `ips` is the one that is registered; none: it came without an address (DHCP, plain layer 2), and only dials.
 * `upstreams` is sorted, without duplicates.
 */
export interface Workload {
  readonly record: PodRecord;
  readonly service: ServiceKey;
  readonly ips: readonly IpAddress[];
  readonly ports: WorkloadPorts;
  readonly weight: number;
  readonly healthCheckMode: HealthCheckMode;
  readonly healthPath: string;
  /** Undefined: the application listens on its ports. */
  readonly udsSocket: UdsSocket | undefined;
  /** Endpoint metadata: annotations `metadata.endpoint.aether.io/<k>`. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly upstreams: readonly ServiceKey[];
}

/** Metadata keys that choose endpoints or sockets; an author who could set them could attract pinned traffic. */
const RESERVED_METADATA: ReadonlySet<string> = new Set(['ip', 'pod', 'cluster', 'namespace', 'waypoint']);

/** Reads a record completely: nothing about the pod is stored or registered before this succeeded. */
export function parseWorkload(record: PodRecord): Parsed<Workload> {
  const list = new ProblemList();
  checkNames(record, list);
  const ports = list.take(parseWorkloadPorts(record.annotations));
  const ips = parseIps(record.ips, list);
  const weight = parseWeight(record.annotations[ANNOTATION_WEIGHT], list);
  const metadata = parseMetadata(record.annotations, list);
  const upstreams = parseUpstreams(record, list);
  const healthCheckMode = parseHealthCheckMode(record.annotations[ANNOTATION_HEALTH_CHECK_MODE], list);
  const healthPath = parseHealthPath(record.annotations[ANNOTATION_HEALTH_PATH], list);
  const udsSocket = parseUdsSocket(record.annotations[ANNOTATION_UDS_SOCKET], list);
  if (ports === undefined) return list.finish(unreachable);
  return list.finish(() => ({
    record,
    service: { namespace: record.namespace, serviceAccount: record.serviceAccount },
    ips,
    ports,
    weight,
    healthCheckMode,
    healthPath,
    udsSocket,
    metadata,
    upstreams,
  }));
}

function unreachable(): never {
  throw new TypeError('a part is missing but no problem was recorded');
}

// Names reach resource names, SPIFFE ids and host names: only what Kubernetes itself allows.
function checkNames(record: PodRecord, list: ProblemList): void {
  if (!isDnsLabel(record.namespace)) {
    list.add('namespace', `must be a DNS label, got ${quoteValue(record.namespace)}`);
  }
  if (!isDnsName(record.name)) list.add('name', `must be a DNS name, got ${quoteValue(record.name)}`);
  if (!isDnsLabel(record.serviceAccount)) {
    // In the words of whoever chose it: an annotation, where that is what the pod source goes by.
    const isAnnotated = record.annotations[ANNOTATION_SERVICE_ACCOUNT] === record.serviceAccount;
    const path = isAnnotated ? ANNOTATION_SERVICE_ACCOUNT : 'serviceAccount';
    list.add(path, `must be a DNS label to be a service name, got ${quoteValue(record.serviceAccount)}`);
  }
}

function parseIps(texts: readonly string[], list: ProblemList): Workload['ips'] {
  if (texts.length === 0)
    list.warn('ips', 'the pod has no address: what it dials is captured, but nobody is sent to it');
  const ips: IpAddress[] = [];
  for (const [index, text] of texts.entries()) {
    const ip = parseIp(text);
    if (ip !== undefined) ips.push(ip);
    else list.add(`ips[${index}]`, `must be an IP address, got ${quoteValue(text)}`);
  }
  return ips;
}

function parseWeight(text: string | undefined, list: ProblemList): number {
  if (text === undefined) return DEFAULT_WEIGHT;
  const weight = /^[0-9]{1,10}$/.test(text.trim()) ? Number(text) : -1;
  // Envoy's load_balancing_weight starts at 1; the sum over a locality must fit 32 bits.
  if (weight >= 1 && weight <= 0xffff_ffff) return weight;
  list.add(ANNOTATION_WEIGHT, `must be a number from 1 to 4294967295, got ${quoteValue(text)}`);
  return DEFAULT_WEIGHT;
}

function parseMetadata(annotations: PodRecord['annotations'], list: ProblemList): Record<string, string> {
  const metadata: Record<string, string> = {};
  for (const name of Object.keys(annotations)) {
    const value = annotations[name];
    if (value === undefined || !name.startsWith(ANNOTATION_METADATA_PREFIX)) continue;
    const key = name.slice(ANNOTATION_METADATA_PREFIX.length);
    if (key === '') list.add(name, 'the metadata key after "/" is empty');
    else if (RESERVED_METADATA.has(key)) list.add(name, `the metadata key "${key}" is reserved by the mesh`);
    else metadata[key] = value;
  }
  return metadata;
}

// `<ns>/<sa>` names a service; a bare name is one of the pod's own namespace. A dot is neither: refuse, not guess.
function parseUpstreams(record: PodRecord, list: ProblemList): readonly ServiceKey[] {
  const text = record.annotations[ANNOTATION_UPSTREAMS] ?? '';
  if (text === '') return [];
  const keys = new Map<string, ServiceKey>();
  for (const [index, raw] of text.split(',').entries()) {
    const item = raw.trim();
    if (item === '') continue;
    const key = parseServiceKey(item.includes('/') ? item : `${record.namespace}/${item}`);
    if (key === undefined || !isDnsLabel(key.namespace) || !isDnsLabel(key.serviceAccount)) {
      list.add(
        `${ANNOTATION_UPSTREAMS}[${index}]`,
        `must be "service" or "namespace/service", got ${quoteValue(item)}`,
      );
    } else keys.set(`${key.namespace}/${key.serviceAccount}`, key);
  }
  return [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key);
}

// As the Go mesh: whatever is not "active" is "eds".
function parseHealthCheckMode(text: string | undefined, list: ProblemList): HealthCheckMode {
  if (text === 'active') return text;
  if (text !== undefined && text !== 'eds') {
    list.warn(ANNOTATION_HEALTH_CHECK_MODE, `must be "active" or "eds", got ${quoteValue(text)}; "eds" it is`);
  }
  return 'eds';
}

function parseHealthPath(text: string | undefined, list: ProblemList): string {
  if (text === undefined) return '/';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a control character would split the request line
  if (text.startsWith('/') && !/[\u0000-\u0020\u007f]/.test(text)) return text;
  list.add(ANNOTATION_HEALTH_PATH, `must start with "/" and hold no blanks, got ${quoteValue(text)}`);
  return '/';
}
