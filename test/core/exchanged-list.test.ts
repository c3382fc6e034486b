// A list remembers where it differs from the one that it was made of, one step back and no further.
import t from 'tap';
import { exchangeItems, findExchanged } from '../../src/core/exchanged-list.ts';

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
