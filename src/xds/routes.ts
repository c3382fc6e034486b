// The node's two route tables, shared by all its pods: `cap_http` of the capture listeners, `out_http` of the outbound ones. They
// do not change: the hosts of services (virtual-hosts.ts) come one by one (VHDS), before the tables' own.
import { create } from '@bufbuild/protobuf';
import { type VirtualHost, VirtualHostSchema } from '../gen/envoy/config/route/v3/route_components_pb.js';
import { type RouteConfiguration, RouteConfigurationSchema } from '../gen/envoy/config/route/v3/route_pb.js';
import { CAPTURE_ROUTES, CATCH_ALL_HOST, OUTBOUND_ROUTES, PASSTHROUGH_HEADER } from '../mesh/names.ts';
import { meshAuthorityPattern } from '../mesh/resolve-authority.ts';
import { fromAds } from './envoy-values.ts';
import { INBOUND_LIVE_PATH } from './http-filters.ts';
import { answerStatus, refuse, toClusterOfHeader } from './route-actions.ts';

/** What the hosts leave of the mesh's names is refused: the node knows all there are. Others pass through. */
export function buildCaptureRoutes(domain: string): RouteConfiguration {
  return create(RouteConfigurationSchema, {
    name: CAPTURE_ROUTES,
    vhds: { configSource: fromAds() },
    virtualHosts: [catchAll([unknown(domain), toClusterOfHeader(PASSTHROUGH_HEADER)])],
    // The header has done its work when the cluster is chosen; no upstream sees it.
    requestHeadersToRemove: [PASSTHROUGH_HEADER],
  });
}

/** The same for the outbound listener, which serves names of the mesh only. */
export function buildOutboundRoutes(domain: string): RouteConfiguration {
  return create(RouteConfigurationSchema, {
    name: OUTBOUND_ROUTES,
    vhds: { configSource: fromAds() },
    virtualHosts: [
      catchAll([answerStatus({ path: INBOUND_LIVE_PATH }, 200), unknown(domain), answerStatus({ prefix: '/' }, 404)]),
    ],
  });
}

function catchAll(routes: VirtualHost['routes']): VirtualHost {
  return create(VirtualHostSchema, { name: CATCH_ALL_HOST, domains: ['*'], routes });
}

// Said here and not by the agent: Envoy would ask it once for a cluster of that name, and wait two seconds from then on.
function unknown(domain: string) {
  return refuse({
    ...{ status: 503, error: 'not-registered', sentence: 'nobody in the mesh registered this name or port' },
    authority: `(?i)${meshAuthorityPattern(domain)}`,
  });
}
