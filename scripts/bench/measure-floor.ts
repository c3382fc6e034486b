// What the kernel itself takes for the parts of an ADD (floor.c), whoever asks.
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../lab/places.ts';
import { buildProgram } from './build-program.ts';
import { at, markdownTable, show } from './samples.ts';

const run = promisify(execFile);

/** A Markdown table, in microseconds. */
export async function measureFloor({
  dir,
  rounds,
}: {
  readonly dir: string;
  readonly rounds: number;
}): Promise<string> {
  const source = join(ROOT, 'scripts/bench/floor.c');
  const program = buildProgram({ source, compile: ['gcc', '-O2', '-Wall'], libraries: ['-lnftnl', '-lmnl'] });
  const own = join(dir, 'floor');
  mkdirSync(own, { recursive: true });
  const { stdout } = await run(program, [String(rounds), own]);
  const samples = new Map<string, number[]>();
  for (const line of stdout.trimEnd().split('\n')) {
    const [what = '', microseconds] = line.split('\t');
    samples.set(what, [...(samples.get(what) ?? []), Number(microseconds)]);
  }
  const rows = [...samples].map(([what, values]) => [what, show(at(values, 0.5), 0), show(at(values, 0.95), 0)]);
  return markdownTable([['the kernel alone, by a C program', 'p50 µs', 'p95 µs'], ...rows]);
}
