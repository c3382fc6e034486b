// Delta ADS over a Unix socket: Envoy's streams on one side, the snapshot cache on the other. Private keys pass over it.
import { type ServerDuplexStream, status } from '@grpc/grpc-js';
import type { AdsResponse } from '../../agent/ads-protocol.ts';
import type { SnapshotCache } from '../../agent/snapshot-cache.ts';
import { messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { DeltaDiscoveryRequest } from '../../gen/envoy/service/discovery/v3/discovery_pb.js';
import { DELTA_METHOD, readRequest } from './ads-messages.ts';
import { GuardedServer } from './guarded-server.ts';

export interface AdsServerOptions {
  /** Path of the socket; one that nobody answers on is removed first. */
  readonly socketPath: string;
  /** Permissions of the socket: 0o600, or wider for an Envoy that is not root. */
  readonly mode: number;
  readonly cache: SnapshotCache;
  readonly log: Log;
}

export interface AdsServer {
  /** Binds. Only with a complete snapshot published: an empty one wipes the node's listeners. Throws StoreError. */
  start(): Promise<void>;
  /** Ends all streams and removes the socket. */
  close(): Promise<void>;
}

const OPTIONS = {
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 5_000,
  // After a reconnect Envoy lists every resource that it has in one message.
  'grpc.max_receive_message_length': 64 * 1024 * 1024,
} as const;

/** Does not listen yet: nothing may be served before the first snapshot. */
export function createAdsServer(options: AdsServerOptions): AdsServer {
  const server = new GuardedServer(OPTIONS);
  server.grpc.addService(
    { DeltaAggregatedResources: DELTA_METHOD },
    { DeltaAggregatedResources: (call: Call) => serveStream(call, options) },
  );
  return {
    start: () => server.listen(options),
    // A stream lasts as long as Envoy does: there is nothing to wait for.
    close: () => server.close({ graceMs: 0 }),
  };
}

type Call = ServerDuplexStream<DeltaDiscoveryRequest, AdsResponse>;

// Whatever goes wrong on a stream ends that stream alone; Envoy opens another one.
function serveStream(call: Call, { cache, log }: AdsServerOptions): void {
  const stream = cache.openStream((response) => {
    if (!call.writableEnded) call.write(response);
  });
  call.on('data', (message: DeltaDiscoveryRequest) => {
    const request = readRequest(message);
    if (request === undefined) {
      log.warn('xds.request.unknown-type', { typeUrl: message.typeUrl.slice(0, 200) });
      return;
    }
    try {
      stream.receive(request);
    } catch (error) {
      log.error('xds.stream.failed', { error: messageOf(error) });
      stream.close();
      call.emit('error', { code: status.INTERNAL, details: 'the agent failed to answer' });
    }
  });
  call.on('error', (error: unknown) => {
    log.warn('xds.stream.error', { error: messageOf(error) });
    stream.close();
  });
  call.on('cancelled', () => stream.close());
  call.on('end', () => {
    stream.close();
    call.end();
  });
}
