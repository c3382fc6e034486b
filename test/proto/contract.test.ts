// The wire that the Go mesh speaks, field by field: a number or type that moves here breaks a node with halves of both.
import { create, type DescMessage, fromBinary, fromJson, ScalarType, toBinary, toJson } from '@bufbuild/protobuf';
import t from 'tap';
import { AddPodResponse_Result, CNIPodSchema, RemovePodRequestSchema } from '../../src/gen/aether/cni/v1/cni_pb.js';
import {
  EventType,
  UnregisterEndpointRequestSchema,
  WatchEndpointsRequestSchema,
  WatchEndpointsResponseSchema,
} from '../../src/gen/aether/registrar/v1/registrar_pb.js';
import {
  GammaRedirectSchema,
  GammaRouteSchema,
  ServiceConfigProjectionSchema,
} from '../../src/gen/aether/registry/v1/config_pb.js';
import {
  Service_Protocol,
  ServiceEndpoint_Health,
  ServiceEndpoint_KubernetesMetadataSchema,
  ServiceEndpointSchema,
  ServiceSchema,
} from '../../src/gen/aether/registry/v1/service_pb.js';
import { ListenerSchema } from '../../src/gen/envoy/config/listener/v3/listener_pb.js';

/** `1 name string`, `8 pid google.protobuf.UInt32Value`, `6 labels map<string, string>`; a `*` marks a list. */
function describeFields(message: DescMessage): string[] {
  return message.fields.map((field) => {
    const scalar = (type: ScalarType): string => ScalarType[type].toLowerCase();
    const value =
      field.message?.typeName ??
      field.enum?.typeName ??
      ('scalar' in field && field.scalar ? scalar(field.scalar) : '?');
    const type = field.fieldKind === 'map' ? `map<${scalar(field.mapKey)}, ${value}>` : value;
    return `${field.number} ${field.name} ${type}${field.fieldKind === 'list' ? '*' : ''}`;
  });
}

const messages: ReadonlyArray<readonly [DescMessage, readonly string[]]> = [
  [
    CNIPodSchema,
    [
      '1 name string',
      '2 namespace string',
      '3 network_namespace string',
      '4 container_id string',
      '5 ips string*',
      '6 labels map<string, string>',
      '7 annotations map<string, string>',
      '8 pid google.protobuf.UInt32Value',
      '9 service_account string',
      '10 terminating bool',
      '11 uid string',
    ],
  ],
  [RemovePodRequestSchema, ['1 name string', '2 namespace string', '4 container_id string']],
  [
    ServiceEndpointSchema,
    [
      '1 ip string',
      '2 cluster_name string',
      '3 port uint32',
      '4 weight uint32',
      '5 locality aether.registry.v1.ServiceEndpoint.Locality',
      '6 metadata map<string, string>',
      '7 container_metadata aether.registry.v1.ServiceEndpoint.ContainerMetadata',
      '8 kubernetes_metadata aether.registry.v1.ServiceEndpoint.KubernetesMetadata',
      '9 health aether.registry.v1.ServiceEndpoint.Health',
      '10 health_check_mode aether.registry.v1.ServiceEndpoint.HealthCheckMode',
      '11 ports uint32*',
      '12 port_protocols map<uint32, aether.registry.v1.Service.Protocol>',
    ],
  ],
  [
    ServiceEndpoint_KubernetesMetadataSchema,
    ['1 namespace string', '2 pod_name string', '3 node_name string', '5 node_ip string'],
  ],
  [
    ServiceSchema,
    [
      '1 name string',
      '2 protocol aether.registry.v1.Service.Protocol',
      '3 endpoints map<string, aether.registry.v1.ServiceEndpoint>',
    ],
  ],
  [UnregisterEndpointRequestSchema, ['1 service_name string', '2 ips string*']],
  [
    WatchEndpointsRequestSchema,
    [
      '1 cluster_name string',
      '2 node_name string',
      '3 last_version string',
      '4 filter aether.registrar.v1.ServiceFilter',
    ],
  ],
  [
    WatchEndpointsResponseSchema,
    [
      '1 type aether.registrar.v1.EventType',
      '2 service_name string',
      '3 protocol aether.registry.v1.Service.Protocol',
      '4 endpoint aether.registry.v1.ServiceEndpoint',
      '5 version string',
    ],
  ],
  [
    ServiceConfigProjectionSchema,
    [
      '1 service string',
      '2 origin_cluster string',
      '3 version string',
      '4 routes aether.registry.v1.GammaRoute*',
      '5 service_filter aether.registry.v1.ExtensionFilter',
    ],
  ],
  [
    GammaRouteSchema,
    [
      '1 matches aether.registry.v1.GammaMatch*',
      '2 backends aether.registry.v1.GammaBackend*',
      '3 timeout google.protobuf.Duration',
      '4 header_mutation aether.registry.v1.GammaHeaderMutation',
      '5 redirect aether.registry.v1.GammaRedirect',
      '6 url_rewrite aether.registry.v1.GammaUrlRewrite',
      '7 extension_filters aether.registry.v1.ExtensionFilter*',
    ],
  ],
  [
    GammaRedirectSchema,
    [
      '1 scheme string',
      '2 hostname string',
      '3 port uint32',
      '4 status_code uint32',
      '5 path_type string',
      '6 path_value string',
      '7 listener_port uint32',
    ],
  ],
];

for (const [message, fields] of messages) {
  t.test(`${message.typeName} keeps its fields`, async (t) => {
    t.same(describeFields(message), fields);
  });
}

t.test('enum values keep their numbers', async (t) => {
  t.same([Service_Protocol.HTTP, Service_Protocol.TCP], [1, 2]);
  t.match(ServiceEndpoint_Health, { HEALTH_UNSPECIFIED: 0, HEALTHY: 1, UNHEALTHY: 2, DRAINING: 3 });
  t.same([AddPodResponse_Result.SUCCESS, AddPodResponse_Result.ERROR, AddPodResponse_Result.IGNORED], [1, 2, 3]);
  t.match(EventType, { FULL_SNAPSHOT: 1, ENDPOINT_REMOVED: 3, SNAPSHOT_COMPLETE: 5, SERVICE_REMOVED: 7 });
});

t.test('ServiceEndpoint.port_protocols has the bytes of field 12', async (t) => {
  const endpoint = create(ServiceEndpointSchema, { portProtocols: { 9000: Service_Protocol.TCP } });
  // Tag 12 << 3 | 2; entry of 5 bytes: key 1 varint 9000, value 2 varint 2.
  t.same([...toBinary(ServiceEndpointSchema, endpoint)], [0x62, 0x05, 0x08, 0xa8, 0x46, 0x10, 0x02]);
});

t.test('a field that we do not know survives a round trip', async (t) => {
  const later = Uint8Array.from([0x0a, 0x01, 0x61, 0x9a, 0x06, 0x01, 0x62]); // name "a", field 99 "b"
  t.same(toBinary(CNIPodSchema, fromBinary(CNIPodSchema, later)), later);
});

t.test('a pod record has the JSON of the Go mesh', async (t) => {
  const json = { name: 'a', networkNamespace: '/run/aether/netns/c', containerId: 'c', pid: 0 };
  t.same(toJson(CNIPodSchema, fromJson(CNIPodSchema, json)), json, 'the wrapper is a bare number, zero is kept');
});

t.test("Envoy's API has the network namespace of a socket address", async (t) => {
  const address = { socketAddress: { address: '127.0.0.1', portValue: 18001, networkNamespaceFilepath: '/run/x' } };
  t.same(toJson(ListenerSchema, fromJson(ListenerSchema, { address })), { address });
});
