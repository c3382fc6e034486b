// A registered endpoint: one pod of a service as the registry holds it. Domain form of aether.registry.v1.ServiceEndpoint.
import type { Protocol } from './port-protocols.ts';

export type Health = 'unspecified' | 'healthy' | 'unhealthy' | 'draining';
export type HealthCheckMode = 'unspecified' | 'active' | 'eds';

/**
 * One endpoint, identical under every protocol key that it is registered with. `port` is the pod's primary; `ports`
 * is ascending. `portProtocols` may lack ports (an earlier writer): such a port has the protocol of the listing's key.
 */
export interface Endpoint {
  readonly ip: string;
  readonly clusterName: string;
  readonly port: number;
  readonly ports: readonly number[];
  readonly portProtocols: ReadonlyMap<number, Protocol>;
  readonly weight: number;
  readonly locality: { readonly region: string; readonly zone: string };
  readonly metadata: Readonly<Record<string, string>>;
  readonly containerId: string;
  readonly netnsPath: string;
  readonly namespace: string;
  readonly podName: string;
  readonly nodeName: string;
  readonly nodeIp: string;
  readonly health: Health;
  readonly healthCheckMode: HealthCheckMode;
}

/** Whether new connections are sent to it; what nothing is known of counts as well. */
export function isServing({ health }: Endpoint): boolean {
  return health === 'healthy' || health === 'unspecified';
}

/** The ports an endpoint serves, its primary always among them, ascending. */
export function listPorts(endpoint: Endpoint): readonly number[] {
  const ports = endpoint.ports.includes(endpoint.port) ? endpoint.ports : [endpoint.port, ...endpoint.ports];
  return [...new Set(ports)].sort((a, b) => a - b);
}

/** Protocol of a port as seen in the listing of `listedUnder`; undefined when the endpoint does not serve it. */
export function protocolOf(endpoint: Endpoint, port: number, listedUnder: Protocol): Protocol | undefined {
  const typed = endpoint.portProtocols.get(port);
  if (typed !== undefined) return typed;
  return port === endpoint.port || endpoint.ports.includes(port) ? listedUnder : undefined;
}
