// What is said of a test file by how it ends, and that nothing of it stays.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { runTestProcess } from '../../scripts/test-process.ts';

const dir = mkdtempSync('/tmp/ae-test-process-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

const cases = [
  { name: 'that ends well', source: `console.log('out'); console.error('err');`, problem: '' },
  { name: 'that fails', source: 'process.exit(3);', problem: 'exit 3' },
  { name: 'that is killed', source: `process.kill(process.pid, 'SIGKILL');`, problem: 'exit SIGKILL' },
  { name: 'that hangs', source: 'setInterval(() => {}, 1000);', problem: 'timed out after 0.5 s' },
  {
    name: 'that leaves a process behind',
    source: `import { spawn } from 'node:child_process'; spawn('sleep', ['300'], { stdio: 'inherit' }).unref();`,
    problem: 'left processes behind: sleep 300',
  },
];

for (const [index, { name, source, problem }] of cases.entries()) {
  t.test(`runTestProcess() reports a file ${name}`, async (t) => {
    const file = join(dir, `${index}.mjs`);
    writeFileSync(file, source);
    const finished = await runTestProcess(file, 500);
    t.equal(finished.problem, problem);
    if (index === 0) t.match(finished, { stdout: 'out\n', stderr: 'err\n' });
  });
}

t.test('runTestProcess() takes away the namespaces of a file that was killed', async (t) => {
  const file = join(dir, 'namespaces.mjs');
  const name = "'ae-left-' + process.pid + '-0'";
  writeFileSync(
    file,
    `import { execFileSync } from 'node:child_process';
    execFileSync('ip', ['netns', 'add', ${name}]);
    console.log(${name});
    setInterval(() => {}, 1000);`,
  );
  const { stdout, problem } = await runTestProcess(file, 2000);
  t.equal(problem, 'timed out after 2 s');
  t.match(stdout, /^ae-left-/);
  t.notOk(readdirSync('/run/netns').includes(stdout.trim()));
});
