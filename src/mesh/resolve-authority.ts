// HTTP's half of the resolution rule: what an authority (Host) means on the capture path. Mirrors the route table
// `cap_http`: virtual hosts first, then the catch-all.
import { HTTP_MESH_PORT, TCP_MESH_PORT } from './constants.ts';
import { clusterLocalName, httpClusterName } from './names.ts';
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

/** What the mesh answers for. */
interface Mesh {
  readonly services: readonly ServiceView[];
  readonly domain: string;
}

/**
 * Resolves an authority as sent: `shop.demo.aether.internal`, `Shop.Demo.Aether.Internal.:9090`. The port is compared as
 * text, as Envoy compares it: `:08080` is no port that anybody registered.
 */
export function resolveAuthority(authority: string, mesh: Mesh): AuthorityAnswer {
  const { text, port, service } = readAuthority(authority, mesh);
  if (service !== undefined && (port === undefined || port === String(HTTP_MESH_PORT))) return resolveDefault(service);
  if (!new RegExp(meshAuthorityPattern(mesh.domain)).test(text)) return { kind: 'foreign' };
  const bucket = service?.http.find((candidate) => String(candidate.port) === port && hasOwnSpelling(candidate.port));
  if (service === undefined || bucket === undefined) return { kind: 'status', status: 503 };
  return { kind: 'mesh', cluster: httpClusterName(service.fqdn, bucket.port), service, bucket };
}

/** `text`: in lower case, without a final dot. `port`: as written. `service`: whose name it is, by either domain. */
export function readAuthority(
  authority: string,
  { services }: Mesh,
): { readonly text: string; readonly port: string | undefined; readonly service: ServiceView | undefined } {
  const text = authority.toLowerCase().replace(/\.(:[0-9]*)?$/, '$1');
  const [, host = text, port] = /^(.*):([0-9]+)$/.exec(text) ?? [];
  const service = services.find(({ key, fqdn }) => host === fqdn || host === clusterLocalName(key));
  return { text, port, service };
}

/** Whether `<fqdn>:<port>` can mean that port: the mesh ports stand for the defaults. */
export function hasOwnSpelling(port: number): boolean {
  return port !== HTTP_MESH_PORT && port !== TCP_MESH_PORT;
}

/** Regular expression (RE2 and JavaScript) of the authorities, in lower case, that are names of the mesh. */
export function meshAuthorityPattern(domain: string): string {
  return `^[a-z0-9-]+\\.[a-z0-9-]+\\.${domain.replaceAll('.', '\\.')}(:[0-9]+)?$`;
}

function resolveDefault(service: ServiceView): AuthorityAnswer {
  if (service.httpDefault !== undefined) {
    return { kind: 'mesh', cluster: httpClusterName(service.fqdn), service, bucket: service.httpDefault };
  }
  return { kind: 'status', status: service.hasEndpoints ? 421 : 503 };
}
