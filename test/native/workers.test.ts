// The threads that the agent's native calls run on.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';

const ROOT = join(import.meta.dirname, '../..');
const dir = mkdtempSync(join(tmpdir(), 'ae-workers-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
const program = join(dir, 'workers-check');
const sources = [join(import.meta.dirname, 'workers-check.c'), join(ROOT, 'native/workers.c')];
execFileSync('gcc', ['-std=gnu11', '-O1', '-g', '-Wall', '-fsanitize=thread', '-o', program, ...sources, '-lpthread']);

const run = (mode: string): string => execFileSync(program, [mode], { encoding: 'utf8', timeout: 60_000 }).trim();

t.test(
  'ae_hand_over() runs few at once, in the order of arrival, and none on a thread that was elsewhere',
  async (t) => {
    t.equal(run('few'), 'few=1 order=1 home=1');
  },
);

t.test('ae_hand_over() runs what comes behind work that hangs', async (t) => {
  t.equal(run('hanging'), 'released');
});
