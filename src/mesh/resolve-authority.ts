// HTTP's half of the resolution rule: what an authority (Host) means on the capture path. Mirrors the route table
// `cap_http`: virtual hosts first, then the catch-all that takes the authority as the name of a cluster.
import { HTTP_MESH_PORT } from './constants.ts';
import { httpClusterName, parseServiceFqdn, serviceFqdn } from './names.ts';
import type { PortBucket, ServiceView } from './service-view.ts';

export type AuthorityAnswer =
  | {
      readonly kind: 'mesh';
      readonly cluster: string;
      readonly service: ServiceView;
      readonly bucket: PortBucket;
    }
  /** 421: the service has no HTTP port. 503: no such service, or nobody registered that port. */
  | { readonly kind: 'status'; readonly status: 421 | 503 }
  /** Not a name of the mesh: on to the address dialled. */
  | { readonly kind: 'foreign' };

/** The name that Kubernetes itself gives a service; the mesh answers to it on the HTTP mesh port and without port. */
const CLUSTER_LOCAL_DOMAIN = 'svc.cluster.local';

/** Resolves an authority as sent: `shop.demo.aether.internal`, `shop.demo.aether.internal:9090`. */
export function resolveAuthority(
  authority: string,
  mesh: { readonly services: readonly ServiceView[]; readonly domain: string },
): AuthorityAnswer {
  const { host, port } = splitAuthority(authority);
  const service = findService(host, mesh);
  if (service !== undefined && (port === undefined || port === HTTP_MESH_PORT)) return resolveDefault(service);
  if (parseServiceFqdn(host, mesh.domain) === undefined) return { kind: 'foreign' };
  const bucket = service?.http.find((candidate) => candidate.port === port);
  if (service === undefined || bucket === undefined) return { kind: 'status', status: 503 };
  return { kind: 'mesh', cluster: httpClusterName(service.fqdn, bucket.port), service, bucket };
}

function resolveDefault(service: ServiceView): AuthorityAnswer {
  if (service.httpDefault !== undefined) {
    return { kind: 'mesh', cluster: httpClusterName(service.fqdn), service, bucket: service.httpDefault };
  }
  return { kind: 'status', status: service.hasEndpoints ? 421 : 503 };
}

function findService(
  host: string,
  mesh: { readonly services: readonly ServiceView[]; readonly domain: string },
): ServiceView | undefined {
  const key = parseServiceFqdn(host, mesh.domain) ?? parseServiceFqdn(host, CLUSTER_LOCAL_DOMAIN);
  if (key === undefined) return undefined;
  const fqdn = serviceFqdn(key, mesh.domain);
  return mesh.services.find((service) => service.fqdn === fqdn);
}

function splitAuthority(authority: string): { readonly host: string; readonly port: number | undefined } {
  const match = /^(.*):([0-9]{1,5})$/.exec(authority);
  return match === null ? { host: authority, port: undefined } : { host: match[1] ?? '', port: Number(match[2]) };
}
