// A service as its endpoints make it: typed ports, defaults, buckets. Everything about a service that Envoy or the
// kernel is told is read off this value, so nothing can be told that has no endpoints behind it.
import { compareNumbers, compareText } from '../core/compare.ts';
import { compareIps, type IpAddress } from '../core/ip.ts';
import { RESERVED_TCP_PORTS } from './constants.ts';
import { type Endpoint, isServing, listPorts, protocolOf } from './endpoint.ts';
import { type ServiceKey, serviceFqdn } from './names.ts';
import type { Protocol } from './port-protocols.ts';

/** The two listings of one service. An endpoint with ports of both protocols stands in both. */
export interface ServiceListing {
  readonly http: readonly Endpoint[];
  readonly tcp: readonly Endpoint[];
}

/** One typed port of a service and the endpoints that serve it as that protocol, sorted by address. */
export interface PortBucket {
  readonly port: number;
  readonly endpoints: readonly Endpoint[];
  /**
   * Server name on the mesh hop: the port in decimal; empty where the destination's floor already leads to it
   * (every endpoint of a TCP bucket has this port as its primary).
   */
  readonly serverName: string;
}

/** Buckets are ascending by port and never empty. `vips` is sorted. */
export interface ServiceView {
  readonly key: ServiceKey;
  readonly fqdn: string;
  readonly vips: readonly IpAddress[];
  readonly http: readonly PortBucket[];
  readonly tcp: readonly PortBucket[];
  /** The bucket behind `<fqdn>`; undefined: the service has no HTTP port. */
  readonly httpDefault: PortBucket | undefined;
  /** Whether all pods agree on that: else it may become another while clients are at work. */
  readonly isHttpAgreed: boolean;
  /** The bucket behind the TCP mesh port; undefined: the service has no TCP port. */
  readonly tcpDefault: PortBucket | undefined;
  /** Whether any endpoint is known at all: without one a missing protocol means nothing. */
  readonly hasEndpoints: boolean;
  /** Namespaces found in its endpoints, sorted: each gives one SPIFFE id that a server of it may have. */
  readonly endpointNamespaces: readonly string[];
}

/** Builds the view. Order-independent: the same endpoints in any order give the same value. */
export function buildServiceView(
  key: ServiceKey,
  listing: ServiceListing,
  options: { readonly domain: string; readonly vips: readonly IpAddress[] },
): ServiceView {
  const ports = sortPorts(listing);
  const all = [...listing.http, ...listing.tcp];
  return {
    key,
    fqdn: serviceFqdn(key, options.domain),
    vips: [...options.vips].sort(compareIps),
    ...ports,
    isHttpAgreed: isAgreed(ports.http, ports.httpDefault),
    hasEndpoints: all.length > 0,
    endpointNamespaces: [...new Set(all.map((endpoint) => endpoint.namespace))].sort(compareText),
  };
}

/** The typed ports of a service and their defaults. */
export type SortedPorts = Pick<ServiceView, 'http' | 'tcp' | 'httpDefault' | 'tcpDefault'>;

/** What the endpoints make of the ports, whoever they are told to. */
export function sortPorts(listing: ServiceListing): SortedPorts {
  const http = buildBuckets(listing.http, 'http');
  const tcp = buildBuckets(listing.tcp, 'tcp').filter((bucket) => !isEarly(bucket, http));
  return {
    http,
    tcp,
    httpDefault: findDefault(http, listing.http, 'http'),
    tcpDefault: findDefault(tcp, listing.tcp, 'tcp'),
  };
}

/** Whether the service takes any port of its address as TCP (the any-port shim): it has TCP ports and no HTTP. */
export function isPureTcp(view: ServiceView): boolean {
  return view.tcpDefault !== undefined && view.httpDefault === undefined;
}

function buildBuckets(endpoints: readonly Endpoint[], protocol: Protocol): readonly PortBucket[] {
  const byPort = new Map<number, Endpoint[]>();
  for (const endpoint of [...endpoints].sort((a, b) => compareText(a.ip, b.ip))) {
    for (const port of listPorts(endpoint)) {
      if (protocolOf(endpoint, port, protocol) !== protocol) continue;
      if (protocol === 'tcp' && RESERVED_TCP_PORTS.has(port)) continue;
      const bucket = byPort.get(port);
      if (bucket === undefined) byPort.set(port, [endpoint]);
      else bucket.push(endpoint);
    }
  }
  return [...byPort]
    .sort(([a], [b]) => compareNumbers(a, b))
    .map(([port, members]) => (protocol === 'http' ? httpBucket(port, members) : tcpBucket(port, members)))
    .filter((bucket) => bucket.endpoints.length > 0);
}

// A port that becomes TCP in a rollout: to a client its number is TCP for all of the service, so it stays HTTP until a pod
// that serves it as TCP is there to answer.
function isEarly({ port, endpoints }: PortBucket, http: readonly PortBucket[]): boolean {
  const before = http.find((bucket) => bucket.port === port);
  return before?.endpoints.some(isServing) === true && !endpoints.some(isServing);
}

function httpBucket(port: number, endpoints: readonly Endpoint[]): PortBucket {
  return { port, endpoints, serverName: String(port) };
}

// With a server name the hop needs the destination's per-port TCP chain. An endpoint without typed ports was written
// before there were such chains: its inbound would take the name for an HTTP port, so it may not be in the bucket. While
// only such endpoints can answer, theirs is the form without a name.
function tcpBucket(port: number, endpoints: readonly Endpoint[]): PortBucket {
  const floor = endpoints.filter((endpoint) => endpoint.port === port);
  const typed = endpoints.filter((endpoint) => endpoint.portProtocols.size > 0);
  const isFloor = floor.length === endpoints.length || (floor.some(isServing) && !typed.some(isServing));
  return isFloor ? { port, endpoints: floor, serverName: '' } : { port, endpoints: typed, serverName: String(port) };
}

// One primary, and everybody serves the default: no pod that comes, goes or falls ill changes it.
function isAgreed(buckets: readonly PortBucket[], chosen: PortBucket | undefined): boolean {
  const endpoints = new Set(buckets.flatMap((bucket) => bucket.endpoints));
  return (
    endpoints.size === (chosen?.endpoints.length ?? 0) && new Set([...endpoints].map(({ port }) => port)).size <= 1
  );
}

// The port that most endpoints name as primary (ties: the lowest) out of those whose primary is of this protocol;
// where none is, the lowest port of the protocol. One that nobody can answer on is behind all others: in a rollout that
// changes the primary the new one waits for its first pod.
function findDefault(
  buckets: readonly PortBucket[],
  endpoints: readonly Endpoint[],
  protocol: Protocol,
): PortBucket | undefined {
  const votes = new Map<number, number>();
  for (const endpoint of endpoints) {
    if (protocolOf(endpoint, endpoint.port, protocol) !== protocol) continue;
    votes.set(endpoint.port, (votes.get(endpoint.port) ?? 0) + 1);
  }
  const isUp = ({ endpoints: members }: PortBucket): number => Number(members.some(isServing));
  const ranked = [...buckets].sort(
    (a, b) =>
      isUp(b) - isUp(a) || (votes.get(b.port) ?? 0) - (votes.get(a.port) ?? 0) || compareNumbers(a.port, b.port),
  );
  return ranked[0];
}
