// The three HTTP connection managers: what the pod sends by capture or by the outbound listener, what it receives.
import { HeaderValueOption_HeaderAppendAction } from '../gen/envoy/config/core/v3/base_pb.js';
import {
  HttpConnectionManager_ForwardClientCertDetails,
  HttpConnectionManager_ServerHeaderTransformation,
  HttpConnectionManagerSchema,
} from '../gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { HeaderMutationSchema } from '../gen/envoy/extensions/http/early_header_mutation/header_mutation/v3/header_mutation_pb.js';
import {
  CAPTURE_ROUTES,
  healthClusterName,
  OUTBOUND_ROUTES,
  PASSTHROUGH_HEADER,
  passthroughClusterName,
} from '../mesh/names.ts';
import { httpAccessLog } from './access-log.ts';
import { extension, filter, fromAds, milliseconds } from './envoy-values.ts';
import {
  answerPath,
  INBOUND_LIVE_PATH,
  INBOUND_READY_PATH,
  onDemandClusters,
  PROXY_READY_PATH,
  router,
  subsetHeaders,
} from './http-filters.ts';
import { inboundRoutes } from './inbound-routes.ts';
import type { NodePod, NodeSettings } from './input.ts';

const NAME = 'envoy.http_connection_manager';

/** Captured HTTP, routed by authority; what is no name of the mesh leaves through the pod's own passthrough. */
export function captureHttp(pod: NodePod, node: NodeSettings) {
  return filter(NAME, HttpConnectionManagerSchema, {
    ...transparent(),
    accessLog: httpAccessLog(pod, node, 'source'),
    statPrefix: 'capture_http',
    routeSpecifier: { case: 'rds', value: { configSource: fromAds(), routeConfigName: CAPTURE_ROUTES } },
    earlyHeaderMutationExtensions: [namePassthrough(pod.resourceName)],
    httpFilters: [subsetHeaders(), onDemandClusters(), router()],
  });
}

/** HTTP sent to the outbound listener on purpose: only names of the mesh. */
export function outboundHttp(pod: NodePod, node: NodeSettings) {
  return filter(NAME, HttpConnectionManagerSchema, {
    ...transparent(),
    accessLog: httpAccessLog(pod, node, 'source'),
    statPrefix: 'outbound_http',
    routeSpecifier: { case: 'rds', value: { configSource: fromAds(), routeConfigName: OUTBOUND_ROUTES } },
    httpFilters: [answerPath(PROXY_READY_PATH), subsetHeaders(), onDemandClusters(), router()],
  });
}

/** HTTP from the mesh to one cluster of the pod; the caller's certificate is told to the application, never its claims. */
export function inboundHttp(cluster: string, { pod, node }: { readonly pod: NodePod; readonly node: NodeSettings }) {
  return filter(NAME, HttpConnectionManagerSchema, {
    ...transparent(),
    accessLog: httpAccessLog(pod, node, 'destination'),
    statPrefix: 'inbound',
    routeSpecifier: { case: 'routeConfig', value: inboundRoutes(cluster) },
    forwardClientCertDetails: HttpConnectionManager_ForwardClientCertDetails.SANITIZE_SET,
    setCurrentClientCertDetails: { subject: true, uri: true },
    httpFilters: [
      answerPath(INBOUND_LIVE_PATH, { name: 'envoy.filters.http.health_check.live' }),
      answerPath(INBOUND_READY_PATH, {
        name: 'envoy.filters.http.health_check.ready',
        healthy: [healthClusterName(pod.resourceName)],
      }),
      router(),
    ],
  });
}

// Envoy stands between two programs that don't know of it: it adds no time-out of its own to a stream, takes HTTP/1.0,
// passes WebSockets (over HTTP/2 as extended CONNECT) and the application's own `server` header.
function transparent() {
  return {
    commonHttpProtocolOptions: { idleTimeout: milliseconds(300_000) },
    httpProtocolOptions: { acceptHttp10: true },
    http2ProtocolOptions: { allowConnect: true },
    streamIdleTimeout: milliseconds(0),
    upgradeConfigs: [{ upgradeType: 'websocket' }],
    serverHeaderTransformation: HttpConnectionManager_ServerHeaderTransformation.PASS_THROUGH,
    stripTrailingHostDot: true,
  };
}

// One route table serves all pods, but each pod leaves from its own namespace: the table reads the cluster's name from a
// header that is overwritten here, before routing, so that an application cannot bring its own.
function namePassthrough(pod: string) {
  return extension('header_mutation', HeaderMutationSchema, {
    mutations: [
      {
        action: {
          case: 'append',
          value: {
            header: { key: PASSTHROUGH_HEADER, value: passthroughClusterName(pod) },
            appendAction: HeaderValueOption_HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
          },
        },
      },
    ],
  });
}
