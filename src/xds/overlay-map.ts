// A large map with a few values exchanged: as cheap to make as what is exchanged. The names and their order are the base's.

/** So many are exchanged at most before all are copied. */
const OVERLAY_MAX = 256;

/** `base` with `changes`, all of whose names it has. */
export function overlayMap<V>(base: ReadonlyMap<string, V>, changes: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  if (changes.size === 0) return base;
  if (!(base instanceof OverlayMap)) return new OverlayMap(base, changes);
  const all = new Map([...base.changes, ...changes]);
  if (all.size <= OVERLAY_MAX) return new OverlayMap(base.base, all);
  return new Map([...base.base].map(([name, value]) => [name, all.get(name) ?? value]));
}

class OverlayMap<V> implements ReadonlyMap<string, V> {
  readonly base: ReadonlyMap<string, V>;
  readonly changes: ReadonlyMap<string, V>;

  constructor(base: ReadonlyMap<string, V>, changes: ReadonlyMap<string, V>) {
    this.base = base;
    this.changes = changes;
  }

  get size(): number {
    return this.base.size;
  }

  get(name: string): V | undefined {
    return this.changes.get(name) ?? this.base.get(name);
  }

  has(name: string): boolean {
    return this.base.has(name);
  }

  keys(): MapIterator<string> {
    return this.base.keys();
  }

  *entries(): MapIterator<[string, V]> {
    for (const [name, value] of this.base) yield [name, this.changes.get(name) ?? value];
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  forEach(callback: (value: V, name: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [name, value] of this.entries()) callback(value, name, this);
  }
}
