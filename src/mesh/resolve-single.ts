// The single form's half of the resolution rule: everything captured comes to one listener, and Envoy decides by address, then
// port, then what the bytes are. The same tree as xds/single-matcher.ts.
import { CAPTURE_PORT, TCP_MESH_PORT } from './constants.ts';
import {
  CHAIN_CAPTURE,
  CHAIN_PASSTHROUGH,
  CHAIN_TCP_BLACKHOLE,
  singleAnyportChainName,
  singleTcpChainName,
  tcpServiceClusterName,
} from './names.ts';
import { type Resolution, resolveHttp } from './resolution.ts';
import { type Dial, type FirstBytes, findByVip, type ResolveContext } from './resolve-in-kernel.ts';
import { isPureTcp, type ServiceView } from './service-view.ts';

/** A dial that the plugin's table redirected. */
export function resolveSingle(dial: Dial, context: ResolveContext): Resolution {
  const service = findByVip(dial.address, context.services);
  const tcp = service !== undefined && resolvePort(dial, service, context);
  if (tcp) return tcp;
  const { redirectAll } = context.scope;
  if (dial.port === TCP_MESH_PORT && (!redirectAll || service !== undefined)) {
    return { kind: 'closed', by: { ...at(dial), chain: CHAIN_TCP_BLACKHOLE } };
  }
  const bytes = seenBytes(dial);
  if (bytes === 'http') return resolveHttp(dial, at(dial), context);
  if (context.tcp && service !== undefined && isPureTcp(service)) return toDefault(dial, service);
  if (redirectAll) return { kind: 'passthrough', by: { ...at(dial), chain: CHAIN_PASSTHROUGH } };
  const by = { ...at(dial), chain: CHAIN_CAPTURE };
  return bytes === 'silent' ? { kind: 'held', by } : { kind: 'status', by, status: 400 };
}

// A port that the service has as TCP, 18082 among them where it has any.
function resolvePort(dial: Dial, service: ServiceView, { tcp }: ResolveContext): Resolution | undefined {
  const { key, fqdn, tcpDefault } = service;
  if (!tcp || tcpDefault === undefined) return undefined;
  if (dial.port === TCP_MESH_PORT) {
    const by = { ...at(dial), chain: singleTcpChainName(key) };
    return { kind: 'mesh', by, cluster: tcpServiceClusterName(fqdn), service, bucket: tcpDefault };
  }
  const bucket = service.tcp.find(({ port }) => port === dial.port);
  if (bucket === undefined) return undefined;
  const by = { ...at(dial), chain: singleTcpChainName(key, dial.port) };
  return { kind: 'mesh', by, cluster: tcpServiceClusterName(fqdn, dial.port), service, bucket };
}

function toDefault(dial: Dial, service: ServiceView): Resolution {
  const by = { ...at(dial), chain: singleAnyportChainName(service.key) };
  const bucket = service.tcpDefault;
  if (bucket === undefined) return { kind: 'closed', by };
  return { kind: 'mesh', by, cluster: tcpServiceClusterName(service.fqdn), service, bucket };
}

// The inspectors do not look at 18082: nobody waits there, and HTTP is bytes like others.
function seenBytes({ port, bytes }: Dial): FirstBytes {
  return port === TCP_MESH_PORT ? 'raw' : bytes;
}

function at(dial: Dial) {
  return { listenerPort: CAPTURE_PORT, waits: seenBytes(dial) === 'silent' };
}
