// A map with changes laid over it must look like a copy with the changes made, through random rounds of them.
import fc from 'fast-check';
import t from 'tap';
import { isWorn, overlayMap } from '../../src/xds/overlay-map.ts';

const BASE = new Map(Array.from({ length: 600 }, (_, index) => [`k${index}`, index]));

t.test('overlayMap() is what copying, setting and deleting gives, however often', (t) => {
  const anyChange = fc.tuple(fc.integer({ min: 0, max: 699 }), fc.option(fc.integer(), { nil: undefined }));
  fc.assert(
    fc.property(fc.array(fc.array(anyChange, { maxLength: 200 }), { maxLength: 6 }), (rounds) => {
      const plain = new Map(BASE);
      let overlaid: ReadonlyMap<string, number> = BASE;
      for (const round of rounds) {
        const changes = new Map(round.map(([index, value]) => [`k${index}`, value]));
        for (const [name, value] of changes) {
          if (value === undefined) plain.delete(name);
          else plain.set(name, value);
        }
        overlaid = overlayMap(overlaid, changes);
      }
      const seen: [string, number][] = [];
      overlaid.forEach((value, name) => void seen.push([name, value]));
      t.strictSame(new Map(overlaid), plain);
      t.strictSame(seen, [...overlaid]);
      t.strictSame([...overlaid.keys()], [...new Set(overlaid.keys())], 'each name once');
      t.strictSame(
        [...overlaid.keys(), ...overlaid.values()],
        [...seen.map(([name]) => name), ...seen.map(([, value]) => value)],
      );
      t.equal(overlaid.size, plain.size);
      t.ok([...BASE.keys(), 'k650', 'other'].every((name) => overlaid.has(name) === plain.has(name)));
      t.ok([...BASE.keys(), 'k650', 'other'].every((name) => overlaid.get(name) === plain.get(name)));
    }),
    { numRuns: 10 },
  );
  t.end();
});

t.test('overlayMap() keeps the order of the base, and what comes behind it', (t) => {
  const base = new Map([
    ['b', 1],
    ['a', 2],
    ['c', 3],
  ]);
  const overlaid = overlayMap(
    base,
    new Map([
      ['z', 4],
      ['a', undefined],
      ['c', 5],
    ]),
  );
  t.strictSame(
    [...overlaid],
    [
      ['b', 1],
      ['c', 5],
      ['z', 4],
    ],
  );
  t.equal(overlayMap(base, new Map()), base);
  t.end();
});

t.test('isWorn() is said when as much lies over the base as it holds', (t) => {
  let map: ReadonlyMap<string, number> = BASE;
  t.equal(isWorn(map), false);
  for (let i = 0; i < 1000; i++) map = overlayMap(map, new Map([[`new${i}`, i]]));
  t.equal(isWorn(map), false, 'a small map holds little');
  for (let i = 1000; i < 1100; i++) map = overlayMap(map, new Map([[`new${i}`, i]]));
  t.equal(isWorn(map), true);
  t.end();
});
