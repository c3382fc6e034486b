// The services that this node knows: their endpoints from the registry, their addresses, and the view of each. Only what
// changed is looked at again; the view of an unchanged service stays the same object.
import { isDeepStrictEqual } from 'node:util';
import { compareText } from '../core/compare.ts';
import { exchangeItems } from '../core/exchanged-list.ts';
import type { IpAddress, IpRange } from '../core/ip.ts';
import type { Log } from '../core/log.ts';
import { findPlace, mergeSorted } from '../core/merge-sorted.ts';
import { formatServiceKey, parseServiceKey, type ServiceKey } from '../mesh/names.ts';
import { type ServiceOutline, viewOutline } from '../mesh/service-outline.ts';
import { buildServiceView, type ServiceListing, type ServiceView } from '../mesh/service-view.ts';
import type { Registry, ServiceWatch } from '../registry/contract.ts';
import { changeVips } from './change-vips.ts';
import type { Clock, VipStore } from './deps.ts';
import { runAside } from './run-aside.ts';
import { planVipsInSteps, type VipLease } from './vip-allocator.ts';
import type { VipPins } from './vip-pins.ts';

export interface ServiceCatalogOptions {
  readonly registry: Registry;
  readonly vips: VipStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly domain: string;
  /** Where addresses are taken from, at most one range of a family. */
  readonly ranges: readonly IpRange[];
  readonly pins: VipPins;
  /** Endpoints are read of services that are needed or have a TCP port (raw TCP cannot wait); default: of all. */
  readonly isScoped?: boolean;
  /** A service's time without endpoints is over: ask for `update`. */
  readonly onExpire: () => void;
}

/**
 * For so long a service keeps its name and address after its last endpoint went: a pod that is replaced is away for a
 * moment, and a client that was told "no such name" meanwhile would hold on to that.
 */
export const SERVICE_RETENTION_MS = 90_000;

const NO_LISTING: ServiceListing = { http: [], tcp: [] };
const NOBODY: ReadonlySet<string> = new Set();

/** Empty until `load`; `update` works off what was marked. */
export class ServiceCatalog {
  readonly #options: ServiceCatalogOptions;
  readonly #listings = new Map<string, ServiceListing>();
  /** Of services without a listing of theirs: nobody here needs their endpoints. */
  readonly #outlines = new Map<string, ServiceOutline>();
  #needed = NOBODY;
  #watch: ServiceWatch | undefined;
  /** Since when a service has no endpoint. */
  readonly #emptySinceMs = new Map<string, number>();
  readonly #dirty = new Set<string>();
  readonly #views = new Map<string, ServiceView>();
  #sorted: readonly ServiceView[] = [];
  #namespaces: ReadonlySet<string> = new Set();
  #leases: readonly VipLease[] = [];
  #addresses = new Map<string, readonly IpAddress[]>();
  #problems: readonly string[] = [];
  #pins: VipPins;
  /** Under which everybody's address was planned. */
  #planned: VipPins | undefined;
  /** Services that became known or unknown since. */
  readonly #unplanned = new Set<string>();
  #expiry: Disposable | undefined;

  constructor(options: ServiceCatalogOptions) {
    this.#options = options;
    this.#pins = options.pins;
  }

  /** Reads the leases; once, before anything else. Throws StoreError. */
  async load(): Promise<void> {
    const { leases, broken } = await this.#options.vips.load();
    this.#leases = leases;
    if (broken !== undefined) this.#options.log.error('agent.vips.broken', { reason: broken });
  }

  /** From now on what changes in the registry is marked, and `onChange` asks for `update`. Once. */
  follow(onChange: () => void): void {
    const heard = (keys: Iterable<string>): void => {
      this.mark(keys);
      onChange();
    };
    this.#watch = this.#options.registry.watch(heard, this.#options.isScoped ? 'wanted' : 'all');
  }

  /** These may have changed in the registry; `update` will look. */
  mark(keys: Iterable<string>): void {
    for (const key of keys) this.#dirty.add(key);
  }

