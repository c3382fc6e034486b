// The one parser of a workload's port annotations: which ports it serves, and in which protocol each. Registration,
// inbound chains, the liveness probe and the tool all read its result; nobody else looks at these annotations.
// Grammar: proposal 037 (b), with the corners that it leaves open decided in contract §2.
import { Buffer } from 'node:buffer';
import { compareNumbers } from '../core/compare.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import {
  ANNOTATION_PORT,
  ANNOTATION_PORTS,
  ANNOTATION_PROTOCOL,
  DEFAULT_APP_PORT,
  RESERVED_TCP_PORTS,
  TCP_MESH_PORT,
} from './constants.ts';

export type Protocol = 'http' | 'tcp';
/** How the loopback hop to an HTTP application speaks. */
export type HttpCodec = 'h1' | 'h2';

/** One port that a workload serves. gRPC is HTTP with codec h2. */
export type ServedPort =
  | { readonly port: number; readonly protocol: 'http'; readonly codec: HttpCodec }
  | { readonly port: number; readonly protocol: 'tcp' };

/** `served` is ascending by port, without duplicates, and always holds `primary`. */
export interface WorkloadPorts {
  readonly primary: number;
  readonly served: readonly ServedPort[];
}

type Annotations = Readonly<Record<string, string>>;
type PortClass = 'h1' | 'h2' | 'tcp';

const CLASS_OF_SUFFIX: ReadonlyMap<string, PortClass> = new Map([
  ['h1', 'h1'],
  ['h2', 'h2'],
  ['http2', 'h2'],
  ['grpc', 'h2'],
  ['tcp', 'tcp'],
]);

/**
 * Reads `port`, `ports` and `protocol`. All problems are collected; a warning names what is legal but surprising
 * (port 80 typed TCP takes the service's `http://` spelling) or cannot work (HTTP on a port of the mesh).
 */
export function parseWorkloadPorts(annotations: Annotations): Parsed<WorkloadPorts> {
  const protocol = annotations[ANNOTATION_PROTOCOL];
  const port = annotations[ANNOTATION_PORT];
  const ports = annotations[ANNOTATION_PORTS];
  for (const kind of kinds) {
    if (kind.ports === ports && kind.port === port && kind.protocol === protocol) return kind.parsed;
  }
  const parsed = parsePorts(annotations);
  kinds.unshift({ protocol: copy(protocol), port: copy(port), ports: copy(ports), parsed });
  kinds.splice(KINDS_MAX);
  return parsed;
}

// A part of a longer text would hold on to all of it.
function copy(text: string | undefined): string | undefined {
  return text === undefined ? undefined : Buffer.from(text).toString();
}

interface Kind {
  readonly protocol: string | undefined;
  readonly port: string | undefined;
  readonly ports: string | undefined;
  readonly parsed: Parsed<WorkloadPorts>;
}

/** Pods of one kind have the same ports. The newest first; compared one by one, since a map that rested is slow. */
const kinds: Kind[] = [];
const KINDS_MAX = 32;

function parsePorts(annotations: Annotations): Parsed<WorkloadPorts> {
  const list = new ProblemList();
  const fallback = parsePodProtocol(annotations[ANNOTATION_PROTOCOL], list);
  const primaryText = annotations[ANNOTATION_PORT];
  const primary = primaryText === undefined ? DEFAULT_APP_PORT : parsePort(primaryText.trim(), ANNOTATION_PORT, list);
  const classes = parsePortList(annotations[ANNOTATION_PORTS], fallback, list);
  if (primary !== undefined && !classes.has(primary)) {
    checkTypable(primary, fallback, ANNOTATION_PORT, list);
    classes.set(primary, fallback);
  }
  return list.finish(() => ({
    primary: primary ?? DEFAULT_APP_PORT,
    served: [...classes].sort(([a], [b]) => compareNumbers(a, b)).map(([port, portClass]) => served(port, portClass)),
  }));
}

