// Ranks of samples, and the tables.
import t from 'tap';
import { at, markdownTable, mean, median, show } from '../../../scripts/bench/samples.ts';

const hundred = Array.from({ length: 100 }, (_, i) => 100 - i);

for (const [share, value] of [
  [0.5, 50],
  [0.95, 95],
  [0.99, 99],
  [1, 100],
  [0, 1],
] as const) {
  t.test(`at() of 1 to 100 at ${share} is ${value}`, async (t) => t.equal(at(hundred, share), value));
}

t.test('at() and median() of few samples', async (t) => {
  t.equal(median([3, 1, 2]), 2);
  t.equal(median([2, 1]), 1);
  t.equal(at([7], 0.99), 7);
  t.ok(Number.isNaN(at([], 0.5)));
  t.equal(mean([1, 2, 6]), 3);
});

t.test('show() has a dash for what was not measured', async (t) => {
  t.equal(show(1.005, 1), '1.0');
  t.equal(show(Number.NaN), '–');
  t.equal(show(1 / 0), '–');
});

t.test('markdownTable() aligns numbers', async (t) => {
  t.equal(
    markdownTable([
      ['what', 'ms'],
      ['a', '1'],
    ]),
    '| what | ms |\n| --- | ---: |\n| a | 1 |',
  );
});
