// What was made lately, by key: a bounded number, and whatever was not asked for longest goes first.

/** Holds `size` items at most. */
export class RecentMap<T extends NonNullable<unknown>> {
  readonly #size: number;
  readonly #items = new Map<string, T>();

  constructor(size: number) {
    this.#size = size;
  }

  /** What is kept under the key; where nothing is, `make` makes it. */
  getOrMake(key: string, make: () => T): T {
    // Re-inserted, so that the first key is the one not used for longest.
    const item = this.#items.get(key) ?? make();
    this.#items.delete(key);
    this.#items.set(key, item);
    for (const oldest of this.#items.keys()) {
      if (this.#items.size <= this.#size) break;
      this.#items.delete(oldest);
    }
    return item;
  }
}
