// One delta ADS stream as a state machine: requests and snapshots in, responses and refusals out. No I/O, no clock.
// Rules: xDS "incremental" variant, and what Envoy 1.40 was seen to need (docs: envoy/api-docs/xds_protocol).
import { hostName, tableOfHost } from '../mesh/names.ts';
import { PUSH_ORDER, type ResourceKind, type Snapshot } from '../xds/resource.ts';
import type { AckState, AdsRequest, AdsResponse, AdsStep, Rejection } from './ads-protocol.ts';
import { splitRefusal } from './ads-refusal.ts';
import { AdsType } from './ads-type.ts';
import type { ResourceName } from './publisher.ts';

/** Types of which Envoy asks for everything, by naming nothing. */
const BY_WILDCARD: ReadonlySet<ResourceKind> = new Set(['cluster', 'listener', 'host']);

export interface AdsSessionOptions {
  /** Whether a name that is in no snapshot may still come; otherwise Envoy is told at once that it does not exist. */
  readonly isPending: (kind: ResourceKind, name: string) => boolean;
}

/** Lives as long as one stream; Envoy's next stream is another, which learns from the request what Envoy has. */
export class AdsSession {
  readonly #options: AdsSessionOptions;
  readonly #types: Record<ResourceKind, AdsType>;
  /** Route tables that Envoy brought along to this stream. */
  readonly #resumed = new Set<string>();
  #snapshot: Snapshot | undefined;
  #nonce = 0;