  /** Marks everything that the registry has and had. Throws RegistryError. */
  async markAll(): Promise<void> {
    this.mark(await this.#options.registry.listServices());
    this.mark(this.#listings.keys());
  }

  setPins(pins: VipPins): void {
    this.#pins = pins;
  }

  /** Sorted by key; the same array as long as nothing changed. */
  get views(): readonly ServiceView[] {
    return this.#sorted;
  }

  /** Whether of a service no more than its outline is known: its view has no endpoints. */
  isOutlined(key: ServiceKey): boolean {
    return this.#outlines.has(formatServiceKey(key));
  }

  /** The views with all endpoints there are, for whoever asks about a service that nobody here needs. Throws RegistryError. */
  async readWholeViews(): Promise<readonly ServiceView[]> {
    if (this.#outlines.size === 0) return this.#sorted;
    const { registry, domain } = this.#options;
    const [http, tcp] = await Promise.all([registry.listAllEndpoints('http'), registry.listAllEndpoints('tcp')]);
    return this.#sorted.map((view) => {
      if (!this.isOutlined(view.key)) return view;
      const name = formatServiceKey(view.key);
      return buildServiceView(view.key, { http: http.get(name) ?? [], tcp: tcp.get(name) ?? [] }, { ...view, domain });
    });
  }

  /** Sentences: what is wrong with the addresses. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  find(key: ServiceKey): readonly IpAddress[] | undefined {
    return this.#views.get(formatServiceKey(key))?.vips;
  }

  hasNamespace(namespace: string): boolean {
    return this.#namespaces.has(namespace);
  }

  /**
   * Takes in what was marked, and of the services that are `needed` from now on the endpoints. A new service has its address on
   * disk before anybody is told of it. Throws RegistryError (what is known stays, the marks too) and StoreError.
   */
  async update(needed: ReadonlySet<string> = NOBODY): Promise<void> {
    // One that nobody knows is heard of when it comes.
    for (const key of [...needed, ...this.#needed]) {
      if (needed.has(key) !== this.#needed.has(key) && this.#listings.has(key)) this.#dirty.add(key);
    }
    this.#needed = needed;
    const changed = new Set<string>();
    const problems: unknown[] = [];
    // What can be brought up to date is, whichever of the two is away.
    const note = (error: unknown): void => void problems.push(error);
    await this.#relist(changed).catch(note);
    this.#expire();
    if (this.#planned !== this.#pins || this.#unplanned.size > 0) await this.#planAddresses(changed).catch(note);
    const rebuilt = [...changed].filter((key) => this.#rebuild(key));
    if (rebuilt.length > 0) this.#sorted = this.#place(rebuilt);
    if (problems.length > 0) throw problems[0];
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]();
    this.#expiry?.[Symbol.dispose]();
  }

  async #relist(changed: Set<string>): Promise<void> {
    for (const name of [...this.#dirty]) {
      // Before the registry is read: a mark that comes meanwhile is of a later change.
      this.#dirty.delete(name);
      const key = parseServiceKey(name);
      if (key === undefined) continue;
      try {
        await this.#readService(name, key);
        changed.add(name);
      } catch (error) {
        this.#dirty.add(name);
        throw error;
      }
    }
  }

  async #readService(name: string, key: ServiceKey): Promise<void> {
    const { registry, isScoped = false } = this.#options;
    if (isScoped && !this.#needed.has(name)) {
      const outline = await registry.describeService(key);
      if (outline?.tcpDefault === undefined) {
        this.#watch?.unwant([name]);
        this.#setOutline(name, outline);
        return;
      }
    }
    // Before they are read, or a change in between would be missed.
    this.#watch?.want([name]);
    const [http, tcp] = await Promise.all([registry.listEndpoints(key, 'http'), registry.listEndpoints(key, 'tcp')]);
    this.#outlines.delete(name);
    this.#setListing(name, { listing: { http, tcp }, isEmpty: http.length + tcp.length === 0 });
  }

  #setOutline(name: string, outline: ServiceOutline | undefined): void {
    if (outline === undefined) this.#outlines.delete(name);
    else this.#outlines.set(name, outline);
    this.#setListing(name, { listing: NO_LISTING, isEmpty: outline === undefined });
  }

  #setListing(name: string, known: { readonly listing: ServiceListing; readonly isEmpty: boolean }): void {
    const { listing, isEmpty } = known;
    if (!this.#listings.has(name)) {
      if (isEmpty) return;
      this.#unplanned.add(name);
    }
    this.#listings.set(name, listing);
    if (!isEmpty) this.#emptySinceMs.delete(name);
    else if (!this.#emptySinceMs.has(name)) this.#emptySinceMs.set(name, this.#options.clock.now().getTime());
  }

  #expire(): void {
    const nowMs = this.#options.clock.now().getTime();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [name, sinceMs] of this.#emptySinceMs) {
      const endMs = sinceMs + SERVICE_RETENTION_MS;
      if (endMs > nowMs) nextMs = Math.min(nextMs, endMs);
      else {
        this.#emptySinceMs.delete(name);
        this.#listings.delete(name);
        this.#unplanned.add(name);
      }
    }
    this.#expiry?.[Symbol.dispose]();
    this.#expiry =
      nextMs === Number.POSITIVE_INFINITY
        ? undefined
        : this.#options.clock.after(nextMs - nowMs, this.#options.onExpire);
  }

