// The lab's sandbox: whatever is started in it ends with it, however it ends, and nothing of it is left on the machine.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { listLeftovers, type RunOptions, runLabProgram } from '../support/lab-leftovers.ts';

const PROGRAM = [process.execPath, join(import.meta.dirname, '../../scripts/lab/apps/bare-pods.ts')] as const;
const MOMENTS = [5, 60, 120, 180, 300, 'ready'] as const;
const tmp = mkdtempSync('/tmp/ae-left-');
t.teardown(() => rmSync(tmp, { recursive: true }));

const cases = [
  ...MOMENTS.map((when) => ['SIGINT', when, 130] as const),
  ...MOMENTS.map((when) => ['SIGTERM', when, 143] as const),
];

for (const [signal, when, code] of cases) {
  t.test(`enterSandbox() leaves nothing after ${signal} at ${when}`, async (t) => {
    const options: RunOptions = { mark: `${process.pid}-${signal}-${when}`, tmp, when, signal };
    const { exit } = await runLabProgram(PROGRAM, options);
    // Before its first line the program has no handler yet, and nothing to clean up either.
    t.ok(exit === code || (when !== 'ready' && exit === signal), `ended with ${exit}`);
    t.strictSame(listLeftovers(options), []);
  });
}

t.test('enterSandbox() leaves no process after SIGKILL', async (t) => {
  const options: RunOptions = { mark: `${process.pid}-SIGKILL`, tmp, when: 'ready', signal: 'SIGKILL' };
  const { exit } = await runLabProgram(PROGRAM, options);
  t.equal(exit, 'SIGKILL');
  // The empty mount point stays: nobody is left to remove it.
  for (let i = 0; i < 100 && listLeftovers(options).length > 1; i++) await sleep(20);
  t.match(listLeftovers(options), [/^ae-/]);
  t.equal(listLeftovers(options).length, 1);
});
