// The snapshot that every Envoy stream converges to, and what each Envoy made of it.
import type { Log } from '../core/log.ts';
import type { ResourceKind, Snapshot } from '../xds/resource.ts';
import type { AdsRequest, AdsResponse } from './ads-session.ts';
import type { Clock } from './deps.ts';
import type { AckResult, ResourceName, SnapshotPublisher } from './publisher.ts';

export interface SnapshotCacheOptions {
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Whether a name that is in no snapshot may still come (a certificate being issued): Envoy is kept waiting. Otherwise
   * it is told at once that there is no such resource. Call `refresh` when an answer changes.
   */
  readonly isPending?: (kind: ResourceKind, name: string) => boolean;
}

/** One resource that Envoy refuses at its current version, in Envoy's words. */
export interface Rejection extends ResourceName {
  readonly message: string;
}

/** One stream: the adapter hands in requests and gets the responses through `send`. */
export interface AdsStream {
  receive(request: AdsRequest): void;
  close(): void;
}

export class SnapshotCache implements SnapshotPublisher {
  readonly #options: SnapshotCacheOptions;

  constructor(options: SnapshotCacheOptions) {
    this.#options = options;
  }

  get snapshot(): Snapshot | undefined {
    return undefined;
  }

  /** Number of Envoys connected. */
  get streams(): number {
    return 0;
  }

  publish(_snapshot: Snapshot): void {
    this.#options.log.debug('xds.publish');
  }

  /** Asks `isPending` again about every name that Envoy waits for. */
  refresh(): void {}

  waitForAck(_names: readonly ResourceName[], _options: { readonly timeoutMs: number }): Promise<AckResult> {
    return Promise.resolve({ kind: 'disconnected' });
  }

  /** What Envoy refuses now, by kind and name. */
  listRejections(): readonly Rejection[] {
    return [];
  }

  openStream(_send: (response: AdsResponse) => void): AdsStream {
    return { receive: () => {}, close: () => {} };
  }
}
