// Virtual hosts of a service: what each spelling of its name means to the two route tables. Built from the few facts that
// decide them, so that a change of endpoints alone leaves them untouched.
import { create } from '@bufbuild/protobuf';
import { type Route, type VirtualHost, VirtualHostSchema } from '../gen/envoy/config/route/v3/route_components_pb.js';
import { HTTP_MESH_PORT } from '../mesh/constants.ts';
import {
  CAPTURE_ROUTES,
  clusterLocalName,
  formatServiceKey,
  hostName,
  httpClusterName,
  OUTBOUND_ROUTES,
  type ServiceKey,
} from '../mesh/names.ts';
import { listTcpDialPorts } from '../mesh/plan-mesh-sets.ts';
import { hasOwnSpelling } from '../mesh/resolve-authority.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { refuse, toCluster } from './route-actions.ts';
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
  const whole = (route: Route) => host({ table: CAPTURE_ROUTES, name: fqdn, domains, route });
  if (defaultPort === undefined) return [whole(shape.hasEndpoints ? noHttpPort(shape) : noEndpoints(shape))];
  const ports = [defaultPort, ...shape.extraPorts].filter(hasOwnSpelling);
  return [
    whole(toCluster(httpClusterName(fqdn))),
    ...ports.map((port) => portHost({ table: CAPTURE_ROUTES, fqdn, port })),
  ];
}

/** Virtual hosts of `out_http`: by the mesh's name alone. */
export function outboundHosts({ fqdn, defaultPort, extraPorts }: RouteShape): readonly VirtualHost[] {
  if (defaultPort === undefined) return [];
  const ports = [HTTP_MESH_PORT, ...(hasOwnSpelling(defaultPort) ? [defaultPort] : [])];
  const domains = [fqdn, ...ports.map((port) => httpClusterName(fqdn, port))];
  const whole = host({ table: OUTBOUND_ROUTES, name: fqdn, domains, route: toCluster(httpClusterName(fqdn)) });
  return [whole, ...extraPorts.map((port) => portHost({ table: OUTBOUND_ROUTES, fqdn, port }))];
}

function portHost({ table, fqdn, port }: { readonly table: string; readonly fqdn: string; readonly port: number }) {
  const name = httpClusterName(fqdn, port);
  return host({ table, name, domains: [name], route: toCluster(name) });
}

interface Host {
  readonly table: string;
  readonly name: string;
  readonly domains: string[];
  readonly route: Route;
}

// Envoy takes a host away by the name of its resource, so both names are one.
function host({ table, name, domains, route }: Host): VirtualHost {
  return create(VirtualHostSchema, { name: hostName(table, name), domains, routes: [route] });
}

// An endpoint of the service is known and none speaks HTTP: the client is told so, and what it can dial instead.
function noHttpPort({ key, fqdn, tcpPorts }: RouteShape): Route {
  const spellings = tcpPorts.map((port) => `${fqdn}:${port}`).join(', ');
  const sentence = `${formatServiceKey(key)} has no HTTP port; its TCP ports are ${spellings}`;
  return refuse({ status: 421, error: 'no-http-port', sentence });
}

function noEndpoints({ key }: RouteShape): Route {
  return refuse({ status: 503, error: 'no-endpoints', sentence: `${formatServiceKey(key)} has no endpoints` });
}
