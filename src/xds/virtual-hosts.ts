// Virtual hosts of a service: what each spelling of its name means to the two route tables. Built from the few facts that
// decide them, so that a change of endpoints alone leaves the tables untouched.
import { create } from '@bufbuild/protobuf';
import { HeaderValueOption_HeaderAppendAction } from '../gen/envoy/config/core/v3/base_pb.js';
import {
  type Route,
  RouteSchema,
  type VirtualHost,
  VirtualHostSchema,
} from '../gen/envoy/config/route/v3/route_components_pb.js';
import { ERROR_HEADER, HTTP_MESH_PORT } from '../mesh/constants.ts';
import { clusterLocalName, formatServiceKey, httpClusterName, type ServiceKey } from '../mesh/names.ts';
import { listTcpDialPorts } from '../mesh/plan-mesh-sets.ts';
import { hasOwnSpelling } from '../mesh/resolve-authority.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { toCluster } from './route-actions.ts';
import { listExtraHttpPorts } from './service-clusters.ts';

/** All that the virtual hosts of a service depend on. */
export interface RouteShape {
  readonly key: ServiceKey;
  readonly fqdn: string;
  readonly hasEndpoints: boolean;
  readonly defaultPort: number | undefined;
  readonly extraPorts: readonly number[];
  /** TCP ports that a client may dial, 18082 among them: named where HTTP is refused. */
  readonly tcpPorts: readonly number[];
}

export function routeShape(view: ServiceView): RouteShape {
  const defaultPort = view.httpDefault?.port;
  return {
    key: view.key,
    fqdn: view.fqdn,
    hasEndpoints: view.hasEndpoints,
    defaultPort,
    extraPorts: defaultPort === undefined ? [] : listExtraHttpPorts(view).map(({ port }) => port),
    tcpPorts: listTcpDialPorts(view),
  };
}

/** Virtual hosts of `cap_http`: by the mesh's name and by Kubernetes' own, and each other HTTP port by its number. */
export function captureHosts(shape: RouteShape): readonly VirtualHost[] {
  const { fqdn, defaultPort } = shape;
  const names = new Set([clusterLocalName(shape.key), fqdn]);
  const domains = [...names].flatMap((name) => [name, httpClusterName(name, HTTP_MESH_PORT)]);
  if (defaultPort === undefined)
    return [host(fqdn, domains, shape.hasEndpoints ? noHttpPort(shape) : noEndpoints(shape))];
  const ports = [defaultPort, ...shape.extraPorts].filter(hasOwnSpelling);
  return [host(fqdn, domains, toCluster(httpClusterName(fqdn))), ...ports.map((port) => portHost(fqdn, port))];
}

/**
 * Of a service that Envoy is not given, in `cap_http`: by Kubernetes' own name, which alone does not say which cluster to ask
 * for. By the mesh's name it is asked for without a virtual host.
 */
export function fetchedHosts(key: ServiceKey, fqdn: string): readonly VirtualHost[] {
  const name = clusterLocalName(key);
  return [host(fqdn, [name, httpClusterName(name, HTTP_MESH_PORT)], toCluster(httpClusterName(fqdn)))];
}

/** Virtual hosts of `out_http`; what has none is asked for on demand. */
export function outboundHosts({ fqdn, defaultPort, extraPorts }: RouteShape): readonly VirtualHost[] {
  if (defaultPort === undefined) return [];
  const domains = hasOwnSpelling(defaultPort) ? [fqdn, httpClusterName(fqdn, defaultPort)] : [fqdn];
  return [host(fqdn, domains, toCluster(httpClusterName(fqdn))), ...extraPorts.map((port) => portHost(fqdn, port))];
}

function portHost(fqdn: string, port: number): VirtualHost {
  const name = httpClusterName(fqdn, port);
  return host(name, [name], toCluster(name));
}

function host(name: string, domains: string[], route: Route): VirtualHost {
  return create(VirtualHostSchema, { name, domains, routes: [route] });
}

// An endpoint of the service is known and none speaks HTTP: the client is told so, and what it can dial instead.
function noHttpPort({ key, fqdn, tcpPorts }: RouteShape): Route {
  const spellings = tcpPorts.map((port) => `${fqdn}:${port}`).join(', ');
  const body = `${formatServiceKey(key)} has no HTTP port; its TCP ports are ${spellings}\n`;
  return answer(421, { error: 'no-http-port', body });
}

function noEndpoints({ key }: RouteShape): Route {
  return answer(503, { error: 'no-endpoints', body: `${formatServiceKey(key)} has no endpoints\n` });
}

function answer(status: number, { error, body }: { readonly error: string; readonly body: string }): Route {
  return create(RouteSchema, {
    match: { pathSpecifier: { case: 'prefix', value: '/' } },
    action: {
      case: 'directResponse',
      value: { status, body: { specifier: { case: 'inlineString', value: body } } },
    },
    responseHeadersToAdd: [
      {
        header: { key: ERROR_HEADER, value: error },
        appendAction: HeaderValueOption_HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
      },
    ],
  });
}
