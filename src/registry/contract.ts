// What every service registry offers: the embedded one and the clients of real ones pass one contract suite.
import type { Endpoint } from '../mesh/endpoint.ts';
import type { ServiceKey } from '../mesh/names.ts';
import type { Protocol } from '../mesh/port-protocols.ts';

/** Endpoints by service key (`<ns>/<sa>`), each list sorted by address. */
export type ServiceEndpoints = ReadonlyMap<string, readonly Endpoint[]>;

/** All methods throw RegistryError. */
export interface Registry {
  /** Writes one endpoint under one protocol, replacing what stood under (key, protocol, ip). */
  registerEndpoint(key: ServiceKey, protocol: Protocol, endpoint: Endpoint): Promise<void>;
  /** Removes an address of a service under every protocol; fine when absent. */
  unregisterEndpoint(key: ServiceKey, ip: string): Promise<void>;
  /** Endpoints of one service with at least one port of the protocol; each carries its full port set. */
  listEndpoints(key: ServiceKey, protocol: Protocol): Promise<readonly Endpoint[]>;
  /** The same for all services. */
  listAllEndpoints(protocol: Protocol): Promise<ServiceEndpoints>;
  /** Calls back with the keys (`<ns>/<sa>`) that changed, soon after the change; ends when disposed. */
  watch(onChange: (keys: ReadonlySet<string>) => void): Disposable;
}