  /** Without a snapshot the stream stays silent: an empty answer would wipe Envoy's listeners. */
  constructor(snapshot: Snapshot | undefined, options: AdsSessionOptions) {
    this.#snapshot = snapshot;
    this.#options = options;
    const pendingOf = (kind: ResourceKind) => (name: string) => this.#options.isPending(kind, name);
    this.#types = {
      cluster: new AdsType({ isPending: pendingOf('cluster') }),
      endpoints: new AdsType({ isPending: pendingOf('endpoints') }),
      listener: new AdsType({ isPending: pendingOf('listener'), isUnreferred: true }),
      routes: new AdsType({ isPending: pendingOf('routes') }),
      host: new AdsType({
        isPending: pendingOf('host'),
        isAtomic: true,
        isHeld: (name) => this.#types.routes.isSubscribed(tableOfHost(name)),
      }),
      secret: new AdsType({ isPending: pendingOf('secret') }),
    };
  }

  receive(request: AdsRequest): AdsStep {
    const type = this.#types[request.kind];
    const rejections = this.#settle(type, request);
    const isFirst = !type.hasBegun;
    type.subscribe(request, { wildcardByDefault: BY_WILDCARD.has(request.kind) });
    if (request.kind === 'routes') this.#followTables(request, isFirst);
    if (request.kind === 'host' && isFirst) this.#greetTables();
    return { responses: this.#pump(), rejections };
  }

  publish(snapshot: Snapshot): readonly AdsResponse[] {
    const { change } = snapshot;
    const before = this.#snapshot?.resources;
    this.#snapshot = snapshot;
    this.#types.host.retry();
    for (const kind of PUSH_ORDER) {
      if (before?.[kind] === snapshot.resources[kind]) continue;
      if (change === undefined || change.since !== before) this.#types[kind].touch();
      else this.#types[kind].touchThese(change.changed[kind] ?? [], change.removed[kind] ?? []);
    }
    return this.#pump();
  }

  /** Answers what `isPending` no longer holds back. */
  refresh(): readonly AdsResponse[] {
    return this.#pump();
  }

  /** Takes a resource away from Envoy and sends it again once that is acknowledged. */
  resend(resource: ResourceName): readonly AdsResponse[] {
    this.#types[resource.kind].withhold(resource.name);
    return this.#pump();
  }

  /** Where the current version (or the absence) of a resource stands. */
  stateOf({ kind, name }: ResourceName): AckState {
    const resource = this.#snapshot?.resources[kind].get(name);
    const version = resource?.version;
    const type = this.#types[kind];
    // Fetched when a connection needs it, which may be never.
    if (resource !== undefined && !type.isWanted(resource)) return { kind: 'acknowledged' };
    // Secrets are asked for when a connection needs one, which may be never.
    if (kind === 'secret' && !type.isSubscribed(name)) return { kind: 'acknowledged' };
    return type.stateOf(name, version);
  }

  /** What Envoy asks for by name. */
  listAsked(kind: ResourceKind): Iterable<string> {
    return this.#types[kind].names;
  }

  listRejections(): readonly Rejection[] {
    return PUSH_ORDER.flatMap((kind) =>
      this.#types[kind].listRejections().map(({ name, message }) => ({ kind, name, message })),
    );
  }

  // Envoy asks for the hosts of a table by asking for the table (VHDS, namespace matching): it keeps what it was sent while it
  // holds the table, over streams, and waits for the first word of a table that is new to it.
  #followTables({ subscribe, unsubscribe, initialVersions }: AdsRequest, isFirst: boolean): void {
    const { host } = this.#types;
    for (const table of unsubscribe) if (this.#hasTable(table)) host.dropAll(hostName(table, ''));
    for (const table of subscribe) {
      if (!this.#hasTable(table)) continue;
      const isResumed = isFirst && Object.hasOwn(initialVersions, table);
      if (isResumed) this.#resumed.add(table);
      else {
        this.#resumed.delete(table);
        host.startOver(hostName(table, ''));
      }
    }
  }

  // Others have no hosts, however many a client makes up.
  #hasTable(name: string): boolean {
    return this.#snapshot?.resources.routes.has(name) === true;
  }

  // What Envoy brings along of a table that it asks for anew is of an earlier time: it does not have it any more.
  #greetTables(): void {
    const { host, routes } = this.#types;
    for (const table of this.#snapshot?.resources.routes.keys() ?? []) {
      if (!routes.isSubscribed(table)) continue;
      const prefix = hostName(table, '');
      if (!this.#resumed.has(table) || !host.hasSent(prefix)) host.startOver(prefix);
    }
  }

  // An acknowledgement or refusal of the response in flight; anything else is a subscription only.
  #settle(type: AdsType, request: AdsRequest): readonly Rejection[] {
    const sent = type.takeFlight(request.nonce, request.error !== undefined);
    if (sent === undefined) return [];
    if (request.error === undefined) {
      type.accept(sent.names);
      return [];
    }
    const { error } = request;
    const refused = type.isAtomic ? new Map(sent.names.map((name) => [name, error])) : splitRefusal(error, sent.names);
    type.accept(sent.names.filter((name) => !refused.has(name)));
    type.refuse(refused);
    return [...refused].map(([name, message]) => ({ kind: request.kind, name, message }));
  }

  // Updates in push order, all at once, and with them the listeners that go: their sockets hold a namespace that is ending. Other
  // removals only when every update is acknowledged, one kind at a time, in reverse.
  #pump(): readonly AdsResponse[] {
    const snapshot = this.#snapshot;
    if (snapshot === undefined) return [];
    const updates = PUSH_ORDER.flatMap((kind) => this.#update(kind, snapshot) ?? []);
    if (updates.length > 0 || PUSH_ORDER.some((kind) => this.#types[kind].isInFlight)) return updates;
    for (const kind of PUSH_ORDER.toReversed()) {
      const removed = this.#types[kind].listRemovals(snapshot.resources[kind]);
      if (removed.length > 0) return [this.#send(kind, { resources: [], removed })];
    }
    return [];
  }

  #update(kind: ResourceKind, snapshot: Snapshot): AdsResponse | undefined {
    const update = this.#types[kind].takeUpdate(snapshot.resources[kind]);
    if (update === undefined) return undefined;
    for (const { edsName } of update.resources) {
      // A new or changed cluster warms until it gets endpoints, and Envoy does not ask again for a name that it already
      // watches (for this cluster, or for another of the same name): they are sent again right behind it.
      if (edsName !== undefined) this.#types.endpoints.forget(edsName);
    }
    return this.#send(kind, update);
  }

  #send(kind: ResourceKind, content: Pick<AdsResponse, 'resources' | 'removed'>): AdsResponse {
    this.#nonce += 1;
    const nonce = String(this.#nonce);
    this.#types[kind].launch(nonce, content);
    return { kind, nonce, ...content };
  }
}
