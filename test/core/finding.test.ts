// How `check` prints what it found, for people and as JSON: a line each, whatever is quoted, and what to do below.
import t from 'tap';
import {
  type Finding,
  FindingList,
  formatFindings,
  formatFindingsJson,
  isFine,
  joinFineSubjects,
  summariseFindings,
} from '../../src/core/finding.ts';

const FINDINGS: readonly Finding[] = [
  { status: 'ok', area: 'agent', subject: 'node-a', message: 'ready', remedy: '' },
  { status: 'warn', area: 'kernel', subject: '5.15', message: 'old', remedy: '' },
  {
    status: 'fail',
    area: 'rules',
    subject: 'demo/shop-0',
    message: 'missing table inet aether',
    remedy: 'recreate it',
  },
];

t.test('formatFindings() aligns, and says what to do below', async (t) => {
  t.equal(
    formatFindings(FINDINGS),
    [
      'ok    agent   node-a       ready',
      'warn  kernel  5.15         old',
      'fail  rules   demo/shop-0  missing table inet aether',
      '      to do: recreate it',
      '',
    ].join('\n'),
  );
});

t.test('formatFindings() keeps a finding on its line whatever it quotes', async (t) => {
  const message = 'error adding listener:\n\u001b[31m  cannot bind\r\n';
  t.equal(
    formatFindings([{ status: 'fail', area: 'proxy', subject: 'a\u2028b', message, remedy: '' }]),
    'fail  proxy  a b  error adding listener: [31m  cannot bind\n',
  );
});

t.test('formatFindings() lets a long subject stand out alone', async (t) => {
  const long: Finding = { status: 'ok', area: 'a', subject: 'x'.repeat(80), message: 'm', remedy: '' };
  const [first = ''] = formatFindings([{ ...long, subject: 's' }, long]).split('\n');
  t.equal(first.length, 'ok    a  '.length + 44 + '  m'.length);
});

t.test('formatFindings() without findings is empty', async (t) => t.equal(formatFindings([]), ''));

t.test('joinFineSubjects() makes a pod in order one line, and leaves the others and the node alone', async (t) => {
  const ok = (area: string, subject: string): Finding => ({ status: 'ok', area, subject, message: 'm', remedy: '' });
  const bad: Finding = { ...ok('proxy', 'demo/b'), status: 'warn' };
  const findings = [
    ok('dns', 'node'),
    ok('dns', 'node'),
    ok('rules', 'demo/a'),
    ok('rules', 'demo/b'),
    bad,
    ok('proxy', 'demo/a'),
    ok('rules', 'demo/a'),
  ];
  t.strictSame(joinFineSubjects(findings, new Set(['demo/a', 'demo/b'])), [
    ...[ok('dns', 'node'), ok('dns', 'node')],
    { ...ok('pod', 'demo/a'), message: 'in order: rules, proxy' },
    ...[ok('rules', 'demo/b'), bad],
  ]);
});

t.test('isFine() is about failures only', async (t) => {
  t.equal(isFine(FINDINGS), false);
  t.equal(isFine(FINDINGS.slice(0, 2)), true);
});

t.test('formatFindingsJson() has every key of the contract', async (t) => {
  t.strictSame(JSON.parse(formatFindingsJson(FINDINGS)), { ok: false, findings: FINDINGS });
});

t.test('summariseFindings() counts', async (t) => {
  t.equal(summariseFindings(FINDINGS), '1 problem, 1 warning, 1 fine');
  t.equal(summariseFindings([]), '0 problems, 0 warnings, 0 fine');
});

t.test('FindingList keeps the order and the area', async (t) => {
  const list = new FindingList('dns');
  list.ok('a', 'answers');
  list.warn('b', { message: 'slow', remedy: '' });
  list.fail('c', { message: 'silent', remedy: 'restart' });
  t.strictSame(list.all, [
    { status: 'ok', area: 'dns', subject: 'a', message: 'answers', remedy: '' },
    { status: 'warn', area: 'dns', subject: 'b', message: 'slow', remedy: '' },
    { status: 'fail', area: 'dns', subject: 'c', message: 'silent', remedy: 'restart' },
  ]);
});