  async #planAddresses(changed: Set<string>): Promise<void> {
    const mayBeFew = this.#planned === this.#pins && this.#problems.length === 0;
    if (mayBeFew && (await this.#planFew(changed))) return;
    const { vips, ranges, clock, log } = this.#options;
    const pins = this.#pins;
    const services = new Set([...this.#listings.keys(), ...pins.keys()]);
    const request = { services, pins, ranges, nowMs: clock.now().getTime() };
    const plan = await runAside(planVipsInSteps(this.#leases, request));
    if (!isDeepStrictEqual(plan.leases, this.#leases)) await vips.save(plan.leases);
    for (const problem of plan.problems) log.error('agent.vips.exhausted', { problem });
    for (const name of new Set([...services, ...this.#views.keys()])) {
      if (!isDeepStrictEqual(plan.addresses.get(name), this.#addresses.get(name))) changed.add(name);
    }
    this.#leases = plan.leases;
    this.#addresses = new Map(plan.addresses);
    this.#problems = plan.problems;
    this.#unplanned.clear();
    this.#planned = pins;
  }

  // A few came or went: the others keep their addresses. False: that is not all.
  async #planFew(changed: Set<string>): Promise<boolean> {
    const { vips, ranges, clock } = this.#options;
    const names = [...this.#unplanned];
    const come = new Set(names.filter((name) => this.#listings.has(name) && !this.#addresses.has(name)));
    const gone = new Map<string, readonly IpAddress[]>();
    for (const name of names) {
      const addresses = this.#addresses.get(name);
      if (addresses !== undefined && !this.#listings.has(name)) gone.set(name, addresses);
    }
    const nowMs = clock.now().getTime();
    const plan = changeVips(this.#leases, { come, gone, pins: this.#pins, ranges, nowMs });
    if (plan === undefined) return false;
    if (come.size + gone.size > 0) await vips.save(plan.leases);
    this.#leases = plan.leases;
    for (const [name, addresses] of plan.addresses) this.#addresses.set(name, addresses);
    for (const name of gone.keys()) this.#addresses.delete(name);
    for (const name of [...come, ...gone.keys()]) changed.add(name);
    this.#unplanned.clear();
    return true;
  }

  #rebuild(name: string): boolean {
    const vips = this.#addresses.get(name);
    const key = parseServiceKey(name);
    if (vips === undefined || key === undefined) return this.#views.delete(name);
    const options = { domain: this.#options.domain, vips };
    const outline = this.#outlines.get(name);
    const view =
      outline === undefined
        ? buildServiceView(key, this.#listings.get(name) ?? NO_LISTING, options)
        : viewOutline(key, outline, options);
    const before = this.#views.get(name);
    if (before !== undefined && countEndpoints(view) === countEndpoints(before) && isDeepStrictEqual(view, before))
      return false;
    this.#views.set(name, view);
    return true;
  }

  // Where all have their places the list says which views were exchanged.
  #place(keys: readonly string[]): readonly ServiceView[] {
    const places = new Map(keys.map((key) => [key, this.#find(key)]));
    const isSameSet = keys.every((key) => (places.get(key) !== undefined) === this.#views.has(key));
    if (isSameSet) {
      const views = new Map<number, ServiceView>();
      for (const [key, place] of places) {
        const view = this.#views.get(key);
        if (place !== undefined && view !== undefined) views.set(place, view);
      }
      return exchangeItems(this.#sorted, views);
    }
    const exchanged = new Set([...places.values()].filter((place) => place !== undefined));
    const others = exchanged.size === 0 ? this.#sorted : this.#sorted.filter((_, place) => !exchanged.has(place));
    const fresh = keys.toSorted(compareText).flatMap((key) => this.#views.get(key) ?? []);
    const views = mergeSorted(others, fresh, { compare: (a, b) => compareText(nameOf(a), nameOf(b)) });
    // Where none went, none of their namespaces did.
    const known = exchanged.size === 0 ? this.#namespaces : others.map((view) => view.key.namespace);
    this.#namespaces = new Set([...known, ...fresh.map((view) => view.key.namespace)]);
    return views;
  }

  // Its place among the views that were sorted last.
  #find(key: string): number | undefined {
    const place = findPlace(this.#sorted, (view) => compareText(nameOf(view), key) < 0);
    return nameOf(this.#sorted[place]) === key ? place : undefined;
  }
}

function nameOf(view: ServiceView | undefined): string {
  return view === undefined ? '' : formatServiceKey(view.key);
}

// Told apart at a glance, as most are.
function countEndpoints({ http, tcp }: ServiceView): number {
  return [...http, ...tcp].reduce((sum, { endpoints }) => sum + endpoints.length, 0);
}
