// One xDS resource as it goes over the wire, and a snapshot of all of them.
import type { MeshSets } from '../mesh/mesh-sets.ts';

/** `host`: a virtual host of a route table, `cap_http/shop.demo.aether.internal`. */
export type ResourceKind = 'cluster' | 'endpoints' | 'listener' | 'routes' | 'host' | 'secret';

/** Push order: what is referred to comes before what refers to it; removal goes in reverse (envoy.config, ADS). */
export const PUSH_ORDER: readonly ResourceKind[] = ['cluster', 'endpoints', 'listener', 'routes', 'host', 'secret'];

/**
 * `version` is a hash of `bytes` (the encoded message), so that an agent that comes back gives the same resource the
 * same version. `edsName`: of a cluster, the ClusterLoadAssignment that it waits for. `isOnDemand`: sent only to an Envoy
 * that asks for it by name.
 */
export interface Resource {
  readonly kind: ResourceKind;
  readonly name: string;
  readonly version: string;
  readonly bytes: Uint8Array;
  readonly edsName?: string;
  readonly isOnDemand?: boolean;
}

/** All resources by kind and name, and the kernel sets that belong to them. A resource that did not change is the same object. */
export interface Snapshot {
  readonly resources: Readonly<Record<ResourceKind, ReadonlyMap<string, Resource>>>;
  readonly meshSets: MeshSets;
  /** Clusters that hosts name and that are left out on purpose: Envoy asks for them when they are needed. */
  readonly fetchable?: ReadonlySet<string>;
  /** In what it differs from another one, whose resources are named. */
  readonly change?: SnapshotChange;
  /** Names that were built twice: `cluster tcp:10.96.0.50:9000`. Such a snapshot is not fit to publish. */
  readonly conflicts?: readonly `${ResourceKind} ${string}`[];
}

/** Names of resources by kind: new or other than in `since`, and gone. */
export interface SnapshotChange {
  readonly since: Snapshot['resources'];
  readonly changed: Readonly<Partial<Record<ResourceKind, readonly string[]>>>;
  readonly removed: Readonly<Partial<Record<ResourceKind, readonly string[]>>>;
}
