// The kernel's part, alone: rules put in place, removed and read back, and what they cost each new connection; beside what
// must not matter: the number of exclusions, the rules of others.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { loadFfi } from '../../src/adapters/host/load-ffi.ts';
import { locateNativeLibraries } from '../../src/adapters/host/native-assets.ts';
import { openNativeLibrary } from '../../src/adapters/kernel/native-library.ts';
import { createRules } from '../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import type { NetnsPath } from '../../src/core/identifiers.ts';
import { parseIpRange } from '../../src/core/ip.ts';
import type { Table } from '../../src/nft/model.ts';
import { makeNetns, removeNetns } from '../lab/network.ts';
import { ROOT } from '../lab/places.ts';
import { buildProgram } from './build-program.ts';
import { markdownTable, median } from './samples.ts';

/** Where the namespaces' files are made, and how often each is measured. */
export interface KernelBenchOptions {
  readonly dir: string;
  readonly rounds: number;
}

const rules = createRules(openNativeLibrary(locateNativeLibraries(), loadFfi()));
const NO_MESH = { tcp: [], vip: [], shim: [] };
const FOREIGN_RULES = 20_000;
const FOREIGN_CHAINS = 200;
const EXCLUSIONS = [0, 100, 10_000] as const;
/** An address of the namespace itself that the rules take for the world. */
const WORLD = '198.51.100.7';
const CPU_SECONDS = '0.3';
/** Reads before the first that counts: the agent is no young process. */
const WARM_UP = 30;

/** A Markdown table: medians, and each beside the first of its kind. */
export async function measureKernel(options: KernelBenchOptions): Promise<string> {
  const rows = [...(await measureBatches(options)), ...(await measureReads(options)), ...(await measureRates(options))];
  return markdownTable([['the kernel alone, by the agent', 'p50', 'x the first'], ...rows]);
}

type Row = readonly [what: string, value: string, ratio: string];

/** `count` exclusions: half of them ports, half of them IPv4 ranges, disjoint. */
function excluding(count: number): CapturePolicy {
  const half = Array.from({ length: count / 2 }, (_, i) => i);
  return {
    redirectAll: true,
    excludePorts: half.map((i) => ({ first: 20_000 + 2 * i, last: 20_000 + 2 * i })),
    excludeRanges: half.flatMap((i) => parseIpRange(`10.${i >> 8}.${i & 0xff}.0/25`) ?? []),
  };
}

async function measureBatches({ dir, rounds }: KernelBenchOptions): Promise<readonly Row[]> {
  const plain = planPluginTable(excluding(0));
  const many = planPluginTable(excluding(10_000));
  const cases: readonly (readonly [string, Table | undefined])[] = [
    ['batch: fresh namespace', plain],
    ['batch: again, over itself', plain],
    ['batch: removed', undefined],
    ['batch: fresh, 10 000 exclusions', many],
  ];
  const samples = new Map<string, number[]>(cases.map(([name]) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, table] of cases) {
      const netns = makeNetns(dir, `batch-${round}`) as NetnsPath;
      if (!name.includes('fresh')) await rules.replaceTable(netns, plain);
      const work = () => (table === undefined ? rules.destroyTable(netns, 'aether') : rules.replaceTable(netns, table));
      samples.get(name)?.push(await timed(work));
      removeNetns(netns);
    }
  }
  return toRows(samples, (ms) => `${ms.toFixed(2)} ms`);
}

async function measureReads({ dir, rounds }: KernelBenchOptions): Promise<readonly Row[]> {
  const table = planPluginTable(excluding(0));
  const samples = new Map<string, number[]>();
  const places = ['CHECK read: nothing else there', `CHECK read: beside ${FOREIGN_RULES} rules of others`].map(
    (name, i): [string, NetnsPath] => [name, makeNetns(dir, `read-${i}`) as NetnsPath],
  );
  for (const [name, netns] of places) {
    await rules.replaceTable(netns, table);
    if (name.includes('others')) enter(netns, ['nft', '-f', '-'], foreignRules());
  }
  for (let round = -WARM_UP; round < rounds * 5; round++) {
    for (const [name, netns] of places) {
      const ms = await timed(() => rules.readTable(netns, table));
      if (round >= 0) note(samples, name, ms);
    }
  }
  for (const [, netns] of places) removeNetns(netns);
  return toRows(samples, (ms) => `${ms.toFixed(2)} ms`);
}

function foreignRules(): string {
  const chains = Array.from({ length: FOREIGN_CHAINS }, (_, chain) => {
    const lines = Array.from({ length: FOREIGN_RULES / FOREIGN_CHAINS }, (_, i) => `tcp dport ${i + 1} counter accept`);
    return `chain c${chain} {\n${lines.join('\n')}\n}`;
  });
  return `table ip foreign {\n${chains.join('\n')}\n}\n`;
}

async function measureRates({ dir, rounds }: KernelBenchOptions): Promise<readonly Row[]> {
  const program = buildProgram({
    source: join(ROOT, 'scripts/bench/connect-rate.c'),
    compile: ['gcc', '-O2', '-Wall'],
  });
  const samples = new Map<string, number[]>();
  const places = EXCLUSIONS.map((count): [string, NetnsPath] => [
    `new connections a CPU second: ${count} exclusions`,
    makeNetns(dir, `rate-${count}`) as NetnsPath,
  ]);
  for (const [i, [, netns]] of places.entries()) {
    enter(netns, ['ip', 'link', 'set', 'lo', 'up']);
    enter(netns, ['ip', 'address', 'add', `${WORLD}/32`, 'dev', 'lo']);
    const policy = excluding(EXCLUSIONS[i] ?? 0);
    await rules.replaceTable(netns, planPluginTable(policy));
    await rules.replaceTable(netns, planMeshTable(policy, NO_MESH));
  }
  for (let round = 0; round < rounds; round++) {
    for (const [name, netns] of places) {
      const rate = enter(netns, [program, '127.0.0.1:18001', `${WORLD}:18081`, CPU_SECONDS]);
      note(samples, name, Number(rate));
    }
  }
  for (const [, netns] of places) removeNetns(netns);
  return toRows(samples, (rate) => rate.toFixed(0));
}

function enter(netns: NetnsPath, command: readonly string[], input = ''): string {
  return execFileSync('nsenter', [`--net=${netns}`, ...command], { input, encoding: 'utf8' });
}

function note(samples: Map<string, number[]>, name: string, value: number): void {
  samples.set(name, [...(samples.get(name) ?? []), value]);
}

function toRows(samples: ReadonlyMap<string, readonly number[]>, format: (value: number) => string): readonly Row[] {
  const medians = [...samples].map(([name, values]): [string, number] => [name, median(values)]);
  const [, first] = medians[0] ?? ['', Number.NaN];
  return medians.map(([name, value]) => [name, format(value), (value / first).toFixed(2)]);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
