// Processes of the lab: started with a log file each, waited for, ended by their own pid and never by name.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** `netns`: path of a network namespace to start in, else the caller's. `env` is added to the caller's. */
export interface StartOptions {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly logFile: string;
  readonly netns?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A process that runs in the background, its output in `logFile`. */
export interface LabProcess {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** Resolves with exit code or signal name once it ended. */
  readonly ended: Promise<number | string>;
  isAlive(): boolean;
  /** SIGTERM (or `signal`), and SIGKILL after five seconds. Fine when it has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  /** The last lines of its log, for a failure message. */
  tail(): string;
}

const STOP_PATIENCE_MS = 5000;

/** nsenter replaces itself by the command, so the pid is the command's. */
export function inNetns(netns: string | undefined, command: readonly [string, ...string[]]): [string, ...string[]] {
  return netns === undefined ? [...command] : ['nsenter', `--net=${netns}`, '--', ...command];
}

/** Starts a process; throws when the command cannot be run at all. */
export function startProcess(options: StartOptions): LabProcess {
  const log = openSync(options.logFile, 'a');
  const [file, ...args] = inNetns(options.netns, options.command);
  const child = spawn(file, args, { stdio: ['ignore', log, log], env: { ...process.env, ...options.env } });
  closeSync(log);
  if (child.pid === undefined) throw new Error(`starting ${options.name}: cannot run "${file}"`);
  const ended = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? signal ?? -1));
  });
  return {
    name: options.name,
    pid: child.pid,
    logFile: options.logFile,
    ended,
    isAlive: () => isAlive(child),
    stop: (signal = 'SIGTERM') => stopChild(child, ended, signal),
    tail: () => readFileSync(options.logFile, 'utf8').trimEnd().split('\n').slice(-15).join('\n'),
  };
}

/**
 * Asks `probe` again and again until it gives something other than undefined or false; what it throws is "not yet".
 * Fails at once when `process` ends meanwhile, and after `timeoutMs` with the last error and the end of its log.
 */
export async function waitUntil<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  options: { readonly timeoutMs: number; readonly stepMs?: number; readonly process?: LabProcess },
): Promise<T> {
  const end = performance.now() + options.timeoutMs;
  let last: unknown = 'not yet';
  while (performance.now() < end) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      last = error;
    }
    if (options.process !== undefined && !options.process.isAlive()) {
      throw new Error(`waiting for ${what}: ${options.process.name} ended\n${options.process.tail()}`);
    }
    await sleep(options.stepMs ?? 10);
  }
  const reason = last instanceof Error ? last.message : String(last);
  const log = options.process === undefined ? '' : `\n${options.process.tail()}`;
  throw new Error(`waiting for ${what}: ${reason} after ${options.timeoutMs} ms${log}`);
}

function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

async function stopChild(child: ChildProcess, ended: Promise<unknown>, signal: NodeJS.Signals): Promise<void> {
  if (!isAlive(child)) return;
  child.kill(signal);
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_PATIENCE_MS);
  await ended;
  clearTimeout(late);
}
