// Delta ADS over a Unix socket: Envoy's streams on one side, the snapshot cache on the other.
import type { SnapshotCache } from '../../agent/snapshot-cache.ts';
import type { Log } from '../../core/log.ts';

export interface AdsServerOptions {
  /** Path of the socket; what lies there is removed first. */
  readonly socketPath: string;
  /** Permissions of the socket: private keys pass over it. */
  readonly mode: number;
  readonly cache: SnapshotCache;
  readonly log: Log;
}

export interface AdsServer {
  /** Binds; listen only with a complete snapshot: an empty one wipes the node's listeners. */
  start(): Promise<void>;
  /** Ends all streams and removes the socket. */
  close(): Promise<void>;
}

export function createAdsServer(_options: AdsServerOptions): AdsServer {
  return { start: () => Promise.resolve(), close: () => Promise.resolve() };
}
