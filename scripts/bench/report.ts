// Where a run of the benchmark is written: all of it to bench/latest.md, the short form into the README.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../lab/places.ts';

const LATEST = join(ROOT, 'bench/latest.md');
const README = join(ROOT, 'README.md');

/** What a run stands on; the load is of before the run. */
export function describeMachine({ load }: { readonly load: number }): string {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  const what = `${availableParallelism()} x ${cpu?.model ?? 'unknown CPU'}, ${memory} GiB, kernel ${release()}`;
  const busy = load > 1 ? ` The machine was not quiet: its load was ${load.toFixed(1)} at the start.` : '';
  return `${what}, Node ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}.${busy}`;
}

/** Short id of the commit, and whether there was more than that. */
export function describeSource(): string {
  const git = (...args: readonly string[]): string => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  const changed = git('status', '--porcelain', '--', 'src', 'native', 'scripts', 'package.json') !== '';
  return `Source: ${git('rev-parse', '--short', 'HEAD')}${changed ? ' with changes' : ''}.`;
}

export function writeReport({ latest, readme }: { readonly latest: string; readonly readme: string }): void {
  mkdirSync(join(ROOT, 'bench'), { recursive: true });
  writeFileSync(LATEST, latest);
  writeFileSync(README, replaceBlock(readFileSync(README, 'utf8'), { name: 'bench', block: readme }));
}

/** What stands between `<!-- name -->` and `<!-- end of name -->`, replaced. Throws where the two are not there. */
export function replaceBlock(text: string, { name, block }: { readonly name: string; readonly block: string }): string {
  const [begin, end] = [`<!-- ${name} -->\n`, `<!-- end of ${name} -->`];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`replacing the block "${name}": its two marks are not there`);
  return `${text.slice(0, from + begin.length)}${block}\n${text.slice(to)}`;
}
