// Runs a program of the lab as a user would, interrupts it, and looks for anything of it on the machine afterwards.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Environment variable by which everything that a run started is found again. */
const MARK = 'AETHER_LAB_TEST_MARK';

/** A run is known by `mark`; `tmp` is its own directory for temporary files. */
export interface RunOptions {
  readonly mark: string;
  readonly tmp: string;
  /** When to send `signal`: after so many milliseconds, or when a text appears in the output. Absent: never. */
  readonly when?: number | string;
  readonly signal?: NodeJS.Signals;
}

/** `exit`: the code, or the name of the signal that ended it. */
export interface RunResult {
  readonly exit: number | string;
  readonly output: string;
  readonly ms: number;
}

/** Runs a command to its end, or interrupts it. */
export async function runLabProgram(command: readonly [string, ...string[]], options: RunOptions): Promise<RunResult> {
  const start = performance.now();
  const [file, ...args] = command;
  const child = spawn(file, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, [MARK]: options.mark, TMPDIR: options.tmp },
  });
  let output = '';
  let interrupted = false;
  const interrupt = () => {
    if (interrupted || options.signal === undefined) return;
    interrupted = true;
    child.kill(options.signal);
  };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (typeof options.when === 'string' && output.includes(options.when)) interrupt();
    });
  }
  if (typeof options.when === 'number') void sleep(options.when).then(interrupt);
  const exit = await new Promise<number | string>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(code ?? signal ?? ''));
  });
  return { exit, output, ms: performance.now() - start };
}

/** What there is on the machine that a run with this mark, or any run of the lab, may have made outside of its room. */
export function listLeftovers({ mark, tmp }: RunOptions): readonly string[] {
  const processes = readdirSync('/proc').filter((pid) => /^[0-9]+$/.test(pid) && hasMark(pid, mark));
  const mounts = linesOf('/proc/self/mountinfo').filter((line) => line.includes('aether-lab'));
  const links = linesOf('/proc/net/dev').filter((line) => line.includes('lab0'));
  return [...readdirSync(tmp), ...processes.map((pid) => `process ${pid}`), ...mounts, ...links];
}

function hasMark(pid: string, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`${MARK}=${mark}`);
  } catch {
    return false;
  }
}

function linesOf(file: string): readonly string[] {
  return readFileSync(file, 'utf8').split('\n');
}
