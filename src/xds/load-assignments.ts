// ClusterLoadAssignments of a service: who serves each of its ports. One owner for each name: the HTTP default, an HTTP
// port, or a TCP port shared by all addresses of the service.
import { create, type JsonObject, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { compareText } from '../core/compare.ts';
import { HealthStatus } from '../gen/envoy/config/core/v3/health_check_pb.js';
import type { LocalityLbEndpointsSchema } from '../gen/envoy/config/endpoint/v3/endpoint_components_pb.js';
import { ClusterLoadAssignmentSchema } from '../gen/envoy/config/endpoint/v3/endpoint_pb.js';
import { INBOUND_PORT } from '../mesh/constants.ts';
import type { Endpoint, Health } from '../mesh/endpoint.ts';
import { httpClusterName, httpDefaultEdsName, tcpEdsName } from '../mesh/names.ts';
import type { PortBucket, ServiceView } from '../mesh/service-view.ts';
import { joinBytes } from './encode-resource.ts';
import { socketAddress } from './envoy-values.ts';
import type { NodeSettings } from './input.ts';
import { listOwnHttpPorts } from './service-clusters.ts';
import { StampedBytes } from './stamped-bytes.ts';

/** An encoded ClusterLoadAssignment. */
export interface LoadAssignment {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** The assignments behind buildServiceClusters, exactly one for each EDS name that those clusters wait for. */
export function encodeLoadAssignments(view: ServiceView, node: NodeSettings): readonly LoadAssignment[] {
  const one = (name: string, bucket: PortBucket) => loadAssignment(name, bucket, node);
  const http = view.httpDefault === undefined ? [] : [one(httpDefaultEdsName(view.key), view.httpDefault)];
  const own = http.length === 0 ? [] : listOwnHttpPorts(view);
  const tcp = node.identity === 'mtls' && view.vips.length > 0 ? view.tcp : [];
  return [
    ...http,
    ...own.map((bucket) => one(httpClusterName(view.fqdn, bucket.port), bucket)),
    ...tcp.map((bucket) => one(tcpEdsName(view.fqdn, bucket.port), bucket)),
  ];
}

// An endpoint is the same in each: it is encoded once, and joined (encode-resource.ts says why that holds).
function loadAssignment(clusterName: string, bucket: PortBucket, node: NodeSettings): LoadAssignment {
  const endpoints = bucket.endpoints.map((endpoint) => encodeEndpoint(endpoint, node));
  return { name: clusterName, bytes: joinBytes([encodeName(clusterName), ...endpoints]) };
}

const encode = (init: MessageInitShape<typeof ClusterLoadAssignmentSchema>): Uint8Array =>
  toBinary(ClusterLoadAssignmentSchema, create(ClusterLoadAssignmentSchema, init));

/** Of services that change now and then; those of all others are not kept. */
const RECENT_ENDPOINTS = 512;

const recents = new WeakMap<NodeSettings, { young: Map<Endpoint, Uint8Array>; old: Map<Endpoint, Uint8Array> }>();

function encodeEndpoint(endpoint: Endpoint, node: NodeSettings): Uint8Array {
  const recent = recents.get(node) ?? { young: new Map(), old: new Map() };
  recents.set(node, recent);
  const known = recent.young.get(endpoint);
  if (known !== undefined) return known;
  const bytes = recent.old.get(endpoint) ?? makeEndpoint(endpoint, node);
  recent.young.set(endpoint, bytes);
  if (recent.young.size >= RECENT_ENDPOINTS) recents.set(node, { young: new Map(), old: recent.young });
  return bytes;
}

const stamps = { name: new StampedBytes(), endpoint: new StampedBytes() };

function encodeName(name: string): Uint8Array {
  return stamps.name.encode({ texts: [name], make: ([clusterName = '']) => encode({ clusterName }) });
}

function makeEndpoint(endpoint: Endpoint, node: NodeSettings): Uint8Array {
  const { ip, clusterName, namespace, podName, health, healthCheckMode, weight, locality, metadata } = endpoint;
  const priority = priorityOf(endpoint, node);
  return stamps.endpoint.encode({
    texts: [ip, clusterName, namespace, podName],
    key: JSON.stringify([health, healthCheckMode, weight, locality, metadata, priority]),
    make: ([ip = '', clusterName = '', namespace = '', podName = '']) => {
      const renamed = { ...endpoint, ip, clusterName, namespace, podName };
      return encode({ endpoints: [localityEndpoint(renamed, node)] });
    },
  });
}

// A locality each, so that every endpoint has its own priority; the bucket is already sorted by address.
function localityEndpoint(endpoint: Endpoint, node: NodeSettings): MessageInitShape<typeof LocalityLbEndpointsSchema> {
  return {
    priority: priorityOf(endpoint, node),
    ...localityOf(endpoint),
    lbEndpoints: [
      {
        hostIdentifier: {
          case: 'endpoint',
          value: {
            address: { address: { case: 'socketAddress', value: socketAddress(endpoint.ip, INBOUND_PORT) } },
            healthCheckConfig: { disableActiveHealthCheck: endpoint.healthCheckMode === 'eds' },
          },
        },
        healthStatus: HEALTH[endpoint.health],
        // Earlier writers may have left it out; Envoy's weights start at 1.
        loadBalancingWeight: Math.max(1, endpoint.weight),
        metadata: { filterMetadata: { 'envoy.lb': describe(endpoint) } },
      },
    ],
  };
}

const HEALTH: Readonly<Record<Health, HealthStatus>> = {
  unspecified: HealthStatus.HEALTHY,
  healthy: HealthStatus.HEALTHY,
  unhealthy: HealthStatus.UNHEALTHY,
  draining: HealthStatus.DRAINING,
};

function localityOf({ locality }: Endpoint) {
  const { region, zone } = locality;
  return region === '' || zone === '' ? {} : { locality: { region, zone } };
}

// Nearer first: same zone 0, same region 1, another region 2. Where either side does not know, nothing is preferred.
function priorityOf({ locality }: Endpoint, { locality: own }: NodeSettings): number {
  if (!own?.region || locality.region === '') return 0;
  if (locality.region !== own.region) return 2;
  return own.zone === '' || locality.zone === own.zone ? 0 : 1;
}

// What subsets and filters see. Ours come last: an author who could set `ip` or `pod` would attract others' pinned traffic.
function describe(endpoint: Endpoint): JsonObject {
  const authored = Object.entries(endpoint.metadata).filter(([key]) => key !== 'waypoint');
  const ours = [
    ['cluster', endpoint.clusterName],
    ['ip', endpoint.ip],
    ['namespace', endpoint.namespace],
    ['pod', endpoint.podName],
  ] as const;
  const all = new Map<string, string>([...authored, ...ours]);
  return Object.fromEntries([...all].sort(([a], [b]) => compareText(a, b)));
}
