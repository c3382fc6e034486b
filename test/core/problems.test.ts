// A problem is one short line, whatever control characters or lengths the input that it quotes has.
import t from 'tap';
import { formatProblems, ProblemList, quoteValue } from '../../src/core/problems.ts';

t.test('ProblemList keeps a problem on one line, and short, whatever the input put into it', async (t) => {
  const list = new ProblemList();
  list.add('key\nwith\u0000breaks', `said\r\n${'x'.repeat(1000)}`);
  list.warn('\u2028\u007f\u0085', '\u001b[31mred');
  const [problem] = list.problems;
  t.equal(problem?.path, 'key\\nwith\\u0000breaks');
  t.equal(problem?.message.length, 500);
  t.notMatch(formatProblems([...list.problems, ...list.warnings]), /\p{Cc}/u);
});

t.test('ProblemList leaves ordinary text as it is', async (t) => {
  const list = new ProblemList();
  list.add('runtimeConfig.x[2]', 'must be 1..65535, got "é"');
  t.strictSame(list.problems, [{ path: 'runtimeConfig.x[2]', message: 'must be 1..65535, got "é"' }]);
});

t.test('quoteValue() cuts what is long', async (t) => {
  t.equal(quoteValue('a\n'), '"a\\n"');
  t.equal(quoteValue('x'.repeat(100)).length, 80);
});
