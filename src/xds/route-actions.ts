// Where a route leads. No route has a time-out of ours: Envoy's default of 15 s would cut long answers and streams.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { HeaderValueOption_HeaderAppendAction } from '../gen/envoy/config/core/v3/base_pb.js';
import {
  type HeaderMatcherSchema,
  type RetryPolicySchema,
  type Route,
  type RouteAction,
  RouteSchema,
} from '../gen/envoy/config/route/v3/route_components_pb.js';
import { PreviousHostsPredicateSchema } from '../gen/envoy/extensions/retry/host/previous_hosts/v3/previous_hosts_pb.js';
import { ERROR_HEADER } from '../mesh/constants.ts';
import { filter, milliseconds } from './envoy-values.ts';

/** Everything to one cluster of the mesh. */
export function toCluster(cluster: string): Route {
  return route({ case: 'cluster', value: cluster }, { retry: true });
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

export interface Refusal {
  readonly status: number;
  /** Value of `x-aether-error`. */
  readonly error: string;
  /** A sentence for people. */
  readonly sentence: string;
  /** Only of authorities that match this regular expression; absent: of all. */
  readonly authority?: string;
}

/** Everything is refused here, and says why. */
export function refuse({ status, error, sentence, authority }: Refusal): Route {
  return create(RouteSchema, {
    match: {
      pathSpecifier: { case: 'prefix', value: '/' },
      headers: authority === undefined ? [] : [matchAuthority(authority)],
    },
    action: {
      case: 'directResponse',
      value: { status, body: { specifier: { case: 'inlineString', value: `${sentence}\n` } } },
    },
    responseHeadersToAdd: [
      {
        header: { key: ERROR_HEADER, value: error },
        appendAction: HeaderValueOption_HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
      },
    ],
  });
}

function matchAuthority(regex: string): MessageInitShape<typeof HeaderMatcherSchema> {
  const matchPattern = { case: 'safeRegex', value: { regex } } as const;
  return { name: ':authority', headerMatchSpecifier: { case: 'stringMatch', value: { matchPattern } } };
}

function route(clusterSpecifier: RouteAction['clusterSpecifier'], { retry }: { readonly retry: boolean }): Route {
  return create(RouteSchema, {
    match: { pathSpecifier: { case: 'prefix', value: '/' } },
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
