// How many system calls and execs a call is, of the started process and its children, by strace: in a run of its own, since
// what is traced is slow.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type TimedCall, TimerScript } from './call-timer.ts';
import { namespaceDir } from './measure-calls.ts';
import { type BenchPlugin, describeCall } from './plugins.ts';

const TIMEOUT_MS = 20_000;

export interface SystemCalls {
  readonly all: number;
  readonly execs: number;
}

/** By `<plugin>|<verb>`. `first`: number of a pod that nobody else has, and of those after it. */
export async function countSystemCalls(
  plugins: readonly BenchPlugin[],
  { dir, first }: { readonly dir: string; readonly first: number },
): Promise<ReadonlyMap<string, SystemCalls>> {
  const found = new Map<string, SystemCalls>();
  for (const [place, plugin] of plugins.entries()) {
    const index = first + place;
    const netns = join(namespaceDir(dir), `traced-${index}`);
    await new TimerScript().namespace(netns, 'up').run();
    for (const verb of plugin.verbs) {
      const call = describeCall(plugin, verb, { dir, index, netns });
      found.set(call.label, await traceCall(call, join(dir, 'strace.txt')));
    }
    await new TimerScript().remove(netns).run();
  }
  return found;
}

// Not synchronously: a peer may ask this very process.
async function traceCall({ program, args = [], stdin, env }: TimedCall, report: string): Promise<SystemCalls> {
  const command = ['-f', '-c', '-o', report, program, ...args];
  const run = promisify(execFile)('/usr/bin/strace', command, { env, timeout: TIMEOUT_MS });
  run.child.stdin?.on('error', () => {}).end(stdin === undefined ? '' : readFileSync(stdin));
  await run;
  return readStraceSummary(readFileSync(report, 'utf8'));
}

/** Out of the table that `strace -c` writes. */
export function readStraceSummary(text: string): SystemCalls {
  // `  0.00    0.000000           0         3           read`, `100.00 … total`; the errors' column may be empty.
  const count = (name: string): number =>
    Number(new RegExp(`^\\s*[\\d.]+\\s+[\\d.]+\\s+\\d+\\s+(\\d+)\\s.*?\\b${name}$`, 'm').exec(text)?.[1] ?? Number.NaN);
  return { all: count('total'), execs: count('execve') };
}
