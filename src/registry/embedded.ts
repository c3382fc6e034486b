// The registry of a node that is complete by itself: endpoints in memory, filled by the agent from its pod records.
// Nothing is persisted here; the records are, and registering them again gives the same content.
import { isDeepStrictEqual } from 'node:util';
import { compareText } from '../core/compare.ts';
import type { Endpoint } from '../mesh/endpoint.ts';
import { formatServiceKey, type ServiceKey } from '../mesh/names.ts';
import type { Protocol } from '../mesh/port-protocols.ts';
import { outlineService, type ServiceOutline } from '../mesh/service-outline.ts';
import type { Registry, ServiceEndpoints, ServiceWatch, WatchScope } from './contract.ts';

/** Endpoints of one protocol: service key -> address -> endpoint. */
type Listing = Map<string, Map<string, Endpoint>>;
type ChangeListener = (keys: ReadonlySet<string>) => void;

interface Watcher {
  readonly onChange: ChangeListener;
  /** Undefined: all. */
  readonly wanted: Set<string> | undefined;
}

/** Changes that happen in one turn of the event loop reach a watcher in one call; writing the same again is no change. */
export class EmbeddedRegistry implements Registry {
  readonly #listings: Readonly<Record<Protocol, Listing>> = { http: new Map(), tcp: new Map() };
  readonly #watchers = new Set<Watcher>();
  /** As it was told last; kept while somebody hears of outlines alone. */
  #outlines: Map<string, ServiceOutline> | undefined;
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

  async listServices(): Promise<ReadonlySet<string>> {
    return this.#names();
  }

  async describeService(key: ServiceKey): Promise<ServiceOutline | undefined> {
    return this.#outline(formatServiceKey(key));
  }

  watch(onChange: ChangeListener, scope: WatchScope = 'all'): ServiceWatch {
    const wanted = new Set<string>();
    const watcher = { onChange, wanted: scope === 'all' ? undefined : wanted };
    if (scope === 'wanted') this.#outlines ??= this.#outlineAll();
    this.#watchers.add(watcher);
    return {
      want: (keys) => {
        for (const key of keys) wanted.add(key);
      },
      unwant: (keys) => {
        for (const key of keys) wanted.delete(key);
      },
      [Symbol.dispose]: () => void this.#watchers.delete(watcher),
    };
  }

  #noteChange(name: string): void {
    if (this.#changed.size === 0) setImmediate(() => this.#flush());
    this.#changed.add(name);
  }

  #flush(): void {
    const changed = this.#changed;
    this.#changed = new Set();
    const reshaped = this.#takeReshaped(changed);
    for (const { onChange, wanted } of [...this.#watchers]) {
      const isHeard = (name: string): boolean => wanted?.has(name) !== false || reshaped.has(name);
      const keys = new Set([...changed].filter(isHeard));
      if (keys.size > 0) onChange(keys);
    }
  }

  // Those of them whose outline is another now.
  #takeReshaped(changed: ReadonlySet<string>): ReadonlySet<string> {
    const outlines = this.#outlines;
    const reshaped = new Set<string>();
    if (outlines === undefined) return reshaped;
    for (const name of changed) {
      const outline = this.#outline(name);
      if (isDeepStrictEqual(outlines.get(name), outline)) continue;
      reshaped.add(name);
      if (outline === undefined) outlines.delete(name);
      else outlines.set(name, outline);
    }
    return reshaped;
  }

  #outlineAll(): Map<string, ServiceOutline> {
    const outlines = new Map<string, ServiceOutline>();
    for (const name of this.#names()) {
      const outline = this.#outline(name);
      if (outline !== undefined) outlines.set(name, outline);
    }
    return outlines;
  }

  #outline(name: string): ServiceOutline | undefined {
    const { http, tcp } = this.#listings;
    return outlineService({ http: [...(http.get(name)?.values() ?? [])], tcp: [...(tcp.get(name)?.values() ?? [])] });
  }

  #names(): ReadonlySet<string> {
    return new Set([...this.#listings.http.keys(), ...this.#listings.tcp.keys()]);
  }
}

function sortByAddress(endpoints: ReadonlyMap<string, Endpoint> | undefined): readonly Endpoint[] {
  return [...(endpoints?.values() ?? [])].sort((a, b) => compareText(a.ip, b.ip));
}
