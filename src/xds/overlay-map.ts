// A large map with a few values exchanged, come or gone: as cheap to make as what has changed. The names that the base has keep
// its order; those that came stand behind them.

/** A layer holds so many times as much as the one above it. */
const GROWTH = 16;
/** Of a small map more may have changed than it holds before that counts. */
const WORN_MIN = 1024;

const GONE = Symbol('gone');

type Layer<V> = ReadonlyMap<string, V | typeof GONE>;

/** `base` with `changes`; undefined takes a name away. */
export function overlayMap<V extends NonNullable<unknown>>(
  base: ReadonlyMap<string, V>,
  changes: ReadonlyMap<string, V | undefined>,
): ReadonlyMap<string, V> {
  if (changes.size === 0) return base;
  let { size } = base;
  const layer = new Map<string, V | typeof GONE>();
  for (const [name, value] of changes) {
    size += Number(value !== undefined) - Number(base.has(name));
    layer.set(name, value ?? GONE);
  }
  if (!(base instanceof OverlayMap)) return new OverlayMap(base, { layers: [layer], size });
  return new OverlayMap(base.base, { layers: addLayer(base.layers, layer), size });
}

/** So much has changed that a plain map costs less than going on: it holds as much as what lies over it. */
export function isWorn(map: ReadonlyMap<string, unknown>): boolean {
  if (!(map instanceof OverlayMap)) return false;
  const changes = map.layers.reduce((sum, { size }) => sum + size, 0);
  return changes > Math.max(WORN_MIN, map.base.size);
}

// A full layer goes down into the next one, which is copied once for as often as it is larger: nothing is ever copied as a
// whole, and few layers are to be looked through.
function addLayer<V>(layers: readonly Layer<V>[], changes: Layer<V>): readonly Layer<V>[] {
  const [top = new Map(), ...below] = layers;
  const emptied: Layer<V>[] = [];
  let layer: Layer<V> = merge(top, changes);
  let room = GROWTH;
  while (layer.size > room) {
    emptied.push(new Map());
    layer = merge(below.shift() ?? new Map(), layer);
    room *= GROWTH;
  }
  return [...emptied, layer, ...below];
}

function merge<V>(older: Layer<V>, newer: Layer<V>): Layer<V> {
  const merged = new Map(older);
  for (const [name, value] of newer) merged.set(name, value);
  return merged;
}

class OverlayMap<V extends NonNullable<unknown>> implements ReadonlyMap<string, V> {
  readonly base: ReadonlyMap<string, V>;
  /** The newest first. */
  readonly layers: readonly Layer<V>[];
  readonly size: number;

  constructor(base: ReadonlyMap<string, V>, { layers, size }: { layers: readonly Layer<V>[]; size: number }) {
    this.base = base;
    this.layers = layers;
    this.size = size;
  }

  get(name: string): V | undefined {
    for (const layer of this.layers) {
      const value = layer.get(name);
      if (value !== undefined) return value === GONE ? undefined : value;
    }
    return this.base.get(name);
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  *entries(): MapIterator<[string, V]> {
    for (const name of this.base.keys()) {
      const value = this.get(name);
      if (value !== undefined) yield [name, value];
    }
    const seen = new Set<string>();
    for (const layer of this.layers.toReversed()) {
      for (const name of layer.keys()) {
        if (this.base.has(name) || seen.has(name)) continue;
        seen.add(name);
        const value = this.get(name);
        if (value !== undefined) yield [name, value];
      }
    }
  }

  *keys(): MapIterator<string> {
    for (const [name] of this.entries()) yield name;
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
