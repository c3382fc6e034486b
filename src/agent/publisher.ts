// The agent's side of ADS: publish a snapshot, learn what Envoy made of it.
import type { ResourceKind, Snapshot } from '../xds/resource.ts';

export interface ResourceName {
  readonly kind: ResourceKind;
  readonly name: string;
}

/** `acknowledged`: Envoy has each at the published version. `rejected`: with Envoy's words per resource. */
export type AckResult =
  | { readonly kind: 'acknowledged' }
  | { readonly kind: 'rejected'; readonly resources: readonly { readonly name: string; readonly message: string }[] }
  | { readonly kind: 'timeout'; readonly waitingFor: readonly string[] }
  /** No Envoy is connected. */
  | { readonly kind: 'disconnected' };

export interface SnapshotPublisher {
  /** Number of Envoys connected. */
  readonly streams: number;
  /** Makes this the snapshot that every stream converges to; returns at once. */
  publish(snapshot: Snapshot): void;
  /** What was kept waiting may have been decided. */
  refresh?(): void;
  /** What connected Envoys ask for by name, beside the wildcard. */
  listAsked?(kind: ResourceKind): Iterable<string>;
  /**
   * Waits until Envoy took (or refused) the current version of each named resource, present or removed. `disconnected`
   * only when the time is over and no Envoy came.
   */
  waitForAck(names: readonly ResourceName[], options: { readonly timeoutMs: number }): Promise<AckResult>;
}
