// One resource type of one delta ADS stream: what Envoy subscribes to, what it was sent, what it took, what is in flight.
import type { Resource } from '../xds/resource.ts';
import type { AckState, AdsRequest, AdsResponse } from './ads-protocol.ts';

type Content = Pick<AdsResponse, 'resources' | 'removed'>;

interface Flight {
  readonly nonce: string;
  readonly sent: ReadonlyMap<string, string>;
  readonly removed: readonly string[];
}

interface Refused {
  readonly version: string;
  readonly message: string;
}

export interface AdsTypeOptions {
  readonly isPending: (name: string) => boolean;
  /** Whether Envoy takes a response as a whole, or nothing of it: removals go with updates, and a refusal is of all of it. */
  readonly isAtomic?: boolean;
  /** Whether nothing refers to these: removals wait for no update of another type, and go with their own. */
  readonly isUnreferred?: boolean;
  /** Of a type whose resources belong to one of another type, whether Envoy holds that. */
  readonly isHeld?: (name: string) => boolean;
}

/** At most one response of a type is in flight: the next one waits for its ACK or NACK. */
export class AdsType {
  readonly #options: AdsTypeOptions;
  #wildcard = false;
  /** Names asked for, beside the wildcard. */
  readonly #names = new Set<string>();
  /** Names whose request has had no answer yet. */
  readonly #unanswered = new Set<string>();
  /** Version last sent (or brought along by Envoy) of each name. */
  readonly #sent = new Map<string, string>();
  /** Version that Envoy took. */
  readonly #accepted = new Map<string, string>();
  readonly #refused = new Map<string, Refused>();
  /** Names to be taken away before they are sent again. */
  readonly #withheld = new Set<string>();
  /** Versions of the last response that was settled, for accept and refuse. */
  #settled: ReadonlyMap<string, string> = new Map();
  /** Of an atomic type: names whose removal was refused with the rest. */
  readonly #notRemoved = new Set<string>();
  /** Beginnings of names of which Envoy waits for the first word. */
  readonly #owed = new Set<string>();
  #flight: Flight | undefined;
  #begun = false;
  #owesGreeting = false;
  /** Everything is to be looked at. */
  #dirty = false;
  /** These are, beside what has had no answer. */
  readonly #changed = new Set<string>();
  /** Anything that Envoy has may be what it shall not have any more. */
  #mayHaveStale = true;
  /** These may. */
  #stale: ReadonlySet<string> = new Set();

  constructor(options: AdsTypeOptions) {
    this.#options = options;
  }

  get isAtomic(): boolean {
    return this.#options.isAtomic === true;
  }

  /** Whether Envoy has asked for this type. */
  get hasBegun(): boolean {
    return this.#begun;
  }

  get isInFlight(): boolean {
    return this.#flight !== undefined;
  }

  /** Something may have changed: the next takeUpdate looks at everything. */
  touch(): void {
    this.#dirty = true;
    this.#mayHaveStale = true;
  }

  /** These have changed or come, and those gone; nothing else: the next takeUpdate looks at them. */
  touchThese(changed: readonly string[], removed: readonly string[]): void {
    for (const name of changed) this.#changed.add(name);
    if (removed.length > 0) this.#stale = new Set([...this.#stale, ...removed]);
  }

  isSubscribed(name: string): boolean {
    return this.#wildcard || this.#names.has(name);
  }

  /** What is asked for by name, beside the wildcard. */
  get names(): Iterable<string> {
    return this.#names;
  }

  /** Takes in the subscription part of a request. */
  subscribe(request: AdsRequest, options: { readonly wildcardByDefault: boolean }): void {
    const isFirst = !this.#begun;
    this.#begun = true;
    if (isFirst) {
      this.#mayHaveStale = true;
      for (const [name, version] of Object.entries(request.initialVersions)) {
        this.#sent.set(name, version);
        this.#accepted.set(name, version);
      }
      // A first request that names nothing is the old form of the wildcard.
      if (options.wildcardByDefault && request.subscribe.length === 0) this.#openWildcard();
    }
    for (const name of request.subscribe) this.#subscribeName(name, isFirst);
    for (const name of request.unsubscribe) this.#unsubscribeName(name);
  }

