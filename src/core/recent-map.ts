// What was made lately, by key: a bounded number, and whatever was not asked for longest goes first.

/** Holds `size` items at most. */
export class RecentMap<T extends NonNullable<unknown>> {
  readonly #size: number;
  readonly #items = new Map<string, T>();
  #newest: { readonly key: string; readonly item: T } | undefined;

  constructor(size: number) {
    this.#size = size;
  }

  /** What is kept under the key; where nothing is, `make` makes it. */
  getOrMake(key: string, make: () => T): T {
    // A map that rested is slow.
    if (this.#newest?.key === key) return this.#newest.item;
    const item = this.#items.get(key) ?? make();
    // Re-inserted, so that the first key is the one not used for longest.
    this.#items.delete(key);
    this.#items.set(key, item);
    this.#newest = { key, item };
    if (this.#items.size > this.#size) this.#items.delete(this.#items.keys().next().value ?? key);
    return item;
  }
}
