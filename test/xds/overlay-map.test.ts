import fc from 'fast-check';
import t from 'tap';
import { overlayMap } from '../../src/xds/overlay-map.ts';

const BASE = new Map(Array.from({ length: 600 }, (_, index) => [`k${index}`, index]));

t.test('overlayMap() is what copying and setting gives, however often', (t) => {
  const anyChanges = fc.array(fc.array(fc.tuple(fc.integer({ min: 0, max: 599 }), fc.integer()), { maxLength: 200 }), {
    maxLength: 6,
  });
  fc.assert(
    fc.property(anyChanges, (rounds) => {
      let plain = new Map(BASE);
      let overlaid: ReadonlyMap<string, number> = BASE;
      for (const round of rounds) {
        const changes = new Map(round.map(([index, value]) => [`k${index}`, value]));
        plain = new Map([...plain, ...changes]);
        overlaid = overlayMap(overlaid, changes);
      }
      const entries = [...plain];
      const seen: [string, number][] = [];
      overlaid.forEach((value, name) => void seen.push([name, value]));
      t.strictSame([...overlaid], entries);
      t.strictSame(seen, entries);
      t.strictSame([...overlaid.keys()], [...plain.keys()]);
      t.strictSame([...overlaid.values()], [...plain.values()]);
      t.equal(overlaid.size, plain.size);
      t.ok(entries.every(([name, value]) => overlaid.has(name) && overlaid.get(name) === value));
      t.notOk(overlaid.has('other'));
    }),
    { numRuns: 10 },
  );
  t.end();
});
