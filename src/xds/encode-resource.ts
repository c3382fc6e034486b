// Envoy's messages -> resources: bytes and their version. The one place that knows which message is which kind.
import { toBinary } from '@bufbuild/protobuf';
import { type Cluster, ClusterSchema } from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { ClusterLoadAssignmentSchema } from '../gen/envoy/config/endpoint/v3/endpoint_pb.js';
import { type Listener, ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { type VirtualHost, VirtualHostSchema } from '../gen/envoy/config/route/v3/route_components_pb.js';
import { type RouteConfiguration, RouteConfigurationSchema } from '../gen/envoy/config/route/v3/route_pb.js';
import { type Secret, SecretSchema } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.js';
import type { Resource, ResourceKind } from './resource.ts';

/** The message of each kind; its type name is the kind's type URL behind `type.googleapis.com/`. */
export const SCHEMAS = {
  cluster: ClusterSchema,
  endpoints: ClusterLoadAssignmentSchema,
  listener: ListenerSchema,
  routes: RouteConfigurationSchema,
  host: VirtualHostSchema,
  secret: SecretSchema,
} as const satisfies Record<ResourceKind, unknown>;

/** Hash of a resource's bytes: the same in every process, so that an agent that comes back sends nothing twice. */
export type Hash = (bytes: Uint8Array) => string;

export function encodeCluster(cluster: Cluster, hash: Hash): Resource {
  const resource = encode('cluster', cluster.name, { bytes: toBinary(ClusterSchema, cluster), hash });
  const edsName = cluster.edsClusterConfig?.serviceName;
  return edsName === undefined ? resource : { ...resource, edsName };
}

export function encodeListener(listener: Listener, hash: Hash): Resource {
  return encode('listener', listener.name, { bytes: toBinary(ListenerSchema, listener), hash });
}

/** A table without the hosts that come by themselves. */
export function encodeRoutes(table: RouteConfiguration, hash: Hash): Resource {
  return encode('routes', table.name, { bytes: toBinary(RouteConfigurationSchema, table), hash });
}

/** A host of a table: its name begins with the table's, `cap_http/…`, by which Envoy knows where it belongs. */
export function encodeHost(host: VirtualHost, hash: Hash): Resource {
  return encode('host', host.name, { bytes: toBinary(VirtualHostSchema, host), hash });
}

/** One after the other. */
export function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

export function encodeSecret(secret: Secret, hash: Hash): Resource {
  return encode('secret', secret.name, { bytes: toBinary(SecretSchema, secret), hash });
}

/** Of bytes that are encoded already. */
export function makeResource(content: Pick<Resource, 'kind' | 'name' | 'bytes'>, hash: Hash): Resource {
  return { ...content, version: hash(content.bytes) };
}

function encode(
  kind: ResourceKind,
  name: string,
  content: { readonly bytes: Uint8Array; readonly hash: Hash },
): Resource {
  return makeResource({ kind, name, bytes: content.bytes }, content.hash);
}
