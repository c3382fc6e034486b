// Which services this node's Envoy is given: all of them, or those that its pods need. Needed are a pod's own service, what it
// declares, what Envoy was seen to ask for, and every service with a TCP port, since raw TCP cannot wait to be asked for.
import { exchangeItems, findExchanged } from '../core/exchanged-list.ts';
import { formatServiceKey, parseServiceFqdn, parseServiceKey, type ServiceKey } from '../mesh/names.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import type { AgentPod } from './agent-pod.ts';
import type { Clock } from './deps.ts';

/**
 * For so long a service that was asked for stays after the last Envoy that asked is gone. While one is connected it stays:
 * Envoy asks for a name once, and would never ask again for one that was withdrawn.
 */
export const ASKED_RETENTION_MS = 60 * 60 * 1000;

export interface DemandScopeOptions {
  readonly clock: Clock;
  readonly domain: string;
  /** Names of clusters that connected Envoys ask for, beside the wildcard. */
  readonly listAsked: () => Iterable<string>;
  readonly isKnown: (key: ServiceKey) => boolean;
}

/** `others`: known, not given to Envoy unless it asks. Each list sorted as the views are. */
export interface ScopedServices {
  readonly services: readonly ServiceView[];
  readonly others: readonly ServiceView[];
}

interface Selection extends ScopedServices {
  readonly views: readonly ServiceView[];
}

/** Remembers what was asked for over streams and snapshots, in memory: Envoy asks anew of an agent that starts anew. */
export class DemandScope {
  readonly #options: DemandScopeOptions;
  /** Service key -> when an Envoy was last known to ask for it. */
  readonly #asked = new Map<string, number>();
  /** Asked for, and not yet told. */
  readonly #coming = new Set<string>();
  #needed: ReadonlySet<string> = new Set();
  /** Those that were coming when it was planned. */
  #planned: ReadonlySet<string> = new Set();
  /** Those of them that the last selection has. */
  #selected: ReadonlySet<string> = new Set();
  #last: (Selection & { readonly needed: string }) | undefined;

  constructor(options: DemandScopeOptions) {
    this.#options = options;
  }

  /** Envoy asks for a cluster. True: its service is known and was left out; what is built next has it. */
  ask(cluster: string): boolean {
    const key = parseClusterKey(cluster, this.#options.domain);
    if (key === undefined) return false;
    const name = formatServiceKey(key);
    // Kept also for a service that nobody knows yet: should it come, Envoy will not ask again.
    this.#asked.set(name, this.#nowMs());
    const isLeftOut = this.#last?.others.some((view) => formatServiceKey(view.key) === name) ?? this.#isKnown(key);
    if (isLeftOut) this.#coming.add(name);
    return isLeftOut;
  }

  /** Whether a cluster or its endpoints (by EDS name) will be in the next build: Envoy is kept waiting. */
  isComing(name: string): boolean {
    const key = parseServiceKey(name) ?? parseClusterKey(name, this.#options.domain);
    return key !== undefined && this.#coming.has(formatServiceKey(key));
  }

  /** What was selected last has been told to Envoy. */
  settle(): void {
    for (const name of this.#selected) this.#coming.delete(name);
    this.#selected = new Set();
  }

  /** Keys (`<ns>/<sa>`) of the services whose endpoints are to be known for the next selection, beside those with TCP ports. */
  plan(pods: readonly AgentPod[]): ReadonlySet<string> {
    this.#expire();
    this.#planned = new Set(this.#coming);
    const needed = new Set(this.#asked.keys());
    for (const { workload } of pods) {
      for (const key of [workload.service, ...workload.upstreams]) needed.add(formatServiceKey(key));
    }
    this.#needed = needed;
    return needed;
  }

  /** What was planned, of these views; one without endpoints is not given yet. The same lists as long as nothing changed. */
  select(views: readonly ServiceView[], isOutlined: (key: ServiceKey) => boolean): ScopedServices {
    const needed = this.#needed;
    // Without endpoints, though it was planned: the registry did not answer, and Envoy waits on.
    const isHeldUp = (name: string): boolean => {
      const key = parseServiceKey(name);
      return key !== undefined && isOutlined(key);
    };
    const isNeeded = (view: ServiceView): boolean =>
      !isOutlined(view.key) && (view.tcpDefault !== undefined || needed.has(formatServiceKey(view.key)));
    this.#selected = new Set([...this.#planned].filter((name) => !isHeldUp(name)));
    const text = [...needed].sort().join(' ');
    const last = this.#last;
    if (last?.views === views && last.needed === text) return last;
    const lists = (last?.needed === text && exchange(last, views, isNeeded)) || {
      services: views.filter(isNeeded),
      others: views.filter((view) => !isNeeded(view)),
    };
    this.#last = { views, needed: text, ...lists };
    return this.#last;
  }

  #expire(): void {
    const nowMs = this.#nowMs();
    for (const cluster of this.#options.listAsked()) {
      const key = parseClusterKey(cluster, this.#options.domain);
      if (key !== undefined) this.#asked.set(formatServiceKey(key), nowMs);
    }
    for (const [name, atMs] of this.#asked) if (atMs + ASKED_RETENTION_MS <= nowMs) this.#asked.delete(name);
  }

  // Before anything was selected: an Envoy that is back lists what it had asked for.
  #isKnown(key: ServiceKey): boolean {
    return this.#options.isKnown(key);
  }

  #nowMs(): number {
    return this.#options.clock.now().getTime();
  }
}

// The lists with a few views exchanged, where none goes from one to the other.
function exchange(
  last: Selection,
  views: readonly ServiceView[],
  isNeeded: (view: ServiceView) => boolean,
): ScopedServices | undefined {
  const exchanged = { services: new Map<number, ServiceView>(), others: new Map<number, ServiceView>() };
  for (const place of findExchanged(views, last.views) ?? [-1]) {
    const [view, before] = [views[place], last.views[place]];
    if (view === undefined || before === undefined) return undefined;
    const list = isNeeded(view) ? 'services' : 'others';
    const at = last[list].indexOf(before);
    if (at < 0) return undefined;
    exchanged[list].set(at, view);
  }
  const { services, others } = exchanged;
  return {
    services: services.size === 0 ? last.services : exchangeItems(last.services, services),
    others: others.size === 0 ? last.others : exchangeItems(last.others, others),
  };
}

// `<fqdn>`, `<fqdn>:<port>`, and the EDS names of TCP ports, `tcp:<fqdn>:<port>`.
function parseClusterKey(name: string, domain: string): ServiceKey | undefined {
  return parseServiceFqdn(name.replace(/^tcp:/, '').replace(/:[0-9]+$/, ''), domain);
}
