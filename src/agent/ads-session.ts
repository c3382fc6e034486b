// One delta ADS stream as a state machine: requests and snapshots in, responses and acknowledgements out. No I/O.
import type { Resource, ResourceKind } from '../xds/resource.ts';

/** A DeltaDiscoveryRequest. */
export interface AdsRequest {
  readonly kind: ResourceKind;
  readonly subscribe: readonly string[];
  readonly unsubscribe: readonly string[];
  /** What Envoy still has from an earlier stream: name to version. */
  readonly initialVersions: Readonly<Record<string, string>>;
  /** Empty where the request answers no response. */
  readonly nonce: string;
  /** Envoy's words where it refuses (NACK). */
  readonly error?: string;
}

/** A DeltaDiscoveryResponse. */
export interface AdsResponse {
  readonly kind: ResourceKind;
  readonly nonce: string;
  readonly resources: readonly Resource[];
  readonly removed: readonly string[];
}
