// The registry of a node that is complete by itself: endpoints in memory, filled by the agent from its pod records.
// Nothing is persisted here; the records are, and registering them again gives the same content.
import { isDeepStrictEqual } from 'node:util';
import { compareText } from '../core/compare.ts';
import type { Endpoint } from '../mesh/endpoint.ts';
import { formatServiceKey, type ServiceKey } from '../mesh/names.ts';
import type { Protocol } from '../mesh/port-protocols.ts';
import type { Registry, ServiceEndpoints } from './contract.ts';

/** Endpoints of one protocol: service key -> address -> endpoint. */
type Listing = Map<string, Map<string, Endpoint>>;
type ChangeListener = (keys: ReadonlySet<string>) => void;

/** Changes that happen in one turn of the event loop reach a watcher in one call; writing the same again is no change. */
export class EmbeddedRegistry implements Registry {
  readonly #listings: Readonly<Record<Protocol, Listing>> = { http: new Map(), tcp: new Map() };
  readonly #listeners = new Set<ChangeListener>();
  #changed = new Set<string>();

  async registerEndpoint(key: ServiceKey, protocol: Protocol, endpoint: Endpoint): Promise<void> {
    const name = formatServiceKey(key);
    const listing = this.#listings[protocol];
    const endpoints = listing.get(name) ?? new Map<string, Endpoint>();
    listing.set(name, endpoints);
    if (isDeepStrictEqual(endpoints.get(endpoint.ip), endpoint)) return;
    endpoints.set(endpoint.ip, endpoint);
    this.#noteChange(name);
  }

  async unregisterEndpoint(key: ServiceKey, ip: string): Promise<void> {
    const name = formatServiceKey(key);
    for (const listing of Object.values(this.#listings)) {
      const endpoints = listing.get(name);
      if (endpoints === undefined || !endpoints.delete(ip)) continue;
      if (endpoints.size === 0) listing.delete(name);
      this.#noteChange(name);
    }
  }

  async listEndpoints(key: ServiceKey, protocol: Protocol): Promise<readonly Endpoint[]> {
    return sortByAddress(this.#listings[protocol].get(formatServiceKey(key)));
  }

  async listAllEndpoints(protocol: Protocol): Promise<ServiceEndpoints> {
    return new Map([...this.#listings[protocol]].map(([name, endpoints]) => [name, sortByAddress(endpoints)]));
  }

  watch(onChange: ChangeListener): Disposable {
    // Wrapped, so that the same function may watch twice and each end alone.
    const listener: ChangeListener = (keys) => onChange(keys);
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  #noteChange(name: string): void {
    if (this.#changed.size === 0) setImmediate(() => this.#flush());
    this.#changed.add(name);
  }

  #flush(): void {
    const keys = this.#changed;
    this.#changed = new Set();
    for (const listener of [...this.#listeners]) listener(keys);
  }
}

function sortByAddress(endpoints: ReadonlyMap<string, Endpoint> | undefined): readonly Endpoint[] {
  return [...(endpoints?.values() ?? [])].sort((a, b) => compareText(a.ip, b.ip));
}
