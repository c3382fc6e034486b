// A pod's table as it was found at the agent's start, against the plan: what has to be done about it, and which elements no
// pod of the node has yet.
import { withoutMeshElements } from '../capture/mesh-table.ts';
import { type MeshSets, NO_SETS } from '../mesh/mesh-sets.ts';
import { compareTable } from '../nft/compare.ts';
import { diffElements, isPlainSet, type PlainSet, pick } from '../nft/diff-elements.ts';
import type { KernelTable } from '../nft/kernel-table.ts';
import type { ElementChange, Table } from '../nft/model.ts';
import { listElements } from '../nft/text.ts';

export type TableDifference =
  | { readonly kind: 'none' }
  /** Its rules are the plan's: elements are taken away and put in. */
  | { readonly kind: 'elements'; readonly missing: readonly PlainSet[]; readonly extra: readonly PlainSet[] }
  /** There is none, or it is not what a table of ours looks like. */
  | { readonly kind: 'table' };

/** `found` undefined: there is no such table. Elements of interval sets count as rules: they never change while a pod lives. */
export function findTableDifference(planned: Table, found: KernelTable | undefined): TableDifference {
  if (found === undefined || compareTable(planned, found, { ignoreElements: 'plain' }).length > 0) {
    return { kind: 'table' };
  }
  const differences = planned.sets.filter(isPlainSet).map((set) => {
    const there = found.sets.find(({ name }) => name === set.name);
    return there === undefined ? {} : diffElements(set, there);
  });
  const missing = differences.flatMap((difference) => difference.missing ?? []);
  const extra = differences.flatMap((difference) => difference.extra ?? []);
  return missing.length + extra.length === 0 ? { kind: 'none' } : { kind: 'elements', missing, extra };
}

/**
 * What of `sets` Envoy is known to have clusters for: the elements that some pod had. The agent before put no element in
 * before Envoy had said so. The same object when that is all of them.
 */
export function keepHeld(sets: MeshSets, differences: readonly TableDifference[]): MeshSets {
  const looked = differences.filter(({ kind }) => kind !== 'table');
  if (differences.length === 0) return sets;
  if (looked.length === 0) return NO_SETS;
  const counts = new Map<string, number>();
  for (const difference of looked) {
    if (difference.kind !== 'elements') continue;
    for (const name of difference.missing.flatMap(namesOf)) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const nowhere = new Set([...counts].filter(([, count]) => count === looked.length).map(([name]) => name));
  return nowhere.size === 0 ? sets : withoutMeshElements(sets, nowhere);
}

/** What brings the table to the plan of `planned`, which may have less than the one it was compared with. */
export function planRepair(
  { missing, extra }: Extract<TableDifference, { readonly kind: 'elements' }>,
  planned: Table,
): ElementChange {
  const wanted = new Set(planned.sets.filter(isPlainSet).flatMap(namesOf));
  const add = missing.map((set) => {
    const names = namesOf(set);
    return pick(set, (index) => wanted.has(names[index] ?? ''));
  });
  return { table: planned.name, add: add.filter(({ elements }) => elements.length > 0), remove: extra };
}

/** `mesh_tcp4 10.254.0.1 . 9000`, in the set's order. */
function namesOf(set: PlainSet): readonly string[] {
  return listElements(set).map((text) => `${set.name} ${text}`);
}
