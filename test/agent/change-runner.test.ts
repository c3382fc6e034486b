// The agent's single file of changes: order, refreshes that are shared or put off, failures that stop nobody. Also KeyedLock,
// which keeps apart only the calls of one key.
import { mock } from 'node:test';
import t from 'tap';
import { ChangeRunner } from '../../src/agent/change-runner.ts';
import { KeyedLock } from '../../src/agent/keyed-lock.ts';

const pause = (ms = 2) => new Promise((resolve) => setTimeout(resolve, ms));

t.test('ChangeRunner runs jobs one at a time, in order, and goes on after a failure', async (t) => {
  const seen: string[] = [];
  const runner = new ChangeRunner({ refresh: async () => void seen.push('refresh'), onError: () => {} });
  const job =
    (name: string, fails = false) =>
    async () => {
      seen.push(`${name} begins`);
      await pause();
      seen.push(`${name} ends`);
      if (fails) throw new Error(name);
      return name;
    };
  const results = await Promise.allSettled([runner.run(job('a')), runner.run(job('b', true)), runner.run(job('c'))]);
  t.match(results, [{ value: 'a' }, { reason: { message: 'b' } }, { value: 'c' }]);
  t.strictSame(seen, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
});

t.test('ChangeRunner.request() before a refresh has begun is one refresh; during it, another', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let refreshes = 0;
  const errors: unknown[] = [];
  const first = Promise.withResolvers<void>();
  const runner = new ChangeRunner({
    refresh: async () => {
      refreshes++;
      if (refreshes === 1) await first.promise;
    },
    onError: (error) => errors.push(error),
  });
  for (let i = 0; i < 5; i++) runner.request();
  await new Promise(setImmediate);
  runner.request();
  t.equal(refreshes, 0, 'others come first');
  mock.timers.tick(5);
  await new Promise(setImmediate);
  t.equal(refreshes, 1);
  for (let i = 0; i < 5; i++) runner.request();
  first.reject(new Error('first'));
  await new Promise(setImmediate);
  t.equal(refreshes, 1);
  mock.timers.tick(5);
  await runner.idle();
  t.equal(refreshes, 2);
  t.match(errors, [{ message: 'first' }]);
});

t.test('ChangeRunner.request() waits while others go on coming, but not for ever', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let refreshes = 0;
  const refresh = async () => void refreshes++;
  const runner = new ChangeRunner({ refresh, onError: () => {} });
  const passMs = async (ms: number) => {
    mock.timers.tick(ms);
    await new Promise(setImmediate);
    return refreshes;
  };
  runner.request();
  for (let ms = 0; ms < 36; ms += 4) {
    t.equal(await passMs(4), 0, `${ms} ms`);
    runner.request();
  }
  t.equal(await passMs(4), 1, 'that was long enough');
  runner.request();
  t.equal(await passMs(4), 1);
  runner.request();
  t.equal(await passMs(4), 1);
  t.equal(await passMs(1), 2, 'nobody came any more');
  t.equal(await passMs(100), 2);
});

t.test('ChangeRunner.refresh() is shared by all who ask before it begins, and its failure, too', async (t) => {
  // Time stands still: what waited for others to be first would never begin.
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let refreshes = 0;
  const errors: unknown[] = [];
  const runner = new ChangeRunner({
    refresh: async () => {
      refreshes++;
      if (refreshes === 2) throw new Error('second');
    },
    onError: (error) => errors.push(error),
  });
  runner.request();
  await Promise.all([runner.refresh(), runner.refresh(), runner.refresh()]);
  t.equal(refreshes, 1, 'what somebody waits for is not put off');
  t.match(await Promise.allSettled([runner.refresh(), runner.refresh()]), [
    { reason: { message: 'second' } },
    { reason: { message: 'second' } },
  ]);
  await runner.refresh();
  t.equal(refreshes, 3);
  t.strictSame(errors, [], 'whoever waits for one is told');
});

t.test('KeyedLock lets calls of one key wait for each other, not those of others', async (t) => {
  const lock = new KeyedLock();
  const seen: string[] = [];
  const other = Promise.withResolvers<void>();
  const job =
    (name: string, work: () => unknown = () => {}) =>
    async () => {
      seen.push(`+${name}`);
      await work();
      seen.push(`-${name}`);
      if (name === 'x1') throw new Error(name);
    };
  const all = [
    lock.run(
      'x',
      job('x1', () => other.promise),
    ),
    lock.run('x', job('x2')),
    lock.run('y', job('y1')).then(other.resolve),
  ];
  t.match(await Promise.allSettled(all), [{ status: 'rejected' }, { status: 'fulfilled' }, { status: 'fulfilled' }]);
  t.strictSame(seen, ['+x1', '+y1', '-y1', '-x1', '+x2', '-x2']);
});
