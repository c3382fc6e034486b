// Endpoints and service views for tests, made from what a case cares about: addresses and typed ports.
import { type IpAddress, parseIp } from '../../src/core/ip.ts';
import type { Endpoint } from '../../src/mesh/endpoint.ts';
import { parseServiceKey } from '../../src/mesh/names.ts';
import type { Protocol } from '../../src/mesh/port-protocols.ts';
import { buildServiceView, type ServiceListing, type ServiceView } from '../../src/mesh/service-view.ts';

/** `untyped`: written before there were typed ports; it is listed under the protocol of its primary. */
export interface EndpointSpec {
  readonly ip: string;
  readonly primary: number;
  readonly ports: Readonly<Record<string, Protocol>>;
  readonly untyped?: boolean;
  readonly namespace?: string;
}

/** The address; throws on anything else. */
export function makeIp(text: string): IpAddress {
  const ip = parseIp(text);
  if (ip === undefined) throw new TypeError(`not an address: ${text}`);
  return ip;
}

/** A healthy endpoint of node `node-a`. */
export function makeEndpoint(spec: EndpointSpec): Endpoint {
  const typed = Object.entries(spec.ports).map(([port, protocol]) => [Number(port), protocol] as const);
  return {
    ip: spec.ip,
    clusterName: 'test',
    port: spec.primary,
    ports: typed.map(([port]) => port).sort((a, b) => a - b),
    portProtocols: new Map(spec.untyped === true ? [] : typed),
    weight: 1024,
    locality: { region: '', zone: '' },
    metadata: {},
    containerId: `container-${spec.ip}`,
    netnsPath: `/run/aether/netns/container-${spec.ip}`,
    namespace: spec.namespace ?? 'demo',
    podName: `pod-${spec.ip}`,
    nodeName: 'node-a',
    nodeIp: '192.0.2.10',
    health: 'healthy',
    healthCheckMode: 'eds',
  };
}

/** Each endpoint stands in the listing of every protocol that it serves. */
export function makeListing(specs: readonly EndpointSpec[]): ServiceListing {
  const listed = (protocol: Protocol): readonly Endpoint[] =>
    specs.filter((spec) => listProtocolsOf(spec).has(protocol)).map(makeEndpoint);
  return { http: listed('http'), tcp: listed('tcp') };
}

/** The view of `<ns>/<sa>` at the given addresses. */
export function makeView(key: string, vips: readonly string[], specs: readonly EndpointSpec[]): ServiceView {
  const parsed = parseServiceKey(key);
  if (parsed === undefined) throw new TypeError(`not a service key: ${key}`);
  return buildServiceView(parsed, makeListing(specs), { domain: 'aether.internal', vips: vips.map(makeIp) });
}

/** Mixed `shop` (the worked example), pure-TCP `db`, pure-HTTP `web`, and `idle` without endpoints; dual-stack. */
export function exampleServices(): Readonly<Record<'shop' | 'db' | 'web' | 'idle', ServiceView>> {
  const shopPorts = { 5432: 'tcp', 8080: 'http', 9000: 'tcp', 9090: 'http' } as const;
  return {
    shop: makeView('demo/shop', ['10.96.0.50', 'fd96::50'], [{ ip: '10.1.2.3', primary: 8080, ports: shopPorts }]),
    db: makeView('demo/db', ['10.96.0.60', 'fd96::60'], [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }]),
    web: makeView('demo/web', ['10.96.0.51', 'fd96::51'], [{ ip: '10.1.2.5', primary: 8080, ports: { 8080: 'http' } }]),
    idle: makeView('demo/idle', ['10.96.0.70', 'fd96::70'], []),
  };
}

function listProtocolsOf(spec: EndpointSpec): ReadonlySet<Protocol> {
  if (spec.untyped === true) return new Set([spec.ports[spec.primary] ?? 'http']);
  return new Set(Object.values(spec.ports));
}
