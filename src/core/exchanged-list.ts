// A long list that is the one before with a few items exchanged, and says so: whoever worked off the one before looks at those
// few places alone; and what is new of one that does not say so.

interface Exchange {
  readonly before: WeakRef<object>;
  readonly places: readonly number[];
}

/** Weak at both ends: a list does not keep those that it came from. */
const exchanges = new WeakMap<object, Exchange>();

/** A copy with other items at some places. */
export function exchangeItems<T>(list: readonly T[], items: ReadonlyMap<number, T>): readonly T[] {
  const made = list.slice();
  for (const [place, item] of items) made[place] = item;
  exchanges.set(made, { before: new WeakRef(list), places: [...items.keys()] });
  return made;
}

/** Where `list` differs at most from `before`, out of which it was made in one step; undefined: it was not. */
export function findExchanged(list: readonly unknown[], before: readonly unknown[]): readonly number[] | undefined {
  if (list === before) return [];
  const exchange = exchanges.get(list);
  return exchange?.before.deref() === before ? exchange.places : undefined;
}

/** The items of `list` that are not those of `before`, by identity; both are in the order of `compare`. */
export function listFresh<T>(
  list: readonly T[],
  before: readonly T[],
  { compare }: { readonly compare: (a: T, b: T) => number },
): readonly T[] {
  const exchanged = findExchanged(list, before);
  if (exchanged !== undefined) {
    return exchanged.flatMap((place) => (list[place] === before[place] ? [] : list.slice(place, place + 1)));
  }
  const fresh: T[] = [];
  let next = 0;
  for (const item of list) {
    let other = before[next];
    while (other !== undefined && other !== item && compare(other, item) < 0) other = before[++next];
    if (other === item) next += 1;
    else fresh.push(item);
  }
  return fresh;
}
