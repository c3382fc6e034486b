// npm test, after setup: checks, build, then every test file, each as a process of its own: two at a time, those of test/e2e
// alone. A line a file as it ends; the very last line is `N passed, N failed`, counted in assertions (tap-report.ts).
//
//   node scripts/test.ts [--quick] [PATH…]     --quick: see quick-tests.ts; a PATH keeps the files that contain it, and no checks
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runChecks, runStep } from './check.ts';
import { isQuickTest } from './quick-tests.ts';
import { listFiles } from './stamp.ts';
import { readTap } from './tap-report.ts';
import { runTestProcess } from './test-process.ts';

const TIMEOUT_MS = 600_000;
const PARALLEL = 2;

process.chdir(join(import.meta.dirname, '..'));
const { values, positionals } = parseArgs({ options: { quick: { type: 'boolean' } }, allowPositionals: true });

let passed = 0;
let failed = 0;

async function testFile(file: string): Promise<void> {
  const start = performance.now();
  const { stdout, stderr, problem } = await runTestProcess(file, TIMEOUT_MS);
  const { failures, complete, ...report } = readTap(stdout);
  const details = failures.map(({ reason, title, diagnostic }) =>
    [`  ${reason}: ${title}`, ...diagnostic.map((line) => `      ${line}`)].join('\n'),
  );
  // tap's exit code repeats its failures; alone it means a crash. A plan that is short or empty proves nothing.
  const own = failures.length === 0 && problem !== '' ? problem : complete ? '' : `no complete plan ${problem}`.trim();
  if (own !== '')
    details.push(
      `  ${own}`,
      ...stderr
        .trimEnd()
        .split('\n')
        .slice(-40)
        .map((line) => `      ${line}`),
    );
  const failedHere = failures.length + (own === '' ? 0 : 1);
  passed += report.passed;
  failed += failedHere;
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const counts = failedHere === 0 ? `${report.passed} passed` : `${report.passed} passed, ${failedHere} FAILED`;
  process.stdout.write([`test   ${file.padEnd(52)} ${counts}  ${seconds} s`, ...details, ''].join('\n'));
}

async function testFiles(files: readonly string[], parallel: number): Promise<void> {
  const queue = [...files];
  const work = async (): Promise<void> => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) await testFile(file);
  };
  await Promise.all(Array.from({ length: parallel }, work));
}

const isEndToEnd = (file: string): boolean => file.startsWith('test/e2e/');
const files = listFiles('test')
  .filter((file) => file.endsWith('.test.ts'))
  .filter((file) => positionals.length === 0 || positionals.some((part) => file.includes(part)))
  .filter((file) => values.quick !== true || isQuickTest(file));

const start = performance.now();
if (positionals.length === 0) {
  const checks = await runChecks();
  passed += checks.passed;
  failed += checks.failed;
}
if (await runStep('build', process.execPath, ['scripts/build.ts'])) passed++;
else failed++;
await testFiles(
  files.filter((file) => !isEndToEnd(file)),
  PARALLEL,
);
await testFiles(files.filter(isEndToEnd), 1);

const minutes = ((performance.now() - start) / 60_000).toFixed(1);
process.stdout.write(`${files.length} test files in ${minutes} min\n`);
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed === 0 && passed > 0 && files.length > 0 ? 0 : 1;
