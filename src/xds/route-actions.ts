// Where a route leads. No route has a time-out of ours: Envoy's default of 15 s would cut long answers and streams.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type HeaderMatcherSchema,
  type RetryPolicySchema,
  type Route,
  type RouteAction,
  RouteSchema,
} from '../gen/envoy/config/route/v3/route_components_pb.js';
import { PreviousHostsPredicateSchema } from '../gen/envoy/extensions/retry/host/previous_hosts/v3/previous_hosts_pb.js';
import { filter, milliseconds } from './envoy-values.ts';

/** Everything to one cluster of the mesh. */
export function toCluster(cluster: string): Route {
  return route({ case: 'cluster', value: cluster }, { retry: true });
}

/** To the mesh cluster that the authority names, for authorities that match. */
export function toClusterOfAuthority(pattern: string): Route {
  const authority: MessageInitShape<typeof HeaderMatcherSchema> = {
    name: ':authority',
    headerMatchSpecifier: {
      case: 'stringMatch',
      value: { matchPattern: { case: 'safeRegex', value: { regex: pattern } } },
    },
  };
  return route({ case: 'clusterHeader', value: ':authority' }, { retry: true, headers: [authority] });
}

/** To the cluster that a header names. */
export function toClusterOfHeader(header: string): Route {
  return route({ case: 'clusterHeader', value: header }, { retry: false });
}

/** One path, answered here. */
export function answerStatus(match: { readonly path: string } | { readonly prefix: string }, status: number): Route {
  return create(RouteSchema, {
    match: {
      pathSpecifier: 'path' in match ? { case: 'path', value: match.path } : { case: 'prefix', value: match.prefix },
    },
    action: { case: 'directResponse', value: { status } },
  });
}

interface RouteOptions {
  readonly retry: boolean;
  readonly headers?: MessageInitShape<typeof HeaderMatcherSchema>[];
}

function route(clusterSpecifier: RouteAction['clusterSpecifier'], { retry, headers = [] }: RouteOptions): Route {
  return create(RouteSchema, {
    match: { pathSpecifier: { case: 'prefix', value: '/' }, headers },
    action: {
      case: 'route',
      value: { clusterSpecifier, timeout: milliseconds(0), ...(retry ? { retryPolicy: retryPolicy() } : {}) },
    },
  });
}

// Only what never reached an application, or what an endpoint on its way out answers: another endpoint is tried.
function retryPolicy(): MessageInitShape<typeof RetryPolicySchema> {
  return {
    retryOn: 'connect-failure,refused-stream,reset-before-request,retriable-status-codes',
    numRetries: 2,
    retriableStatusCodes: [503],
    retryHostPredicate: [filter('envoy.retry_host_predicates.previous_hosts', PreviousHostsPredicateSchema)],
    hostSelectionRetryMaxAttempts: 3n,
    retryBackOff: { baseInterval: milliseconds(25), maxInterval: milliseconds(250) },
  };
}
