// Services -> what the kernel of every pod is told about them. Read off the same views as the clusters, so that an
// element without its cluster cannot be planned.
import { type AddressPort, compareIps, type IpAddress } from '../core/ip.ts';
import { TCP_MESH_PORT } from './constants.ts';
import type { MeshSets } from './mesh-sets.ts';
import { isPureTcp, type ServiceView } from './service-view.ts';

/**
 * Plans the sets. `tcp` false (identity `none`: raw TCP never crosses the mesh in clear text) leaves only the
 * addresses, whose 18082 is then reset.
 */
export function planMeshSets(services: readonly ServiceView[], options: { readonly tcp: boolean }): MeshSets {
  const tcp: AddressPort[] = [];
  const vip: IpAddress[] = [];
  const shim: IpAddress[] = [];
  for (const service of services) {
    for (const address of service.vips) {
      vip.push(address);
      if (!options.tcp) continue;
      if (isPureTcp(service)) shim.push(address);
    }
    if (options.tcp) tcp.push(...listElements(service));
  }
  return {
    tcp: tcp.sort((a, b) => compareIps(a.address, b.address) || a.port - b.port),
    vip: vip.sort(compareIps),
    shim: shim.sort(compareIps),
  };
}

const elements = new WeakMap<ServiceView, readonly AddressPort[]>();

// The same objects as long as the view stays: two plans are compared by what they do not share.
function listElements(service: ServiceView): readonly AddressPort[] {
  const known = elements.get(service);
  if (known !== undefined) return known;
  const ports = listTcpDialPorts(service);
  const list = service.vips.flatMap((address) => ports.map((port) => ({ address, port })));
  elements.set(service, list);
  return list;
}

/** The ports of a service's address that are TCP to a client, ascending: its TCP ports, and 18082 if it has any. */
export function listTcpDialPorts(service: ServiceView): readonly number[] {
  const ports = service.tcp.map((bucket) => bucket.port);
  return service.tcpDefault === undefined ? ports : [...ports, TCP_MESH_PORT].sort((a, b) => a - b);
}
