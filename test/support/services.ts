// Endpoints and service views for tests, made by the real code wherever it exists.
import { type IpAddress, parseIp } from '../../src/core/ip.ts';
import type { Endpoint } from '../../src/mesh/endpoint.ts';
import { parseServiceKey } from '../../src/mesh/names.ts';
import type { Protocol } from '../../src/mesh/port-protocols.ts';
import { buildServiceView, type ServiceListing, type ServiceView } from '../../src/mesh/service-view.ts';

/** `{ ip, primary, ports: { 8080: 'http', 9000: 'tcp' } }`; `untyped` leaves portProtocols out, as an old writer did. */
export interface EndpointSpec {
  readonly ip: string;
  readonly primary: number;
  readonly ports: Readonly<Record<number, Protocol>>;
  readonly untyped?: boolean;
  readonly namespace?: string;
  readonly overrides?: Partial<Endpoint>;
}

export function makeEndpoint(spec: EndpointSpec): Endpoint {
  const ports = Object.keys(spec.ports).map(Number);
  return {
    ip: spec.ip,
    clusterName: 'local',
    port: spec.primary,
    ports,
    portProtocols: spec.untyped === true ? new Map() : new Map(ports.map((port) => [port, spec.ports[port] ?? 'http'])),
    weight: 1024,
    locality: { region: '', zone: '' },
    metadata: {},
    containerId: `c-${spec.ip}`,
    netnsPath: `/run/aether/netns/c-${spec.ip}`,
    namespace: spec.namespace ?? 'demo',
    podName: `pod-${spec.ip}`,
    nodeName: 'node1',
    nodeIp: '192.168.0.1',
    health: 'healthy',
    healthCheckMode: 'eds',
    ...spec.overrides,
  };
}

/** The two listings as dual registration leaves them: each endpoint under every protocol that it has a port of. */
export function makeListing(specs: readonly EndpointSpec[]): ServiceListing {
  const under = (protocol: Protocol): Endpoint[] =>
    specs.filter((spec) => Object.values(spec.ports).includes(protocol)).map(makeEndpoint);
  return { http: under('http'), tcp: under('tcp') };
}

export function makeIp(text: string): IpAddress {
  const ip = parseIp(text);
  if (ip === undefined) throw new Error(`no address: ${text}`);
  return ip;
}

export function makeView(key: string, vips: readonly string[], specs: readonly EndpointSpec[]): ServiceView {
  const parsed = parseServiceKey(key);
  if (parsed === undefined) throw new Error(`no service key: ${key}`);
  return buildServiceView(parsed, makeListing(specs), { domain: 'aether.internal', vips: vips.map(makeIp) });
}

/** The services of the proposal's example: mixed, pure TCP, HTTP only, and one without endpoints. */
export function exampleServices(): {
  readonly shop: ServiceView;
  readonly db: ServiceView;
  readonly web: ServiceView;
  readonly idle: ServiceView;
} {
  return {
    shop: makeView(
      'demo/shop',
      ['10.96.0.50', 'fd96::50'],
      [{ ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9090: 'http', 9000: 'tcp', 5432: 'tcp' } }],
    ),
    db: makeView('demo/db', ['10.96.0.60', 'fd96::60'], [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }]),
    web: makeView('demo/web', ['10.96.0.51', 'fd96::51'], [{ ip: '10.1.2.5', primary: 8080, ports: { 8080: 'http' } }]),
    idle: makeView('demo/idle', ['10.96.0.70', 'fd96::70'], []),
  };
}
