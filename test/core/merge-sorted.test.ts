// A few items into a long sorted list, by the two ways that mergeSorted() has, against joining and sorting.
import fc from 'fast-check';
import t from 'tap';
import { compareNumbers } from '../../src/core/compare.ts';
import { findPlace, mergeSorted } from '../../src/core/merge-sorted.ts';

t.test('mergeSorted() is what joining and sorting gives', (t) => {
  type Item = { readonly at: number; readonly id: number };
  const compare = (a: Item, b: Item): number => a.at - b.at;
  const anyList = (maxLength: number) =>
    fc
      .array(fc.record({ at: fc.integer({ min: 0, max: 20 }), id: fc.integer() }), { maxLength, size: 'max' })
      .map((list) => list.toSorted(compare));
  fc.assert(
    fc.property(anyList(400), anyList(12), (items, fresh) => {
      const wanted = [...items, ...fresh].sort(compare);
      const merged = mergeSorted(items, fresh, { compare });
      if (merged.length !== wanted.length || merged.some((item, i) => item !== wanted[i])) throw new Error('other');
    }),
  );
  const items = [1, 2];
  t.equal(mergeSorted(items, [], { compare: compareNumbers }), items);
  t.end();
});

t.test('findPlace() finds where something stands or would stand', (t) => {
  const items = [1, 3, 3, 5];
  const placeOf = (wanted: number): number => findPlace(items, (item) => item < wanted);
  t.strictSame([0, 1, 2, 3, 5, 6].map(placeOf), [0, 0, 1, 1, 3, 4]);
  t.equal(
    findPlace([], () => true),
    0,
  );
  t.end();
});
