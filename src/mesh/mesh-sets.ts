// What the kernel of every pod is told about services: which (address, port) is TCP, which addresses belong to the
// mesh, which of them serve nothing but TCP. The agent's table holds these as sets (architecture §4).
import type { AddressPort, IpAddress } from '../core/ip.ts';

/** Both families in each list, sorted by address (then port), without duplicates. */
export interface MeshSets {
  /** Every TCP port of every mesh address, and 18082 where the service has a TCP port. */
  readonly tcp: readonly AddressPort[];
  /** Every mesh address. */
  readonly vip: readonly IpAddress[];
  /** Addresses of services that serve TCP and no HTTP. */
  readonly shim: readonly IpAddress[];
}

/** `sets` without the objects that `others` have as well: what two plans share needs no comparing. */
export function withoutShared(sets: MeshSets, others: MeshSets): MeshSets {
  const rest = <T>(items: readonly T[], shared: readonly T[]): readonly T[] => {
    const known = new Set(shared);
    return items.filter((item) => !known.has(item));
  };
  return {
    tcp: rest(sets.tcp, others.tcp),
    vip: rest(sets.vip, others.vip),
    shim: rest(sets.shim, others.shim),
  };
}
