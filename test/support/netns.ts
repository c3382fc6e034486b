// Network namespaces for tests: made with loopback up, removed at the end whatever happens. Root only.
import { execFileSync } from 'node:child_process';
import { type NetnsPath, parseNetnsPath } from '../../src/core/identifiers.ts';

/** Something that ends when the test does: tap's `t.teardown`. */
interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

export interface TestNetns {
  readonly name: string;
  readonly path: NetnsPath;
}

let count = 0;

/** `prefix`: yours, short; the name becomes `ae-<prefix>-<pid>-<n>`. */
export function makeNetns(t: TearsDown, prefix: string): TestNetns {
  const name = `ae-${prefix}-${process.pid}-${count++}`;
  execFileSync('ip', ['netns', 'add', name]);
  t.teardown(() => {
    try {
      execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
    } catch {
      // The test has removed it itself.
    }
  });
  execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
  const path = parseNetnsPath(`/run/netns/${name}`);
  if (typeof path !== 'string') throw new Error(path.problem);
  return { name, path };
}

/** Many at once, without the cost of a process for each: for tests of scale. */
export function makeManyNetns(t: TearsDown, prefix: string, number: number): readonly TestNetns[] {
  const names = Array.from({ length: number }, () => `ae-${prefix}-${process.pid}-${count++}`);
  t.teardown(() => runBatch(names.map((name) => `netns del ${name}`)));
  runBatch(names.map((name) => `netns add ${name}`));
  return names.map((name) => ({ name, path: `/run/netns/${name}` as NetnsPath }));
}

function runBatch(lines: readonly string[]): void {
  execFileSync('ip', ['-force', '-batch', '-'], {
    input: `${lines.join('\n')}\n`,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
}

/** Runs a program inside; its output. Throws when it fails. */
export function execIn(netns: TestNetns, command: readonly string[], options: { input?: string } = {}): string {
  return execFileSync('ip', ['netns', 'exec', netns.name, ...command], { encoding: 'utf8', ...options });
}

/** `nft …` inside. */
export function nftIn(netns: TestNetns, ...args: readonly string[]): string {
  return execIn(netns, ['nft', ...args]);
}

/** Our tables where the test itself runs, as nft prints them. Whose the others are there may change them at any time. */
export function listOwnTables(): readonly string[] {
  const ruleset = execFileSync('nft', ['list', 'ruleset'], { encoding: 'utf8' });
  return ruleset.split(/^(?=table )/m).filter((table) => /^table inet aether(_mesh)? /.test(table));
}

/** For comparing rulesets: every run of blanks is one, since nft wraps long element lists. */
export function normaliseBlanks(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
