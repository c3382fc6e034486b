// Resources as Envoy's own JSON (proto3 JSON, names as in the .proto files): for goldens, `snapshot`, bug reports. What is
// printed so is what `envoy --mode validate` reads. Private keys are left out.
import { create, createRegistry, fromBinary, type JsonValue, type Registry, toJson } from '@bufbuild/protobuf';
import { StringValueSchema } from '@bufbuild/protobuf/wkt';
import { FileAccessLogSchema } from '../gen/envoy/extensions/access_loggers/file/v3/file_pb.js';
import { OpenTelemetryAccessLogConfigSchema } from '../gen/envoy/extensions/access_loggers/open_telemetry/v3/logs_service_pb.js';
import { ConfigSchema as StatsLoggerSchema } from '../gen/envoy/extensions/access_loggers/stats/v3/stats_pb.js';
import { StdoutAccessLogSchema } from '../gen/envoy/extensions/access_loggers/stream/v3/stream_pb.js';
import { ConfigSchema as HeaderToMetadataSchema } from '../gen/envoy/extensions/filters/http/header_to_metadata/v3/header_to_metadata_pb.js';
import { HealthCheckSchema } from '../gen/envoy/extensions/filters/http/health_check/v3/health_check_pb.js';
import { OnDemandSchema } from '../gen/envoy/extensions/filters/http/on_demand/v3/on_demand_pb.js';
import { RouterSchema } from '../gen/envoy/extensions/filters/http/router/v3/router_pb.js';
import { HttpInspectorSchema } from '../gen/envoy/extensions/filters/listener/http_inspector/v3/http_inspector_pb.js';
import { OriginalDstSchema } from '../gen/envoy/extensions/filters/listener/original_dst/v3/original_dst_pb.js';
import { TlsInspectorSchema } from '../gen/envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector_pb.js';
import { HttpConnectionManagerSchema } from '../gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { ConfigSchema as SetFilterStateSchema } from '../gen/envoy/extensions/filters/network/set_filter_state/v3/set_filter_state_pb.js';
import { TcpProxySchema } from '../gen/envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy_pb.js';
import { HeaderMutationSchema } from '../gen/envoy/extensions/http/early_header_mutation/header_mutation/v3/header_mutation_pb.js';
import {
  ApplicationProtocolInputSchema,
  DestinationIPInputSchema,
  DestinationPortInputSchema,
  TransportProtocolInputSchema,
} from '../gen/envoy/extensions/matching/common_inputs/network/v3/network_inputs_pb.js';
import { IpSchema } from '../gen/envoy/extensions/matching/input_matchers/ip/v3/ip_pb.js';
import { PreviousHostsPredicateSchema } from '../gen/envoy/extensions/retry/host/previous_hosts/v3/previous_hosts_pb.js';
import { ConfigSchema as FilterStateMapperSchema } from '../gen/envoy/extensions/transport_sockets/tls/cert_mappers/filter_state_override/v3/config_pb.js';
import { StaticNameSchema } from '../gen/envoy/extensions/transport_sockets/tls/cert_mappers/static_name/v3/config_pb.js';
import { ConfigSchema as SelectorSchema } from '../gen/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3/config_pb.js';
import { type Secret, SecretSchema } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret_pb.js';
import {
  DownstreamTlsContextSchema,
  UpstreamTlsContextSchema,
} from '../gen/envoy/extensions/transport_sockets/tls/v3/tls_pb.js';
import { HttpProtocolOptionsSchema } from '../gen/envoy/extensions/upstreams/http/v3/http_protocol_options_pb.js';
import { SCHEMAS } from './encode-resource.ts';
import type { Resource } from './resource.ts';

// Every message that a resource of ours carries inside an Any.
const REGISTRY: Registry = createRegistry(
  FileAccessLogSchema,
  OpenTelemetryAccessLogConfigSchema,
  StdoutAccessLogSchema,
  ApplicationProtocolInputSchema,
  DestinationIPInputSchema,
  DestinationPortInputSchema,
  DownstreamTlsContextSchema,
  FilterStateMapperSchema,
  HeaderMutationSchema,
  HeaderToMetadataSchema,
  HealthCheckSchema,
  HttpConnectionManagerSchema,
  HttpInspectorSchema,
  HttpProtocolOptionsSchema,
  IpSchema,
  OnDemandSchema,
  OriginalDstSchema,
  PreviousHostsPredicateSchema,
  RouterSchema,
  SelectorSchema,
  SetFilterStateSchema,
  StatsLoggerSchema,
  StaticNameSchema,
  StringValueSchema,
  TcpProxySchema,
  TlsInspectorSchema,
  TransportProtocolInputSchema,
  UpstreamTlsContextSchema,
);

/** The resource as JSON; throws on bytes that are not its message. */
export function formatResource(resource: Resource): JsonValue {
  const options = { registry: REGISTRY, useProtoFieldName: true };
  if (resource.kind === 'secret') {
    return toJson(SecretSchema, withoutPrivateKey(fromBinary(SecretSchema, resource.bytes)), options);
  }
  const schema = SCHEMAS[resource.kind];
  return toJson(schema, fromBinary(schema, resource.bytes), options);
}

function withoutPrivateKey(secret: Secret): Secret {
  if (secret.type.case !== 'tlsCertificate') return secret;
  const { certificateChain } = secret.type.value;
  return create(SecretSchema, {
    name: secret.name,
    type: { case: 'tlsCertificate', value: { ...(certificateChain === undefined ? {} : { certificateChain }) } },
  });
}
