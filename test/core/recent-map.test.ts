// A bounded cache: what was asked for lately stays, the rest is made anew.
import t from 'tap';
import { RecentMap } from '../../src/core/recent-map.ts';

t.test('getOrMake() makes a thing once, and lets go of what was not asked for longest', (t) => {
  const map = new RecentMap<string>(2);
  const made: string[] = [];
  const ask = (key: string): string =>
    map.getOrMake(key, () => {
      made.push(key);
      return `${key}${made.length}`;
    });
  t.strictSame([ask('a'), ask('b'), ask('a')], ['a1', 'b2', 'a1']);
  t.equal(ask('c'), 'c3');
  t.equal(ask('a'), 'a1', 'asked for lately');
  t.equal(ask('b'), 'b4', 'gone');
  t.strictSame(made, ['a', 'b', 'c', 'b']);
  t.end();
});
