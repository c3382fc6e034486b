// The lab's sandbox: whatever is started in it ends with it, however it ends, and nothing of it is left on the machine.
import { rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { listLeftovers, runLabProgram } from '../support/lab-leftovers.ts';

const PROGRAM = [process.execPath, join(import.meta.dirname, '../../scripts/lab/apps/bare-pods.ts')] as const;
const MOMENTS = [5, 60, 120, 180, 300, 'ready'] as const;

const cases = [
  ...MOMENTS.map((when) => ['SIGINT', when, 130] as const),
  ...MOMENTS.map((when) => ['SIGTERM', when, 143] as const),
];

for (const [signal, when, code] of cases) {
  t.test(`enterSandbox() leaves nothing after ${signal} at ${when}`, async (t) => {
    const mark = `${process.pid}-${signal}-${when}`;
    const before = listLeftovers(mark);
    const { exit } = await runLabProgram(PROGRAM, { mark, when, signal });
    // Before its first line the program has no handler yet, and nothing to clean up either.
    t.ok(exit === code || (when !== 'ready' && exit === signal), `ended with ${exit}`);
    t.strictSame(listLeftovers(mark), before);
  });
}

t.test('enterSandbox() leaves no process after SIGKILL', async (t) => {
  const mark = `${process.pid}-SIGKILL`;
  const before = listLeftovers(mark);
  const { exit } = await runLabProgram(PROGRAM, { mark, when: 'ready', signal: 'SIGKILL' });
  t.equal(exit, 'SIGKILL');
  // The empty mount point stays: nobody is left to remove it.
  const isDir = (trace: string) => trace.startsWith('ae-');
  const added = () => listLeftovers(mark).filter((trace) => !before.includes(trace));
  for (let i = 0; i < 100 && !added().every(isDir); i++) await sleep(20);
  t.strictSame(
    added().filter((trace) => !isDir(trace)),
    [],
  );
  for (const dir of added()) rmdirSync(join('/tmp', dir));
});
