// What every service registry offers: the embedded one and the clients of real ones pass one contract suite.
import type { Endpoint } from '../mesh/endpoint.ts';
import type { ServiceKey } from '../mesh/names.ts';
import type { Protocol } from '../mesh/port-protocols.ts';
import type { ServiceOutline } from '../mesh/service-outline.ts';

/** Endpoints by service key (`<ns>/<sa>`), each list sorted by address. */
export type ServiceEndpoints = ReadonlyMap<string, readonly Endpoint[]>;

/** `wanted`: of services that are not wanted, only what changes their outline is heard. */
export type WatchScope = 'all' | 'wanted';

/** Ends when disposed. */
export interface ServiceWatch extends Disposable {
  /** From now on every change of these services (`<ns>/<sa>`) is heard; endpoints that are read after it are not missed. */
  want(keys: Iterable<string>): void;
  /** No longer, but for their outlines. Fine for one that is not wanted. */
  unwant(keys: Iterable<string>): void;
}

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
  /** Keys (`<ns>/<sa>`) of all services that have an endpoint. */
  listServices(): Promise<ReadonlySet<string>>;
  /** Ports without endpoints; undefined: nobody serves it. The same for all services, wanted or not. */
  describeService(key: ServiceKey): Promise<ServiceOutline | undefined>;
  /** Calls back with the keys (`<ns>/<sa>`) that changed, soon after the change. Nothing is wanted at first. Default `all`. */
  watch(onChange: (keys: ReadonlySet<string>) => void, scope?: WatchScope): ServiceWatch;
}
