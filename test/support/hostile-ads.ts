// ADS clients of our own: a good one that acknowledges all it gets, and raw ones that send whatever bytes they are given.
import { create, toBinary } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js';
import { DELTA_METHOD, typeUrlOf } from '../../src/adapters/grpc/ads-messages.ts';
import type { AdsResponse } from '../../src/agent/ads-protocol.ts';
import {
  type DeltaDiscoveryRequest,
  DeltaDiscoveryRequestSchema,
} from '../../src/gen/envoy/service/discovery/v3/discovery_pb.js';
import { PUSH_ORDER, type ResourceKind } from '../../src/xds/resource.ts';

/** Takes everything, as Envoy does. */
export interface GoodEnvoy extends Disposable {
  /** Names held now, by kind. */
  readonly held: ReadonlyMap<ResourceKind, ReadonlySet<string>>;
  isOpen(): boolean;
}

export function connectEnvoy(socketPath: string): GoodEnvoy {
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  const stream: ClientDuplexStream<DeltaDiscoveryRequest, AdsResponse> = client.makeBidiStreamRequest(
    DELTA_METHOD.path,
    DELTA_METHOD.requestSerialize,
    DELTA_METHOD.responseDeserialize,
  );
  const held = new Map(PUSH_ORDER.map((kind) => [kind, new Set<string>()] as const));
  let isOpen = true;
  const end = (): void => {
    isOpen = false;
  };
  stream.on('error', end);
  stream.on('end', end);
  stream.on('data', ({ kind, nonce, resources, removed }: AdsResponse) => {
    for (const { name } of resources) held.get(kind)?.add(name);
    for (const name of removed) held.get(kind)?.delete(name);
    stream.write(create(DeltaDiscoveryRequestSchema, { typeUrl: typeUrlOf(kind), responseNonce: nonce }));
  });
  for (const kind of ['cluster', 'listener'] as const) {
    stream.write(create(DeltaDiscoveryRequestSchema, { typeUrl: typeUrlOf(kind) }));
  }
  return {
    held,
    isOpen: () => isOpen,
    [Symbol.dispose]: () => {
      stream.cancel();
      client.close();
    },
  };
}

/** One stream that writes bytes as they are. `ended` settles when the server ends it. */
export interface HostileStream extends Disposable {
  readonly ended: Promise<string>;
  write(bytes: Buffer): void;
  /** Stops reading what the server sends. */
  pause(): void;
}

export function openHostileStream(socketPath: string): HostileStream {
  const options = { 'grpc.use_local_subchannel_pool': 1, 'grpc.max_send_message_length': -1 };
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure(), options);
  const stream = client.makeBidiStreamRequest<Buffer, Buffer>(
    DELTA_METHOD.path,
    (bytes) => bytes,
    (bytes) => bytes,
  );
  const ended = new Promise<string>((resolve) => {
    stream.on('error', (error) => resolve(error.message));
    stream.on('end', () => resolve('end'));
  });
  stream.resume();
  return {
    ended,
    write: (bytes) => void stream.write(bytes),
    pause: () => void stream.pause(),
    [Symbol.dispose]: () => {
      stream.cancel();
      client.close();
    },
  };
}

/** A request in bytes. */
export function encodeAsk(request: Parameters<typeof create<typeof DeltaDiscoveryRequestSchema>>[1]): Buffer {
  return Buffer.from(toBinary(DeltaDiscoveryRequestSchema, create(DeltaDiscoveryRequestSchema, request)));
}
