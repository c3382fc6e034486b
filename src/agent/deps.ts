// What the resident agent needs of the world. Adapters implement these.

import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import type { Log } from '../core/log.ts';
import type { PodRecord } from '../mesh/workload.ts';
import type { KernelTable } from '../nft/kernel-table.ts';
import type { ElementChange, Table } from '../nft/model.ts';
import type { HeldPin, Namespaces, ReadOptions, ReplaceOptions } from '../plugin/deps.ts';
import type { Registry } from '../registry/contract.ts';
import type { WorkloadCertificate } from '../xds/input.ts';
import type { SnapshotPublisher } from './publisher.ts';
import type { VipLease } from './vip-allocator.ts';

/** Pod records on disk, one file a container id, written atomically. Throws StoreError. */
export interface RecordStore {
  /** All readable records; files that are none are named, not thrown. */
  load(): Promise<{
    readonly records: readonly PodRecord[];
    readonly broken: readonly { readonly file: string; readonly reason: string }[];
  }>;
  put(record: PodRecord): Promise<void>;
  /** Fine when absent. */
  destroy(containerId: string): Promise<void>;
}

/** Leases of service addresses on disk. Throws StoreError. */
export interface VipStore {
  /** `broken` names a file that could not be read as leases and what became of it; it starts anew then. */
  load(): Promise<{ readonly leases: readonly VipLease[]; readonly broken?: string }>;
  save(leases: readonly VipLease[]): Promise<void>;
}

/** Removals that the plugin left on disk while the agent was away. Throws StoreError. */
export interface RemovalQueue {
  /** Container ids whose removal is due, oldest first; files that name none are not ours. */
  list(): Promise<readonly ContainerId[]>;
  /** The runtime's path to the container's namespace; undefined: none was given. Never throws. */
  findNetns(containerId: ContainerId): Promise<NetnsPath | undefined>;
  /** True: the container's pin may not go yet; the removal is due again when it may. */
  postpone(containerId: ContainerId): Promise<boolean>;
  /** Whether one waits, due or not; true as well where that cannot be seen. Looks at once. Never throws. */
  has(containerId: ContainerId): boolean;
  /** The removal is done; fine when absent. */
  destroy(containerId: ContainerId): Promise<void>;
}

/** Issues workload certificates. Throws IdentityError. */
export interface CertificateAuthority {
  readonly trustBundlePem: string;
  /** A fresh key and certificate; `renewAt` is when to ask again, well before it expires. */
  issue(identity: string): Promise<WorkloadCertificate & { readonly renewAt: Date }>;
}

/** Result of one kernel change in one of many namespaces; `error` absent: done. */
export interface NamespaceResult {
  readonly netns: NetnsPath;
  readonly error?: Error;
}

/** The agent's table in the namespaces of its pods. */
export interface MeshTables {
  replaceTable(netns: NetnsPath, table: Table, options?: ReplaceOptions): Promise<void>;
  /** Several in one transaction, with what is besides ours; absent: ours is not put in place, or not so. */
  replaceTogether?(netns: NetnsPath, tables: readonly Table[], options: ReplaceOptions): Promise<void>;
  destroyTable(netns: NetnsPath, name: string): Promise<void>;
  /** The table as the kernel has it; undefined: there is none. Absent: tables are put in place whatever stands there. */
  readTable?(netns: NetnsPath, planned: Table, options?: ReadOptions): Promise<KernelTable | undefined>;
  /** One change, many namespaces; a namespace that is gone fails alone. */
  changeElements(netns: readonly NetnsPath[], change: ElementChange): Promise<readonly NamespaceResult[]>;
}

/** Routes of the agent's own namespace. */
export interface VipRoutes {
  /** Adds a `prohibit` route per range so that what is not captured fails at once. */
  prohibit(ranges: readonly string[]): Promise<void>;
  /** Removes what `prohibit` added; fine when absent. */
  release(ranges: readonly string[]): Promise<void>;
}

export interface Clock {
  now(): Date;
  /** Calls back after the delay unless disposed; keeps no process alive by itself. */
  after(delayMs: number, callback: () => void): Disposable;
}

/** Envoy's listener that says how the pods are (xds/health.ts has its paths). */
export interface HealthGateway {
  /** Status of a GET; rejects when nobody answers within two seconds. */
  ask(path: string): Promise<number>;
}

export interface AgentDeps {
  readonly records: RecordStore;
  readonly vips: VipStore;
  readonly removals: RemovalQueue;
  readonly registry: Registry;
  /** Undefined with identity `none`. */
  readonly authority: CertificateAuthority | undefined;
  readonly namespaces: Namespaces;
  /** Absent: a namespace whose path goes while its pod is added is not found again. */
  readonly holdNetns?: (netns: NetnsPath) => HeldPin | undefined;
  readonly tables: MeshTables;
  readonly publisher: SnapshotPublisher;
  /** Undefined: nobody checks the applications, and every pod counts as healthy. */
  readonly health?: HealthGateway | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Called as often as a change begins, for whoever measures. */
  readonly onWork?: () => void;
}
