// A large map with a few values exchanged: as cheap to make as what is exchanged. The names and their order are the base's.

/** A layer holds so many times as much as the one above it. */
const GROWTH = 32;

/** `base` with `changes`, all of whose names it has. */
export function overlayMap<V>(base: ReadonlyMap<string, V>, changes: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  if (changes.size === 0) return base;
  if (!(base instanceof OverlayMap)) return new OverlayMap(base, [changes]);
  return new OverlayMap(base.base, addLayer(base.layers, changes));
}

// A full layer goes down into the next one, which is copied once for as often as it is larger: nothing is ever copied as a
// whole, and few layers are to be looked through.
function addLayer<V>(
  layers: readonly ReadonlyMap<string, V>[],
  changes: ReadonlyMap<string, V>,
): readonly ReadonlyMap<string, V>[] {
  const [top = new Map<string, V>(), ...below] = layers;
  const emptied: ReadonlyMap<string, V>[] = [];
  let layer = new Map([...top, ...changes]);
  let room = GROWTH;
  while (layer.size > room) {
    emptied.push(new Map());
    layer = new Map([...(below.shift() ?? []), ...layer]);
    room *= GROWTH;
  }
  return [...emptied, layer, ...below];
}

class OverlayMap<V> implements ReadonlyMap<string, V> {
  readonly base: ReadonlyMap<string, V>;
  /** The newest first. */
  readonly layers: readonly ReadonlyMap<string, V>[];

  constructor(base: ReadonlyMap<string, V>, layers: readonly ReadonlyMap<string, V>[]) {
    this.base = base;
    this.layers = layers;
  }

  get size(): number {
    return this.base.size;
  }

  get(name: string): V | undefined {
    for (const layer of this.layers) {
      const value = layer.get(name);
      if (value !== undefined) return value;
    }
    return this.base.get(name);
  }

  has(name: string): boolean {
    return this.base.has(name);
  }

  keys(): MapIterator<string> {
    return this.base.keys();
  }

  *entries(): MapIterator<[string, V]> {
    for (const [name, value] of this.base) yield [name, this.get(name) ?? value];
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
