// What the resources of a fit snapshot claim for themselves and need of each other, kept over its changes: whether a few that
// come and go leave it fit is told by them alone. (validate-snapshot.ts looks at all, and says what is wrong.)
import type { Steps } from '../core/steps.ts';
import { HEALTH_GATEWAY, isTcpClusterName } from '../mesh/names.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import type { Resource, Snapshot } from './resource.ts';
import { clusterFacts, listenerFacts, routeFacts } from './resource-facts.ts';
import { tableOf } from './validate-snapshot.ts';

/** Good for nothing any more once a claim has failed. */
export class SnapshotIndex {
  /** Where listeners listen. */
  readonly #sockets = new Set<string>();
  /** By route table. */
  readonly #domains = new Map<string, Set<string>>();
  /** Addresses of services. */
  readonly #vips = new Set<string>();
  /** How many listeners and hosts name a cluster. */
  readonly #needs = new Count();
  /** How many clusters wait for endpoints. */
  readonly #waiting = { http: new Count(), tcp: new Count() };

  /** Of a snapshot that is fit, and of all services that it was made of. Undefined: it is not. */
  static *make({ resources }: Snapshot, services: Iterable<ServiceView>): Steps<SnapshotIndex | undefined> {
    const index = new SnapshotIndex();
    for (const view of services) {
      if (!index.claimAddresses(view)) return undefined;
      yield;
    }
    for (const kind of ['cluster', 'listener', 'routes', 'host'] as const) {
      for (const resource of resources[kind].values()) {
        if (!index.claim(resource)) return undefined;
        yield;
      }
    }
    return index;
  }

  /** False: another one has it. */
  claimAddresses({ vips }: ServiceView): boolean {
    return vips.every(({ text }) => claim(this.#vips, text));
  }

  releaseAddresses({ vips }: ServiceView): void {
    for (const { text } of vips) this.#vips.delete(text);
  }

  /** The resource comes. False: another one has what it claims. */
  claim(resource: Resource): boolean {
    const { names, clusters, edsName } = claimsOf(resource);
    for (const name of clusters) this.#needs.add(name, 1);
    if (edsName !== undefined) this.#waitingOf(resource).add(edsName, 1);
    const taken = this.#takenBy(resource);
    if (!names.every((name) => claim(taken, name))) return false;
    return edsName === undefined || !(this.#waiting.http.has(edsName) && this.#waiting.tcp.has(edsName));
  }

  /** The resource goes. */
  release(resource: Resource): void {
    const { names, clusters, edsName } = claimsOf(resource);
    for (const name of clusters) this.#needs.add(name, -1);
    if (edsName !== undefined) this.#waitingOf(resource).add(edsName, -1);
    const taken = this.#takenBy(resource);
    for (const name of names) taken.delete(name);
  }

  /** Whether a listener, host or cluster refers to it. */
  isNeeded({ kind, name }: Pick<Resource, 'kind' | 'name'>): boolean {
    if (kind === 'cluster') return this.#needs.has(name);
    return kind === 'endpoints' && (this.#waiting.http.has(name) || this.#waiting.tcp.has(name));
  }

  #waitingOf({ name }: Resource): Count {
    return isTcpClusterName(name) ? this.#waiting.tcp : this.#waiting.http;
  }

  #takenBy(resource: Resource): Set<string> {
    if (resource.kind === 'listener') return this.#sockets;
    const table = tableOf(resource);
    const domains = this.#domains.get(table) ?? new Set();
    this.#domains.set(table, domains);
    return domains;
  }
}

interface Claims {
  readonly names: readonly string[];
  readonly clusters: readonly string[];
  readonly edsName: string | undefined;
}

const NO_CLAIMS: Claims = { names: [], clusters: [], edsName: undefined };

function claimsOf(resource: Resource): Claims {
  if (resource.kind === 'cluster') return { ...NO_CLAIMS, edsName: clusterFacts(resource).edsName };
  if (resource.kind === 'listener') {
    const { addresses, clusters } = listenerFacts(resource);
    // It names a cluster of each pod, and is made and looked at anew with each pod that comes or goes.
    return { names: addresses, clusters: resource.name === HEALTH_GATEWAY ? [] : clusters, edsName: undefined };
  }
  if (resource.kind !== 'host' && resource.kind !== 'routes') return NO_CLAIMS;
  const { domains, clusters } = routeFacts(resource);
  return { names: domains, clusters, edsName: undefined };
}

function claim(taken: Set<string>, name: string): boolean {
  if (taken.has(name)) return false;
  taken.add(name);
  return true;
}

class Count {
  readonly #counts = new Map<string, number>();

  has(name: string): boolean {
    return this.#counts.has(name);
  }

  add(name: string, change: 1 | -1): void {
    const count = (this.#counts.get(name) ?? 0) + change;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }
}
