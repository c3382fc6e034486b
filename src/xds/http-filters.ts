// HTTP filters, in the order in which the connection managers use them.
import {
  Config_ValueType,
  ConfigSchema as HeaderToMetadataSchema,
} from '../gen/envoy/extensions/filters/http/header_to_metadata/v3/header_to_metadata_pb.js';
import { HealthCheckSchema } from '../gen/envoy/extensions/filters/http/health_check/v3/health_check_pb.js';
import { OnDemandSchema } from '../gen/envoy/extensions/filters/http/on_demand/v3/on_demand_pb.js';
import { RouterSchema } from '../gen/envoy/extensions/filters/http/router/v3/router_pb.js';
import { filter, fromAds, milliseconds } from './envoy-values.ts';

/** Answered by the outbound listener: the plugin's probe that the pod's listeners are up. */
export const PROXY_READY_PATH = '/aether/readyz';
/** Answered by the inbound listener: the way to the pod's node is up. */
export const INBOUND_LIVE_PATH = '/-/-/live';
/** The same, and the application is healthy. */
export const INBOUND_READY_PATH = '/-/-/ready';

export interface AnswerOptions {
  /** Tells several of them apart. */
  readonly name?: string;
  /** Clusters whose hosts must all be healthy: 503 otherwise, and while Envoy lacks one of them. */
  readonly healthy?: readonly string[];
}

/** Answers one path itself: 200, or 503. */
export function answerPath(
  path: string,
  { name = 'envoy.filters.http.health_check', healthy = [] }: AnswerOptions = {},
) {
  return filter(name, HealthCheckSchema, {
    ...answerInit(path),
    clusterMinHealthyPercentages: mustBeHealthy(healthy),
  });
}

/** What there is of it without clusters. */
export function answerInit(path: string) {
  return {
    passThroughMode: false,
    headers: [
      {
        name: ':path',
        headerMatchSpecifier: {
          case: 'stringMatch' as const,
          value: { matchPattern: { case: 'exact' as const, value: path } },
        },
      },
    ],
  };
}

/** All hosts of each. */
export function mustBeHealthy(clusters: readonly string[]) {
  return Object.fromEntries(clusters.map((cluster) => [cluster, { value: 100 }]));
}

/** Lets a client choose one endpoint: `x-aether-ip`, `x-aether-pod` narrow the choice to the endpoints that carry them. */
export function subsetHeaders() {
  const rule = (header: string, key: string) => ({
    header,
    onHeaderPresent: { metadataNamespace: 'envoy.lb', key, type: Config_ValueType.STRING },
  });
  return filter('aether.subset-headers', HeaderToMetadataSchema, {
    requestRules: [rule('x-aether-ip', 'ip'), rule('x-aether-pod', 'pod')],
  });
}

/** Asks the agent for a cluster that a route names and Envoy lacks; an unknown one is refused at once. */
export function onDemandClusters() {
  return filter('envoy.filters.http.on_demand', OnDemandSchema, {
    odcds: { source: fromAds(), timeout: milliseconds(2000) },
  });
}

export function router() {
  return filter('envoy.filters.http.router', RouterSchema);
}
