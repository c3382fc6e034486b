// The node's two route tables, shared by all its pods: `cap_http` of the capture listeners, `out_http` of the outbound ones.
import { create } from '@bufbuild/protobuf';
import { type VirtualHost, VirtualHostSchema } from '../gen/envoy/config/route/v3/route_components_pb.js';
import { type RouteConfiguration, RouteConfigurationSchema } from '../gen/envoy/config/route/v3/route_pb.js';
import { CAPTURE_ROUTES, ON_DEMAND_HOST, OUTBOUND_ROUTES, PASSTHROUGH_HEADER } from '../mesh/names.ts';
import { meshAuthorityPattern } from '../mesh/resolve-authority.ts';
import { INBOUND_LIVE_PATH } from './http-filters.ts';
import { answerStatus, toClusterOfAuthority, toClusterOfHeader } from './route-actions.ts';

/** Without the hosts of services, which come before its own; what they leave and is no name of the mesh passes through. */
export function buildCaptureRoutes(domain: string): RouteConfiguration {
  return create(RouteConfigurationSchema, {
    name: CAPTURE_ROUTES,
    virtualHosts: [catchAll([onDemand(domain), toClusterOfHeader(PASSTHROUGH_HEADER)])],
    // The header has done its work when the cluster is chosen; no upstream sees it.
    requestHeadersToRemove: [PASSTHROUGH_HEADER],
  });
}

/** The same for the outbound listener, which serves names of the mesh only. */
export function buildOutboundRoutes(domain: string): RouteConfiguration {
  return create(RouteConfigurationSchema, {
    name: OUTBOUND_ROUTES,
    virtualHosts: [
      catchAll([answerStatus({ path: INBOUND_LIVE_PATH }, 200), onDemand(domain), answerStatus({ prefix: '/' }, 404)]),
    ],
  });
}

function catchAll(routes: VirtualHost['routes']): VirtualHost {
  return create(VirtualHostSchema, { name: ON_DEMAND_HOST, domains: ['*'], routes });
}

// A name of the mesh without a virtual host: the agent is asked for the cluster and says at once if there is none.
function onDemand(domain: string) {
  return toClusterOfAuthority(`(?i)${meshAuthorityPattern(domain)}`);
}
