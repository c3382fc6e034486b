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

/** How one plan came out of another. The objects that both share are the same ones. */
interface Step {
  readonly before: WeakRef<MeshSets>;
  readonly lost: MeshSets;
  readonly gained: MeshSets;
}

const steps = new WeakMap<MeshSets, Step>();

export const NO_SETS: MeshSets = { tcp: [], vip: [], shim: [] };

/** `sets` are `before` without the objects `lost` and with `gained`: withoutShared need not compare them. */
export function noteStep(sets: MeshSets, before: MeshSets, change: Pick<Step, 'lost' | 'gained'>): MeshSets {
  steps.set(sets, { before: new WeakRef(before), ...change });
  return sets;
}

/** `sets` without the objects that `others` have as well: what two plans share needs no comparing. */
export function withoutShared(sets: MeshSets, others: MeshSets): MeshSets {
  if (sets === others) return NO_SETS;
  const [step, back] = [steps.get(sets), steps.get(others)];
  if (step?.before.deref() === others) return step.gained;
  if (back?.before.deref() === sets) return back.lost;
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
