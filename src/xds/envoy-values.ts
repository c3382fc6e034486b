// The small values that every resource is made of: extensions, addresses, durations, where configuration comes from.
import { create, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import { type SocketAddress, SocketAddressSchema } from '../gen/envoy/config/core/v3/address_pb.js';
import { ApiVersion, type ConfigSource, ConfigSourceSchema } from '../gen/envoy/config/core/v3/config_source_pb.js';
import { type Duration, DurationSchema } from '../gen/google/protobuf/duration_pb.js';

/** Buffer of every listener and cluster, bytes (facts of the mesh: 32 KiB). */
export const BUFFER_LIMIT_BYTES = 32768;

/** A named extension: Envoy finds its code by the type of the message, people by the name. */
export function extension<Desc extends DescMessage>(name: string, schema: Desc, init?: MessageInitShape<Desc>) {
  return { name, typedConfig: anyPack(schema, create(schema, init)) };
}

/** The same in the shape of network, listener and HTTP filters and of transport sockets. */
export function filter<Desc extends DescMessage>(name: string, schema: Desc, init?: MessageInitShape<Desc>) {
  return { name, configType: { case: 'typedConfig' as const, value: anyPack(schema, create(schema, init)) } };
}

export function milliseconds(value: number): Duration {
  return create(DurationSchema, { seconds: BigInt(Math.floor(value / 1000)), nanos: (value % 1000) * 1_000_000 });
}

/** An address; with `netns` (a path) the socket is made in that network namespace. */
export function socketAddress(address: string, port: number, options: { readonly netns?: string } = {}): SocketAddress {
  return create(SocketAddressSchema, {
    address,
    portSpecifier: { case: 'portValue', value: port },
    networkNamespaceFilepath: options.netns ?? '',
  });
}

/** The stream that the resource itself came by. */
export function fromAds(): ConfigSource {
  return create(ConfigSourceSchema, {
    resourceApiVersion: ApiVersion.V3,
    configSourceSpecifier: { case: 'ads', value: {} },
  });
}
