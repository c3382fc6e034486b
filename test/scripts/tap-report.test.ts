// The judge of every test run: what is skipped, to do, cut short or bailed out is no success.
import t from 'tap';
import { readTap } from '../../scripts/tap-report.ts';

const cases = [
  {
    name: 'counts the assertions of subtests, not the subtests',
    text: `TAP version 14
# Subtest: a
    # Subtest: b
        ok 1 - x
        ok 2 - y
        1..2
    ok 1 - b # time=3ms
    1..1
ok 1 - a # time=4ms
ok 2 - z
1..2`,
    passed: 3,
    failures: [],
    complete: true,
  },
  {
    name: 'names a failure by its subtests and keeps its diagnostic, whatever stands in it',
    text: `# Subtest: a
    # Subtest: b \\# c
        not ok 1 - x
          ---
          source: |
            ok 7 - not a point
          ...
        1..1
    not ok 1 - b \\# c # time=1ms
      ---
      not: kept
      ...
    ok 2 - y
    1..2
not ok 1 - a
1..1`,
    passed: 1,
    failures: [{ title: 'a > b # c > x', reason: 'failed', diagnostic: ['source: |', '  ok 7 - not a point'] }],
    complete: true,
  },
  {
    name: 'counts a subtest that fails although its assertions pass',
    text: `# Subtest: a
    ok 1 - x
    1..2
not ok 1 - a # time=1ms
1..1`,
    passed: 1,
    failures: [{ title: 'a', reason: 'failed', diagnostic: [] }],
    complete: true,
  },
  {
    name: 'counts a subtest without assertions once',
    text: `# Subtest: a
    1..0
ok 1 - a
1..1`,
    passed: 1,
    failures: [],
    complete: true,
  },
  {
    name: 'takes skip and todo for failures',
    text: `ok 1 - a # SKIP no network
ok 2 - b # TODO
# Subtest: c
    ok 1 - d # skip
    1..1
ok 3 - c
1..3`,
    passed: 0,
    failures: [
      { title: 'a', reason: 'skipped', diagnostic: [] },
      { title: 'b', reason: 'todo', diagnostic: [] },
      { title: 'c > d', reason: 'skipped', diagnostic: [] },
    ],
    complete: true,
  },
  { name: 'sees that a file died before its plan', text: 'ok 1 - a\nhello', passed: 1, failures: [], complete: false },
  { name: 'sees that points are missing', text: 'ok 1 - a\n1..2', passed: 1, failures: [], complete: false },
  { name: 'takes an empty plan for incomplete', text: '1..0 # no tests', passed: 0, failures: [], complete: false },
  {
    name: 'takes a bail-out for incomplete',
    text: 'ok 1 - a\nBail out! x\n1..1',
    passed: 1,
    failures: [],
    complete: false,
  },
  { name: 'takes no output for incomplete', text: '', passed: 0, failures: [], complete: false },
];

for (const { name, text, ...report } of cases) {
  t.test(`readTap() ${name}`, async (t) => {
    t.same(readTap(text), report);
  });
}
