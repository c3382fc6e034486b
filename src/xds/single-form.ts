// The single form of capture, for a node whose agent may not write to the pods' namespaces: what address and port decide is
// decided by Envoy, with a chain for each TCP port of each service in every pod's one capture listener.
import { TCP_MESH_PORT } from '../mesh/constants.ts';
import { singleAnyportChainName, singleTcpChainName, tcpServiceClusterName } from '../mesh/names.ts';
import { isPureTcp, type ServiceView } from '../mesh/service-view.ts';
import type { NodeSettings } from './input.ts';

/** One filter chain of raw TCP and where it leads. */
export interface SingleChain {
  readonly name: string;
  readonly cluster: string;
}

/** A service with TCP ports. `ports` is ascending, 18082 among them; `anyport`: it serves nothing but TCP. */
export interface SingleService {
  readonly addresses: readonly string[];
  readonly ports: readonly { readonly port: number; readonly chain: SingleChain }[];
  readonly anyport: SingleChain | undefined;
}

/** All that the capture listeners know of services; the same for all pods. */
export interface SingleForm {
  readonly services: readonly SingleService[];
  /** Addresses of services without TCP, whose 18082 leads nowhere. */
  readonly withoutTcp: readonly string[];
  /** Equal text: equal content. A change of endpoints alone does not change it. */
  readonly shape: string;
}

export function planSingleForm(views: readonly ServiceView[], node: NodeSettings): SingleForm {
  const hasTcp = (view: ServiceView): boolean => node.identity === 'mtls' && view.tcpDefault !== undefined;
  const reachable = views.filter(({ vips }) => vips.length > 0);
  const services = reachable.filter(hasTcp).map(planService);
  const withoutTcp = reachable.filter((view) => !hasTcp(view)).flatMap(({ vips }) => vips.map(({ text }) => text));
  return { services, withoutTcp, shape: JSON.stringify([services, withoutTcp]) };
}

function planService(view: ServiceView): SingleService {
  const { key, fqdn } = view;
  const byDefault = tcpServiceClusterName(fqdn);
  const ports = [
    { port: TCP_MESH_PORT, chain: { name: singleTcpChainName(key), cluster: byDefault } },
    ...view.tcp.map(({ port }) => ({
      port,
      chain: { name: singleTcpChainName(key, port), cluster: tcpServiceClusterName(fqdn, port) },
    })),
  ];
  return {
    addresses: view.vips.map(({ text }) => text),
    ports: ports.sort((a, b) => a.port - b.port),
    anyport: isPureTcp(view) ? { name: singleAnyportChainName(key), cluster: byDefault } : undefined,
  };
}
