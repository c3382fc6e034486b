// Long sorted lists: where something stands in them, and with a few items more.

/** The first place whose item is not before what is looked for; the length of the list where there is none. */
export function findPlace<T>(items: readonly T[], isBefore: (item: T) => boolean): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = items[middle];
    if (item !== undefined && isBefore(item)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Below that share of them, each of the fresh ones is put in its place; above it all are compared. */
const FEW = 1 / 32;

/** Both lists are in the order of `compare`; of two alike the one of `items` is first. Without `fresh` it is `items` itself. */
export function mergeSorted<T>(
  items: readonly T[],
  fresh: readonly T[],
  { compare }: { readonly compare: (a: T, b: T) => number },
): readonly T[] {
  if (fresh.length === 0) return items;
  if (fresh.length > items.length * FEW) return [...items, ...fresh].sort(compare);
  const merged = items.slice();
  for (const item of fresh.toReversed())
    merged.splice(
      findPlace(items, (other) => compare(other, item) <= 0),
      0,
      item,
    );
  return merged;
}
