// How Envoy sees whether a pod's application is well, and where it says so: a cluster `health_<pod>` that checks the primary
// port from inside the pod's namespace, and the gateway, a listener on a Unix socket that the agent asks.
//   GET /healthz/health_<pod>   200 healthy, 503 not, 404 Envoy does not have the pod (yet)
//   GET /healthz/all            200 when all of them are healthy
import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { AnySchema } from '@bufbuild/protobuf/wkt';
import { type Cluster, Cluster_DiscoveryType, ClusterSchema } from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { HealthCheckSchema as CheckSchema } from '../gen/envoy/config/core/v3/health_check_pb.js';
import { FilterChainSchema, FilterSchema } from '../gen/envoy/config/listener/v3/listener_components_pb.js';
import { ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { HealthCheckSchema } from '../gen/envoy/extensions/filters/http/health_check/v3/health_check_pb.js';
import {
  HttpConnectionManagerSchema,
  HttpFilterSchema,
} from '../gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { CodecClientType } from '../gen/envoy/type/v3/http_pb.js';
import { HEALTH_GATEWAY, healthClusterName } from '../mesh/names.ts';
import { reachApp } from './app-address.ts';
import { BUFFER_LIMIT_BYTES, milliseconds } from './envoy-values.ts';
import { answerInit, answerPath, mustBeHealthy, router } from './http-filters.ts';
import type { NodePod } from './input.ts';
import { nest, row, writeNested } from './nested-bytes.ts';
import type { ListenerFacts } from './resource-facts.ts';
import { answerStatus } from './route-actions.ts';
import { StampedBytes } from './stamped-bytes.ts';

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
export function encodeHealthGateway(pods: readonly NodePod[], socketPath: string): Uint8Array {
  const pieces = pods.map(piecesOf);
  const judged = row(pieces.map((each) => each.judged));
  const answers = row(pieces.map((each) => each.answer));
  const all = nest(HttpFilterSchema.field.typedConfig, [CHECK_TYPE, asValue([ALL_HEAD, judged, ALL_TAIL])]);
  const answerAll = nest(HttpConnectionManagerSchema.field.httpFilters, [ALL_NAME, all]);
  const manager = nest(FilterSchema.field.typedConfig, [MANAGER_TYPE, asValue([HEAD, answerAll, answers, LAST])]);
  const filter = nest(FilterChainSchema.field.filters, [MANAGER_NAME, manager]);
  const chain = nest(ListenerSchema.field.filterChains, [filter, CHAIN_NAME]);
  return writeNested(row([listenerHead(socketPath), chain, LISTENER_TAIL]));
}

/** What it says of itself. */
export function healthGatewayFacts(pods: readonly NodePod[], socketPath: string): ListenerFacts {
  const clusters = pods.map(({ resourceName }) => healthClusterName(resourceName));
  const none = { chosenChains: [], portlessChains: [], serverNames: [], routes: [] };
  return { addresses: [socketPath], chains: [HEALTH_GATEWAY], clusters, ...none };
}

const encode = <Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Uint8Array =>
  toBinary(schema, create(schema, init));
const typeOf = ({ typeName }: DescMessage): Uint8Array =>
  encode(AnySchema, { typeUrl: `type.googleapis.com/${typeName}` });
const asValue = (pieces: Parameters<typeof nest>[1]) => nest(AnySchema.field.value, pieces);
const encodeFilters = (httpFilters: readonly ReturnType<typeof answerPath>[]): Uint8Array =>
  encode(HttpConnectionManagerSchema, { httpFilters: [...httpFilters] });

/** By the path of the socket: an agent has one. */
const heads = new Map<string, Uint8Array>();

function listenerHead(path: string): Uint8Array {
  const head = heads.get(path) ?? makeListenerHead(path);
  heads.set(path, head);
  return head;
}

const makeListenerHead = (path: string): Uint8Array =>
  encode(ListenerSchema, {
    name: HEALTH_GATEWAY,
    address: { address: { case: 'pipe', value: { path, mode: 0o600 } } },
  });
const LISTENER_TAIL = encode(ListenerSchema, { statPrefix: HEALTH_GATEWAY, bypassOverloadManager: true });
const CHAIN_NAME = encode(FilterChainSchema, { name: HEALTH_GATEWAY });
const MANAGER_NAME = encode(FilterSchema, { name: 'envoy.http_connection_manager' });
const MANAGER_TYPE = typeOf(HttpConnectionManagerSchema);
const HEAD = encode(HttpConnectionManagerSchema, {
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
const ALL_NAME = encode(HttpFilterSchema, { name: 'all' });
const CHECK_TYPE = typeOf(HealthCheckSchema);
const { headers: ALL_HEADERS, ...ALL_MODE } = answerInit(ALL_HEALTHY_PATH);
const ALL_HEAD = encode(HealthCheckSchema, ALL_MODE);
const ALL_TAIL = encode(HealthCheckSchema, { headers: ALL_HEADERS });

/** Of one pod: the filter that answers for it, and its part of the answer for all. */
interface Pieces {
  readonly answer: Uint8Array;
  readonly judged: Uint8Array;
}

const known = new WeakMap<NodePod, Pieces>();
const stamps = { answer: new StampedBytes(), judged: new StampedBytes() };

const makeAnswer = ([name = '']: readonly string[]): Uint8Array =>
  encodeFilters([answerPath(podHealthPath(name), { name, healthy: [healthClusterName(name)] })]);
const makeJudged = ([name = '']: readonly string[]): Uint8Array =>
  encode(HealthCheckSchema, { clusterMinHealthyPercentages: mustBeHealthy([healthClusterName(name)]) });

function piecesOf(pod: NodePod): Pieces {
  const { resourceName: name } = pod;
  const texts = [name];
  const pieces = known.get(pod) ?? {
    answer: stamps.answer.encode({ texts, make: makeAnswer }),
    judged: stamps.judged.encode({ texts, make: makeJudged }),
  };
  known.set(pod, pieces);
  return pieces;
}
