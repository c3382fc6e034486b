// One test file as a process: its output, and whether it ended well, in time, and with everything that it started.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

const running = new Set<ChildProcess>();
/** A test file leads a process group, so that what it started ends with it. */
function killGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // No member is left.
  }
}
/** What a file that was killed could not take away: test/support/netns.ts names them by the process. */
function removeNamespaces({ pid }: ChildProcess): void {
  const names = existsSync('/run/netns') ? readdirSync('/run/netns') : [];
  for (const name of names) {
    if (name.startsWith('ae-') && name.includes(`-${pid}-`))
      spawnSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
  }
}
/** Command lines of the group's members; a zombie has ended, it only waits to be reaped. proc_pid_stat(5). */
function listGroup(child: ChildProcess): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
      const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (Number(group) !== child.pid || state === 'Z') return [];
      return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim()];
    } catch {
      return [];
    }
  });
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    for (const child of running) killGroup(child);
    for (const child of running) removeNamespaces(child);
    process.exit(130);
  });
}

export interface Finished {
  readonly stdout: string;
  readonly stderr: string;
  /** Why the process counts as failed by itself; empty when it ended well. */
  readonly problem: string;
}

/** Ends within `timeoutMs` and a few seconds, whatever the file does. */
export async function runTestProcess(file: string, timeoutMs: number): Promise<Finished> {
  const env = { ...process.env, TAP_TIMEOUT: String(timeoutMs / 1000), NO_COLOR: '1' };
  const child = spawn(process.execPath, [file], { detached: true, stdio: ['ignore', 'pipe', 'pipe'], env });
  running.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const closed = new Promise((resolve) => child.once('close', resolve));
  let timedOut = false;
  const timer = globalThis.setTimeout(() => {
    timedOut = true;
    killGroup(child);
  }, timeoutMs);
  const exit = await new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(code === 0 ? '' : `exit ${code ?? signal}`));
  });
  clearTimeout(timer);
  // Children that are just ending get a moment; one that stays would hold the pipes open.
  let left = listGroup(child);
  for (let wait = 0; wait < 20 && left.length > 0; wait++) {
    await setTimeout(50);
    left = listGroup(child);
  }
  killGroup(child);
  removeNamespaces(child);
  // What left the group may hold the pipes, too.
  await Promise.race([closed, setTimeout(2000, undefined, { ref: false })]);
  child.stdout.destroy();
  child.stderr.destroy();
  running.delete(child);
  if (timedOut) return { stdout, stderr, problem: `timed out after ${timeoutMs / 1000} s` };
  return {
    stdout,
    stderr,
    problem: exit !== '' || left.length === 0 ? exit : `left processes behind: ${left.join('; ')}`,
  };
}
