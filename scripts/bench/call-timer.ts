// Drives call-timer.c: orders in, results out. All orders are handed over at once, so that nothing of Node runs while a call
// is timed.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { ROOT } from '../lab/places.ts';
import { buildProgram } from './build-program.ts';

const SOURCE = join(ROOT, 'scripts/bench/call-timer.c');

/** What is started. `stdin`: path of a file of 64 KiB at most. */
export interface TimedCall {
  readonly label: string;
  readonly program: string;
  readonly stdin?: string;
  /** Without blanks in any of them. */
  readonly args?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** One call as it went. CPU is user and system time of the started process and its children. */
export interface CallResult {
  readonly kind: 'call';
  readonly label: string;
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakMb: number;
  readonly status: number;
  /** Of stdout, where the status is not 0. */
  readonly text: string;
}

/** CPU time of a process at one moment, or the time. */
export interface ClockResult {
  readonly kind: 'clock';
  readonly label: string;
  readonly cpuMs: number;
}

/** A list of orders; run it once. */
export class TimerScript {
  readonly #lines: string[] = [];

  namespace(path: string, lo: 'up' | 'down'): this {
    return this.#order('namespace', path, lo);
  }

  loopback(path: string, lo: 'up' | 'down'): this {
    return this.#order('loopback', path, lo);
  }

  remove(path: string): this {
    return this.#order('remove', path);
  }

  pause(ms: number): this {
    return this.#order('pause', String(Math.round(ms * 1000)));
  }

  /** How many calls may be under way at once, from here on. */
  width(count: number): this {
    return this.#order('width', String(count));
  }

  call({ label, program, stdin = '-', args = [], env }: TimedCall): this {
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    return this.#order('call', label, program, stdin, args.join(' ') || '-', ...variables);
  }

  /** So many processes more that do nothing, until the end or the next number. */
  crowd(count: number): this {
    return this.#order('crowd', String(count));
  }

  /** Waits for all calls. */
  join(): this {
    return this.#order('join');
  }

  clock(label: string, pid: number): this {
    return this.#order('clock', label, String(pid));
  }

  /** The time, as a clock that ran always. */
  mark(label: string): this {
    return this.#order('mark', label);
  }

  async run(): Promise<readonly (CallResult | ClockResult)[]> {
    const child = spawn(buildProgram({ source: SOURCE, compile: ['musl-gcc', '-static', '-Os', '-s', '-Wall'] }), [], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    child.stdin.end(this.#lines.join(''));
    const [output, code] = await Promise.all([text(child.stdout), ended]);
    if (code !== 0) throw new Error(`call-timer ended with ${code}`);
    return output.split('\n').filter(Boolean).map(readResult);
  }

  #order(...fields: readonly string[]): this {
    if (fields.some((field) => /[\t\n]/.test(field))) throw new Error(`call-timer: a field with a tab: ${fields}`);
    this.#lines.push(`${fields.join('\t')}\n`);
    return this;
  }
}

function readResult(line: string): CallResult | ClockResult {
  const [kind, label = '', ...fields] = line.split('\t');
  const numbers = fields.map(Number);
  const at = (index: number): number => numbers[index] ?? Number.NaN;
  if (kind === 'clock') return { kind, label, cpuMs: at(0) / 1e6 };
  const [cpuMs, peakMb] = [(at(1) + at(2)) / 1000, at(3) / 1024];
  return { kind: 'call', label, wallMs: at(0) / 1e6, cpuMs, peakMb, status: at(4), text: fields[6] ?? '' };
}
