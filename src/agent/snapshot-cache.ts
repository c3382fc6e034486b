// The snapshot that every Envoy stream converges to, and what each Envoy made of it.
import type { Log } from '../core/log.ts';
import type { ResourceKind, Snapshot } from '../xds/resource.ts';
import { AckTracker } from './ack-tracker.ts';
import type { AckState, AdsRequest, AdsResponse, Rejection } from './ads-protocol.ts';
import { AdsSession } from './ads-session.ts';
import type { Clock } from './deps.ts';
import { ListenerRetry } from './listener-retry.ts';
import type { AckResult, ResourceName, SnapshotPublisher } from './publisher.ts';

export interface SnapshotCacheOptions {
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Whether a name that is in no snapshot may still come (a certificate being issued): Envoy is kept waiting. Otherwise
   * it is told at once that there is no such resource. Call `refresh` when an answer changes.
   */
  readonly isPending?: (kind: ResourceKind, name: string) => boolean;
  /** An Envoy asks for a resource by name, also for one that there is; called before it is answered. */
  readonly onAsk?: (kind: ResourceKind, name: string) => void;
}

/** One stream: the adapter hands in requests; responses come through the `send` given at its opening. */
export interface AdsStream {
  receive(request: AdsRequest): void;
  close(): void;
}

interface Connection {
  readonly session: AdsSession;
  readonly send: (response: AdsResponse) => void;
  readonly retry: ListenerRetry;
}

/** Silent until the first snapshot: an empty answer would wipe Envoy's listeners. */
export class SnapshotCache implements SnapshotPublisher {
  readonly #options: SnapshotCacheOptions;
  readonly #connections = new Set<Connection>();
  readonly #tracker: AckTracker;
  #snapshot: Snapshot | undefined;

  constructor(options: SnapshotCacheOptions) {
    this.#options = options;
    this.#tracker = new AckTracker({ clock: options.clock, stateOf: (name) => this.#stateOf(name) });
  }

  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** Number of Envoys connected. */
  get streams(): number {
    return this.#connections.size;
  }

  publish(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
    this.#toAll((session) => session.publish(snapshot));
  }

  /** Asks `isPending` again about every name that Envoy waits for. */
  refresh(): void {
    this.#toAll((session) => session.refresh());
  }

  /** Resolves `disconnected` only when the time is over and no Envoy came. */
  waitForAck(names: readonly ResourceName[], options: { readonly timeoutMs: number }): Promise<AckResult> {
    return this.#tracker.wait(names, options);
  }

  /** What Envoy refuses now, in its words. */
  listRejections(): readonly Rejection[] {
    return [...this.#connections].flatMap(({ session }) => session.listRejections());
  }

  /** What connected Envoys ask for by name, beside the wildcard. */
  *listAsked(kind: ResourceKind): Iterable<string> {
    for (const { session } of this.#connections) yield* session.listAsked(kind);
  }

  /** It counts as an Envoy from its first request on: who only connects keeps nobody waiting. */
  openStream(send: (response: AdsResponse) => void): AdsStream {
    let connection: Connection | undefined;
    let isOver = false;
    return {
      receive: (request) => {
        if (isOver) return;
        connection ??= this.#connect(send);
        this.#receive(connection, request);
      },
      close: () => {
        isOver = true;
        if (connection !== undefined) this.#close(connection);
      },
    };
  }

  #connect(send: Connection['send']): Connection {
    const isPending = this.#options.isPending ?? (() => false);
    const session = new AdsSession(this.#snapshot, { isPending });
    const retry = new ListenerRetry({
      clock: this.#options.clock,
      resend: (name) => this.#deliver(connection, session.resend({ kind: 'listener', name })),
    });
    const connection: Connection = { session, send, retry };
    this.#connections.add(connection);
    this.#options.log.info('xds.stream.open', { streams: this.streams });
    return connection;
  }

  #receive(connection: Connection, request: AdsRequest): void {
    for (const name of request.subscribe) if (name !== '*') this.#options.onAsk?.(request.kind, name);
    const { responses, rejections } = connection.session.receive(request);
    for (const { kind, name, message } of rejections) {
      this.#options.log.warn('xds.rejected', { resourceKind: kind, name, message });
      if (kind === 'listener') connection.retry.refused(name, message);
    }
    this.#deliver(connection, responses);
  }

  #close(connection: Connection): void {
    if (!this.#connections.delete(connection)) return;
    connection.retry[Symbol.dispose]();
    this.#options.log.info('xds.stream.close', { streams: this.streams });
    this.#tracker.check();
  }

  #toAll(step: (session: AdsSession) => readonly AdsResponse[]): void {
    for (const connection of this.#connections) {
      for (const response of step(connection.session)) connection.send(response);
    }
    this.#tracker.check();
  }

  #deliver(connection: Connection, responses: readonly AdsResponse[]): void {
    for (const response of responses) connection.send(response);
    this.#tracker.check();
  }

  // With several Envoys the worst state counts: refused, then waiting, then taken by all.
  #stateOf(name: ResourceName): AckState | undefined {
    const states = [...this.#connections].map(({ session }) => session.stateOf(name));
    return states.find(({ kind }) => kind === 'rejected') ?? states.find(({ kind }) => kind === 'waiting') ?? states[0];
  }
}
