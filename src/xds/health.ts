// How Envoy sees whether a pod's application is well, and where it says so: a cluster `health_<pod>` that checks the primary
// port from inside the pod's namespace, and the gateway, a listener on a Unix socket that the agent asks.
//   GET /healthz/health_<pod>   200 healthy, 503 not, 404 Envoy does not have the pod (yet)
//   GET /healthz/all            200 when all of them are healthy
import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { AnySchema } from '@bufbuild/protobuf/wkt';
import { type Cluster, Cluster_DiscoveryType, ClusterSchema } from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { HealthCheckSchema as CheckSchema } from '../gen/envoy/config/core/v3/health_check_pb.js';
import { type Listener, ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { HealthCheckSchema } from '../gen/envoy/extensions/filters/http/health_check/v3/health_check_pb.js';
import { HttpConnectionManagerSchema } from '../gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { CodecClientType } from '../gen/envoy/type/v3/http_pb.js';
import { HEALTH_GATEWAY, healthClusterName } from '../mesh/names.ts';
import { reachApp } from './app-address.ts';
import { joinBytes } from './encode-resource.ts';
import { BUFFER_LIMIT_BYTES, milliseconds } from './envoy-values.ts';
import { type AnswerInit, answerInit, answerPath, mustBeHealthy, router } from './http-filters.ts';
import type { NodePod } from './input.ts';
import type { ListenerFacts } from './resource-facts.ts';
import { answerStatus } from './route-actions.ts';
import { stampedBytes } from './stamped-bytes.ts';

/** Answered 200 while every pod that Envoy has is healthy. */
export const ALL_HEALTHY_PATH = '/healthz/all';
export const podHealthPath = (pod: string): string => `/healthz/${healthClusterName(pod)}`;

const TIMEOUT_MS = 1000;
const HEALTHY_INTERVAL_MS = 1000;
/** An application that has just started is noticed sooner than one that ends. */
const UNHEALTHY_INTERVAL_MS = 500;

/** Never gets traffic: only its checks count. */
export function buildHealthCluster(pod: NodePod): Cluster {
  const { resourceName, ports, healthPath } = pod;
  const name = healthClusterName(resourceName);
  const primary = ports.served.find(({ port }) => port === ports.primary);
  return create(ClusterSchema, {
    name,
    clusterDiscoveryType: { case: 'type', value: Cluster_DiscoveryType.STATIC },
    connectTimeout: milliseconds(TIMEOUT_MS),
    perConnectionBufferLimitBytes: BUFFER_LIMIT_BYTES,
    ...reachApp(name, pod, ports.primary),
    healthChecks: [create(CheckSchema, { ...RHYTHM, ...checker(primary, healthPath ?? '/') })],
  });
}

// Every interval is given: without traffic Envoy's own default is a minute, and this cluster never has any.
const RHYTHM = {
  timeout: milliseconds(TIMEOUT_MS),
  interval: milliseconds(HEALTHY_INTERVAL_MS),
  noTrafficHealthyInterval: milliseconds(HEALTHY_INTERVAL_MS),
  healthyEdgeInterval: milliseconds(HEALTHY_INTERVAL_MS),
  unhealthyInterval: milliseconds(UNHEALTHY_INTERVAL_MS),
  unhealthyEdgeInterval: milliseconds(UNHEALTHY_INTERVAL_MS),
  noTrafficInterval: milliseconds(UNHEALTHY_INTERVAL_MS),
  initialJitter: milliseconds(1),
  healthyThreshold: 1,
  unhealthyThreshold: 2,
};

// A server that speaks HTTP/2 only (gRPC) has no page at "/": there a connection is all that can be asked for.
function checker(
  primary: NodePod['ports']['served'][number] | undefined,
  path: string,
): MessageInitShape<typeof CheckSchema> {
  const speaksH2 = primary?.protocol === 'http' && primary.codec === 'h2';
  if (primary?.protocol !== 'http' || (speaksH2 && path === '/'))
    return { healthChecker: { case: 'tcpHealthCheck', value: {} } };
  const codecClientType = speaksH2 ? CodecClientType.HTTP2 : CodecClientType.HTTP1;
  return { healthChecker: { case: 'httpHealthCheck', value: { host: 'localhost', path, codecClientType } } };
}

/**
 * The gateway for all pods of the node. Its socket is Envoy's; whoever may ask is decided by the directory. What is a pod's is
 * encoded once, not at every change of another, and joined (encode-resource.ts says why that holds).
 */
export function buildHealthGateway(pods: readonly NodePod[], socketPath: string): Listener {
  const pieces = pods.map(piecesOf);
  const all = joinBytes([ALL_HEAD, ...pieces.map(({ judged }) => judged), ALL_TAIL]);
  const answerAll = encodeFilters([
    { name: 'all', configType: { case: 'typedConfig', value: packed(HealthCheckSchema, all) } },
  ]);
  const manager = joinBytes([HEAD, answerAll, ...pieces.map(({ answer }) => answer), LAST]);
  const filters = [
    {
      name: 'envoy.http_connection_manager',
      configType: { case: 'typedConfig' as const, value: packed(HttpConnectionManagerSchema, manager) },
    },
  ];
  return create(ListenerSchema, {
    name: HEALTH_GATEWAY,
    statPrefix: HEALTH_GATEWAY,
    bypassOverloadManager: true,
    address: { address: { case: 'pipe', value: { path: socketPath, mode: 0o600 } } },
    filterChains: [{ name: HEALTH_GATEWAY, filters }],
  });
}

/** What it says of itself. */
export function healthGatewayFacts(pods: readonly NodePod[], socketPath: string): ListenerFacts {
  const clusters = pods.map(({ resourceName }) => healthClusterName(resourceName));
  const none = { chosenChains: [], portlessChains: [], serverNames: [], routes: [] };
  return { addresses: [socketPath], chains: [HEALTH_GATEWAY], clusters, ...none };
}

type ManagerInit = MessageInitShape<typeof HttpConnectionManagerSchema>;

const encodeManager = (init: ManagerInit): Uint8Array =>
  toBinary(HttpConnectionManagerSchema, create(HttpConnectionManagerSchema, init));
const encodeFilters = (httpFilters: NonNullable<ManagerInit['httpFilters']>): Uint8Array =>
  encodeManager({ httpFilters });

function packed({ typeName }: DescMessage, value: Uint8Array) {
  return create(AnySchema, { typeUrl: `type.googleapis.com/${typeName}`, value });
}

const HEAD = encodeManager({
  statPrefix: HEALTH_GATEWAY,
  routeSpecifier: {
    case: 'routeConfig',
    value: {
      name: HEALTH_GATEWAY,
      virtualHosts: [{ name: 'none', domains: ['*'], routes: [answerStatus({ prefix: '/' }, 404)] }],
    },
  },
});
const LAST = encodeFilters([router()]);

const encodeAnswer = (check: AnswerInit): Uint8Array => toBinary(HealthCheckSchema, create(HealthCheckSchema, check));
const { headers: ALL_HEADERS, ...ALL_MODE } = answerInit(ALL_HEALTHY_PATH);
const ALL_HEAD = encodeAnswer(ALL_MODE);
const ALL_TAIL = encodeAnswer({ headers: ALL_HEADERS });

/** Of one pod: the filter that answers for it, and its part of the answer for all. */
interface Pieces {
  readonly answer: Uint8Array;
  readonly judged: Uint8Array;
}

const known = new WeakMap<NodePod, Pieces>();
const encodePodAnswer = stampedBytes((name) =>
  encodeFilters([answerPath(podHealthPath(name), { name, healthy: [healthClusterName(name)] })]),
);
const encodeJudged = stampedBytes((name) =>
  encodeAnswer({ clusterMinHealthyPercentages: mustBeHealthy([healthClusterName(name)]) }),
);

function piecesOf(pod: NodePod): Pieces {
  const { resourceName: name } = pod;
  const pieces = known.get(pod) ?? { answer: encodePodAnswer(name), judged: encodeJudged(name) };
  known.set(pod, pieces);
  return pieces;
}
