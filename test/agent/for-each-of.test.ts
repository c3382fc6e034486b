// Work on many items side by side: never more than the bound, and nothing new after a failure.
import t from 'tap';
import { forEachOf } from '../../src/agent/for-each-of.ts';

t.test('forEachOf() runs no more than so many at a time, and all of them', async (t) => {
  let running = 0;
  let most = 0;
  const done: number[] = [];
  await forEachOf([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    running += 1;
    most = Math.max(most, running);
    await new Promise(setImmediate);
    running -= 1;
    done.push(item);
  });
  t.equal(most, 3);
  t.strictSame(done, [1, 2, 3, 4, 5, 6, 7]);
  await forEachOf([], 3, async () => {
    t.fail();
  });
});

t.test('forEachOf() begins nothing after a failure, and rejects with it', async (t) => {
  const begun: number[] = [];
  const run = forEachOf([1, 2, 3, 4, 5, 6], 2, async (item) => {
    begun.push(item);
    await new Promise(setImmediate);
    if (item === 2) throw new Error('two');
  });
  await t.rejects(run, { message: 'two' });
  await new Promise(setImmediate);
  t.ok(begun.length <= 3, begun.join());
});
