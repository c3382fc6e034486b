// Services -> what the kernel of every pod is told about them. Read off the same views as the clusters, so that an
// element without its cluster cannot be planned.
import { type AddressPort, compareIps, type IpAddress } from '../core/ip.ts';
import { mergeSorted } from '../core/merge-sorted.ts';
import { TCP_MESH_PORT } from './constants.ts';
import { type MeshSets, noteStep } from './mesh-sets.ts';
import { isPureTcp, type ServiceView } from './service-view.ts';

export interface MeshSetOptions {
  /** False (identity `none`: raw TCP never crosses the mesh in clear text) leaves only the addresses, whose 18082 is then reset. */
  readonly tcp: boolean;
  /** A plan under the same options: what is the same view costs nothing, and what is the same element stays the same object. */
  readonly previous?: { readonly services: readonly ServiceView[]; readonly sets: MeshSets };
}

/** Views; one that is made anew is in both. `tcp` as planned before. */
export interface ServiceChange extends Pick<MeshSetOptions, 'tcp'> {
  readonly out: readonly ServiceView[];
  readonly come: readonly ServiceView[];
}

/** Plans the sets. The order of the services does not matter. */
export function planMeshSets(services: readonly ServiceView[], { tcp, previous }: MeshSetOptions): MeshSets {
  const patched = previous && replan(services, { tcp, previous });
  if (patched !== undefined) return patched;
  const sets = collect(services, tcp);
  return {
    tcp: sets.tcp.toSorted(compareElements),
    vip: sets.vip.toSorted(compareIps),
    shim: sets.shim.toSorted(compareIps),
  };
}

function collect(services: readonly ServiceView[], tcp: boolean): MeshSets {
  const sets: { tcp: AddressPort[]; vip: IpAddress[]; shim: IpAddress[] } = { tcp: [], vip: [], shim: [] };
  for (const service of services) {
    sets.vip.push(...service.vips);
    if (!tcp) continue;
    if (isPureTcp(service)) sets.shim.push(...service.vips);
    sets.tcp.push(...listElements(service));
  }
  return sets;
}

function replan(services: readonly ServiceView[], { tcp, previous }: Required<MeshSetOptions>): MeshSets | undefined {
  const [out, come] = [listOnly(previous.services, services), listOnly(services, previous.services)];
  return changeMeshSets(previous.sets, { out, come, tcp });
}

/**
 * The plan without the services `out` and with those that `come`; `before` itself where that is the same. Undefined: two services
 * claim one address, so it cannot be said whose is gone.
 */
export function changeMeshSets(before: MeshSets, services: ServiceChange): MeshSets | undefined {
  const out = collect(services.out, services.tcp);
  const come = collect(services.come, services.tcp);
  const changed = {
    tcp: exchange(before.tcp, { out: out.tcp, come: come.tcp, ...ELEMENT }),
    vip: exchange(before.vip, { out: out.vip, come: come.vip, ...ADDRESS }),
    shim: exchange(before.shim, { out: out.shim, come: come.shim, ...ADDRESS }),
  };
  const { tcp: tcps, vip, shim } = changed;
  if (tcps === undefined || vip === undefined || shim === undefined) return undefined;
  const lost = { tcp: tcps.lost, vip: vip.lost, shim: shim.lost };
  const gained = { tcp: tcps.gained, vip: vip.gained, shim: shim.gained };
  if (countAll(lost) + countAll(gained) === 0) return before;
  return noteStep({ tcp: tcps.items, vip: vip.items, shim: shim.items }, before, { lost, gained });
}

function countAll(sets: MeshSets): number {
  return sets.tcp.length + sets.vip.length + sets.shim.length;
}

function listOnly(services: readonly ServiceView[], others: readonly ServiceView[]): readonly ServiceView[] {
  const known = new Set(others);
  return services.filter((service) => !known.has(service));
}

/** What an element of a set is, and in which order. */
interface Kind<T> {
  readonly addressOf: (item: T) => string;
  readonly nameOf: (item: T) => string;
  readonly compare: (a: T, b: T) => number;
}

const ADDRESS: Kind<IpAddress> = { addressOf: ({ text }) => text, nameOf: ({ text }) => text, compare: compareIps };
const ELEMENT: Kind<AddressPort> = {
  addressOf: ({ address }) => address.text,
  nameOf: ({ address, port }) => `${address.text} ${port}`,
  compare: compareElements,
};

interface Exchange<T> extends Kind<T> {
  readonly out: readonly T[];
  readonly come: readonly T[];
}

interface Exchanged<T> {
  readonly items: readonly T[];
  readonly lost: readonly T[];
  readonly gained: readonly T[];
}

// Elements that go and come again, as those of a service with another port, stay the objects that they are.
function exchange<T>(items: readonly T[], { out, come, ...kind }: Exchange<T>): Exchanged<T> | undefined {
  const { addressOf, nameOf } = kind;
  const coming = new Set(come.map(nameOf));
  const going = new Set(out.map(nameOf));
  if (coming.size < come.length || going.size < out.length) return undefined;
  const gone = out.filter((item) => !coming.has(nameOf(item)));
  const gained = come.filter((item) => !going.has(nameOf(item))).toSorted(kind.compare);
  const names = new Set(gone.map(nameOf));
  // Most are told by their address, without a name to be made.
  const addresses = new Set(gone.map(addressOf));
  const isLost = (item: T): boolean => addresses.has(addressOf(item)) && names.has(nameOf(item));
  const lost = gone.length === 0 ? [] : items.filter(isLost);
  if (lost.length !== gone.length) return undefined;
  const kept = lost.length === 0 ? items : items.filter((item) => !isLost(item));
  return { items: mergeSorted(kept, gained, { compare: kind.compare }), lost, gained };
}

function compareElements(a: AddressPort, b: AddressPort): number {
  return compareIps(a.address, b.address) || a.port - b.port;
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
