// What is said on a delta ADS stream, free of protobuf, and where a resource can stand with an Envoy.
import type { Resource, ResourceKind } from '../xds/resource.ts';
import type { ResourceName } from './publisher.ts';

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

/** One resource that Envoy refuses at its current version, in Envoy's words. */
export interface Rejection extends ResourceName {
  readonly message: string;
}

/** What a request led to: responses to send, in order, and what Envoy has just refused. */
export interface AdsStep {
  readonly responses: readonly AdsResponse[];
  readonly rejections: readonly Rejection[];
}

/** Where one resource stands with this Envoy. */
export type AckState =
  | { readonly kind: 'acknowledged' }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'rejected'; readonly message: string };