  #openWildcard(): void {
    this.#wildcard = true;
    // The first answer is owed even if it is empty: Envoy would wait for its initial fetch time-out.
    this.#owesGreeting = true;
    this.#dirty = true;
  }

  #subscribeName(name: string, isFirst: boolean): void {
    if (name === '*') {
      if (!this.#wildcard) this.#openWildcard();
      return;
    }
    this.#names.add(name);
    this.#unanswered.add(name);
    // Asking again for what was sent means: send it again. On a new stream it only says what Envoy has.
    if (!isFirst) this.#sent.delete(name);
  }

  #unsubscribeName(name: string): void {
    if (name === '*') {
      this.#wildcard = false;
      for (const known of [...this.#sent.keys()]) if (!this.#names.has(known)) this.#drop(known);
      return;
    }
    this.#names.delete(name);
    this.#unanswered.delete(name);
    if (!this.#wildcard) this.#drop(name);
  }

  #drop(name: string): void {
    this.#sent.delete(name);
    this.#accepted.delete(name);
    this.#refused.delete(name);
    this.#withheld.delete(name);
  }

  /** The resource is to be sent again if Envoy watches it, unchanged as it may be. */
  forget(name: string): void {
    if (this.isSubscribed(name) && this.#sent.delete(name)) this.#changed.add(name);
  }

  /** Envoy knows nothing of the names that begin so: all of them are sent, or one that there is not is said to be gone. */
  startOver(prefix: string): void {
    this.dropAll(prefix);
    this.#owed.add(prefix);
    this.#dirty = true;
  }

  /** Envoy has let go of the names that begin so. */
  dropAll(prefix: string): void {
    this.#owed.delete(prefix);
    for (const name of [...this.#sent.keys(), ...this.#refused.keys()]) if (name.startsWith(prefix)) this.#drop(name);
  }

  /** Whether Envoy was sent, or brought along, a name that begins so. */
  hasSent(prefix: string): boolean {
    return [...this.#sent.keys()].some((name) => name.startsWith(prefix));
  }

  /** The resource is taken away, then sent again. */
  withhold(name: string): void {
    if (!this.#sent.has(name)) return;
    this.#withheld.add(name);
    this.#stale = new Set([...this.#stale, name]);
  }

  /** What to send now: new and changed resources, and names that do not exist. Nothing while a response is in flight. */
  takeUpdate(current: ReadonlyMap<string, Resource>): Content | undefined {
    if (this.#flight !== undefined) return undefined;
    const resources = this.#listDue(this.#listCandidates(current));
    this.#dirty = false;
    this.#changed.clear();
    const removed = [...this.#unanswered].filter((name) => !current.has(name) && !this.#options.isPending(name));
    for (const name of removed) this.#unanswered.delete(name);
    if (this.#wildcard) removed.push(...this.#listNothing(resources));
    if (this.#options.isAtomic || this.#options.isUnreferred) removed.push(...this.listRemovals(current));
    const isOwed = this.#owesGreeting;
    this.#owesGreeting = false;
    return resources.length > 0 || removed.length > 0 || isOwed ? { resources, removed } : undefined;
  }

  // For each beginning that is owed a word and has no resource, a name that is none.
  #listNothing(resources: readonly Resource[]): readonly string[] {
    const prefixes = [...this.#owed].filter((prefix) => !resources.some(({ name }) => name.startsWith(prefix)));
    this.#owed.clear();
    return prefixes.map((prefix) => `${prefix}*`);
  }

  #listCandidates(current: ReadonlyMap<string, Resource>): Iterable<Resource> {
    if (!this.#dirty) {
      const names = [...this.#changed, ...this.#unanswered].filter((name) => this.isSubscribed(name));
      return listNamed(new Set(names), current);
    }
    return this.#wildcard ? current.values() : listNamed(this.#names, current);
  }

  // Those of them that Envoy shall have and has not.
  #listDue(candidates: Iterable<Resource>): Resource[] {
    const due: Resource[] = [];
    for (const resource of candidates) {
      const { name, version } = resource;
      if (this.#withheld.has(name) || !this.isWanted(resource)) continue;
      this.#unanswered.delete(name);
      if (this.#sent.get(name) !== version) due.push(resource);
    }
    return due;
  }

  /** The wildcard leaves out what is asked for by name; what Envoy has of it, from whatever stream, is kept up to date. */
  isWanted({ name, isOnDemand }: Resource): boolean {
    if (this.#options.isHeld?.(name) === false) return false;
    return isOnDemand !== true || this.#names.has(name) || this.#sent.has(name);
  }

  /** What Envoy has and shall not have any more. */
  listRemovals(current: ReadonlyMap<string, Resource>): readonly string[] {
    if (!this.#mayHaveStale && this.#stale.size === 0) return [];
    const isStale = (name: string): boolean => this.#sent.has(name) && (this.#withheld.has(name) || !current.has(name));
    const stale = [...(this.#mayHaveStale ? this.#sent.keys() : this.#stale)].filter(isStale);
    this.#mayHaveStale = false;
    // They stay until they are sent as removed; one that may still come is asked about again.
    this.#stale = new Set(stale);
    return stale.filter((name) => this.#withheld.has(name) || !this.#options.isPending(name));
  }

  /** Notes a response as sent. */
  launch(nonce: string, { resources, removed }: Content): void {
    const sent = new Map(resources.map((resource) => [resource.name, resource.version]));
    for (const [name, version] of sent) this.#sent.set(name, version);
    for (const name of removed) this.#sent.delete(name);
    this.#flight = { nonce, sent, removed };
  }

  /** Ends the flight that a request answers: the names it had sent. Undefined for any other nonce. */
  takeFlight(nonce: string, isRefused: boolean): { readonly names: readonly string[] } | undefined {
    const flight = this.#flight;
    if (flight === undefined || nonce === '' || flight.nonce !== nonce) return undefined;
    this.#flight = undefined;
    this.#settled = flight.sent;
    if (isRefused && this.#options.isAtomic) for (const name of flight.removed) this.#notRemoved.add(name);
    for (const name of flight.removed) {
      this.#accepted.delete(name);
      this.#refused.delete(name);
      if (this.#withheld.delete(name)) this.#changed.add(name);
    }
    return { names: [...flight.sent.keys()] };
  }

  accept(names: readonly string[]): void {
    for (const name of names) {
      this.#accepted.set(name, this.#settled.get(name) ?? '');
      this.#refused.delete(name);
    }
  }

  /** What was refused as a whole is sent once more, with what has changed since. */
  retry(): void {
    if (this.#refused.size + this.#notRemoved.size === 0) return;
    this.touch();
    for (const name of this.#refused.keys()) this.#sent.delete(name);
    for (const name of this.#notRemoved) this.#sent.set(name, '');
    this.#notRemoved.clear();
  }

  /** A refused version is not sent again by itself: it stays in `sent` until the resource changes. */
  refuse(messages: ReadonlyMap<string, string>): void {
    for (const [name, message] of messages) {
      this.#refused.set(name, { version: this.#settled.get(name) ?? '', message });
    }
  }

  /** `version` undefined: the resource is to be absent. */
  stateOf(name: string, version: string | undefined): AckState {
    if (version === undefined) {
      return this.#sent.has(name) || this.#accepted.has(name) ? { kind: 'waiting' } : { kind: 'acknowledged' };
    }
    const refused = this.#refused.get(name);
    if (refused?.version === version) return { kind: 'rejected', message: refused.message };
    return this.#accepted.get(name) === version ? { kind: 'acknowledged' } : { kind: 'waiting' };
  }

  listRejections(): readonly { readonly name: string; readonly message: string }[] {
    return [...this.#refused].map(([name, { message }]) => ({ name, message }));
  }
}

function* listNamed(names: Iterable<string>, current: ReadonlyMap<string, Resource>): Iterable<Resource> {
  for (const name of names) {
    const resource = current.get(name);
    if (resource !== undefined) yield resource;
  }
}