/** The protocol of one of the workload's ports; undefined for a port that it does not serve. */
export function findProtocol(ports: WorkloadPorts, port: number): Protocol | undefined {
  return ports.served.find((entry) => entry.port === port)?.protocol;
}

/** The distinct protocols that a workload serves, HTTP first: it is registered once under each. */
export function listProtocols(ports: WorkloadPorts): readonly Protocol[] {
  return (['http', 'tcp'] as const).filter((protocol) => ports.served.some((entry) => entry.protocol === protocol));
}

function parsePodProtocol(text: string | undefined, list: ProblemList): PortClass {
  if (text === undefined || text === '' || text === 'http') return 'h1';
  if (text === 'tcp') return 'tcp';
  list.add(ANNOTATION_PROTOCOL, `must be "http" or "tcp", got ${quoteValue(text)}`);
  return 'h1';
}

function parsePortList(text: string | undefined, fallback: PortClass, list: ProblemList): Map<number, PortClass> {
  const classes = new Map<number, PortClass>();
  for (const [index, raw] of (text ?? '').split(',').entries()) {
    const item = raw.trim();
    if (item === '') continue;
    const path = `${ANNOTATION_PORTS}[${index}]`;
    const equals = item.indexOf('=');
    const port = parsePort((equals < 0 ? item : item.slice(0, equals)).trim(), path, list);
    const portClass = equals < 0 ? fallback : parseSuffix(item.slice(equals + 1).trim(), path, list);
    if (port === undefined || portClass === undefined) continue;
    const earlier = classes.get(port);
    if (earlier !== undefined && earlier !== portClass) {
      list.add(path, `port ${port} is listed twice, as ${earlier} and as ${portClass}; give it one protocol`);
      continue;
    }
    if (earlier === undefined) checkTypable(port, portClass, path, list);
    classes.set(port, portClass);
  }
  return classes;
}

function parsePort(text: string, path: string, list: ProblemList): number | undefined {
  if (/^[0-9]{1,6}$/.test(text)) {
    const port = Number(text);
    if (port >= 1 && port <= 65535) return port;
  }
  list.add(path, `must be a port from 1 to 65535, got ${quoteValue(text)}`);
  return undefined;
}

function parseSuffix(text: string, path: string, list: ProblemList): PortClass | undefined {
  const portClass = CLASS_OF_SUFFIX.get(text.toLowerCase());
  if (portClass === undefined) {
    const what = text === '' ? 'the suffix after "=" is empty' : `unknown suffix ${quoteValue(text)}`;
    list.add(path, `${what}; use one of ${[...CLASS_OF_SUFFIX.keys()].join(', ')}`);
  }
  return portClass;
}

function checkTypable(port: number, portClass: PortClass, path: string, list: ProblemList): void {
  const isReserved = RESERVED_TCP_PORTS.has(port);
  if (portClass !== 'tcp') {
    if (isReserved) list.warn(path, `port ${port} is the mesh's own: ${explainReserved(port)}`);
    return;
  }
  if (isReserved) list.add(path, `port ${port} is reserved by the mesh and cannot be typed tcp`);
  if (port === 80) list.warn(path, 'port 80 typed tcp takes the http:// spelling of this service as raw bytes');
}

function explainReserved(port: number): string {
  if (port === TCP_MESH_PORT) return 'no client can spell it, as it means the TCP port of a service';
  return 'Envoy listens there in every pod, so one of it and the application cannot';
}

/** Whether a port has its own `=tcp`, which agents from before there was one take for HTTP. */
export function hasTcpSuffix(annotations: Annotations): boolean {
  return (annotations[ANNOTATION_PORTS] ?? '').split(',').some((item) => /=\s*tcp\s*$/i.test(item));
}

function served(port: number, portClass: PortClass): ServedPort {
  return portClass === 'tcp' ? { port, protocol: 'tcp' } : { port, protocol: 'http', codec: portClass };
}
