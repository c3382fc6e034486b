// The lab's sandbox: whatever is started in it ends with it, however it ends, and nothing of it is left on the machine.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';

const SCRIPT = join(import.meta.dirname, '../../scripts/lab/apps/bare-pods.ts');

/** What the sandbox could leave: its directory, processes with our mark, mounts, links. */
function listTraces(mark: string): readonly string[] {
  const dirs = readdirSync('/tmp').filter((name) => /^ae-[A-Za-z0-9]{6}$/.test(name));
  const processes = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`LAB_TEST_MARK=${mark}`);
      } catch {
        return false;
      }
    });
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes('aether-lab'));
  const links = readFileSync('/proc/net/dev', 'utf8')
    .split('\n')
    .filter((line) => line.includes('lab0'));
  return [...dirs, ...processes, ...mounts, ...links];
}

/** Runs the script, which says `ready` when its pods stand and then waits; signals it after `delayMs`, or when ready. */
async function interrupt(signal: NodeJS.Signals, delayMs: number | 'ready', mark: string): Promise<number | string> {
  const child = spawn(process.execPath, [SCRIPT], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, LAB_TEST_MARK: mark },
  });
  const ended = new Promise<number | string>((resolve) =>
    child.once('exit', (code, name) => resolve(code ?? name ?? '')),
  );
  if (delayMs === 'ready') await new Promise((resolve) => child.stdout.once('data', resolve));
  else await sleep(delayMs);
  child.kill(signal);
  return ended;
}

const cases = [
  ...([5, 60, 120, 180, 300, 'ready'] as const).map((when) => ['SIGINT', when, 130] as const),
  ...([5, 60, 120, 180, 300, 'ready'] as const).map((when) => ['SIGTERM', when, 143] as const),
];

for (const [signal, when, code] of cases) {
  t.test(`enterSandbox() leaves nothing after ${signal} at ${when}`, async (t) => {
    const mark = `${process.pid}-${signal}-${when}`;
    const before = listTraces(mark);
    const exit = await interrupt(signal, when, mark);
    // Before its first line the script has no handler yet, and nothing to clean up either.
    t.ok(exit === code || (when !== 'ready' && exit === signal), `ended with ${exit}`);
    t.strictSame(listTraces(mark), before);
  });
}

t.test('enterSandbox() leaves no process after SIGKILL', async (t) => {
  const mark = `${process.pid}-SIGKILL`;
  const before = listTraces(mark);
  t.equal(await interrupt('SIGKILL', 'ready', mark), 'SIGKILL');
  // The empty mount point stays: nobody is left to remove it.
  const isDir = (trace: string) => trace.startsWith('ae-');
  const traces = () => listTraces(mark).filter((trace) => !before.includes(trace));
  for (let i = 0; i < 100 && !traces().every(isDir); i++) await sleep(20);
  t.strictSame(
    traces().filter((trace) => !isDir(trace)),
    [],
  );
  for (const dir of traces()) rmdirSync(join('/tmp', dir));
});
