// A list remembers where it differs from the one that it was made of, one step back and no further.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { exchangeItems, findExchanged, listFresh } from '../../src/core/exchanged-list.ts';

t.test('exchangeItems() copies, and findExchanged() knows where it did otherwise', (t) => {
  const first = ['a', 'b', 'c'];
  const second = exchangeItems(first, new Map([[1, 'x']]));
  t.strictSame(
    [first, second],
    [
      ['a', 'b', 'c'],
      ['a', 'x', 'c'],
    ],
  );
  t.strictSame(findExchanged(second, first), [1]);
  t.strictSame(findExchanged(second, second), []);
  const third = exchangeItems(
    second,
    new Map([
      [0, 'y'],
      [2, 'z'],
    ]),
  );
  t.strictSame(findExchanged(third, second), [0, 2]);
  t.equal(findExchanged(third, first), undefined, 'two steps away');
  t.equal(findExchanged(first, second), undefined, 'the other way round');
  t.equal(findExchanged(['a', 'b', 'c'], first), undefined, 'equal, and not made of it');
  t.end();
});

t.test('listFresh() gives what is not in the list before, by identity', (t) => {
  const compare = (a: { readonly key: number }, b: { readonly key: number }) => a.key - b.key;
  const anyKeys = fc.uniqueArray(fc.integer({ min: 0, max: 30 })).map((keys) => keys.toSorted((a, b) => a - b));
  fc.assert(
    fc.property(anyKeys, anyKeys, fc.array(fc.integer({ min: 0, max: 30 })), (keys, later, exchanged) => {
      const before = keys.map((key) => ({ key }));
      const kept = new Map(before.map((item) => [item.key, item]));
      for (const key of exchanged) kept.delete(key);
      const list = later.map((key) => kept.get(key) ?? { key });
      const wanted = list.filter((item) => !before.includes(item));
      const found = listFresh(list, before, { compare });
      assert.equal(found.length, wanted.length);
      for (const [place, item] of found.entries()) assert.equal(item, wanted[place]);
    }),
  );
  const [first, second] = [{ key: 1 }, { key: 2 }];
  const list = [first, second];
  const made = exchangeItems(
    list,
    new Map([
      [1, { key: 2 }],
      [0, first],
    ]),
  );
  t.strictSame(listFresh(made, list, { compare }), [made[1]]);
  t.end();
});
