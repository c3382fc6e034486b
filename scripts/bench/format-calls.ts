// The table of single calls.
import type { SystemCalls } from './count-system-calls.ts';
import type { CallTimes } from './measure-calls.ts';
import { type BenchPlugin, type BenchVerb, NODE, NOOP, OURS, OURS_ALL, OURS_ALONE, OURS_FILE } from './plugins.ts';
import { at, markdownTable, mean, median, show } from './samples.ts';

export interface CallsTable {
  readonly plugins: readonly BenchPlugin[];
  readonly calls: CallTimes;
  readonly systemCalls: ReadonlyMap<string, SystemCalls>;
}

const VERBS: readonly BenchVerb[] = ['START', 'ADD', 'DEL', 'CHECK', 'STATUS', 'VERSION'];

/** By verb, in the order of the plugins; every figure there is. */
export function formatCalls({ plugins, calls, systemCalls }: CallsTable): string {
  const noopOf = (verb: BenchVerb): number =>
    median(calls.get(`${NOOP}|${verb === 'START' ? 'ADD' : verb}`)?.wallMs ?? []);
  const node = median(calls.get(`${NODE}|START`)?.wallMs ?? []);
  const rows = VERBS.flatMap((verb) =>
    plugins.flatMap(({ name }) => {
      const samples = calls.get(`${name}|${verb}`);
      if (samples === undefined) return [];
      const traced = systemCalls.get(`${name}|${verb}`);
      const p50 = median(samples.wallMs);
      return [
        [
          `${verb === 'START' ? 'start' : verb}: ${name}`,
          ...[p50, at(samples.wallMs, 0.95), at(samples.wallMs, 0.99), p50 / noopOf(verb), p50 / node].map((n) =>
            show(n),
          ),
          show(mean(samples.cpuMs)),
          samples.agentMs.length === 0 ? '' : show(mean(samples.agentMs)),
          showPeak(median(samples.peakMb)),
          String(traced?.all ?? '–'),
          String(traced?.execs ?? '–'),
          String(samples.failed),
        ],
      ];
    }),
  );
  const head = ['call', 'p50 ms', 'p95', 'p99', 'x no-op', 'x node', 'CPU ms', 'agent CPU', 'peak MiB'];
  return markdownTable([[...head, 'system calls', 'execs', 'failed'], ...rows]);
}

// The kernel counts the pages of a process in lots: the smallest processes have none.
function showPeak(mb: number): string {
  return mb < 0.3 ? '< 0.3' : show(mb, 1);
}

/** ADD and DEL alone, of those that somebody would ask about first. */
export function formatShort({ plugins, calls }: CallsTable): string {
  const noop = median(calls.get(`${NOOP}|ADD`)?.wallMs ?? []);
  const shown = plugins.filter(
    ({ name }) => / \(Go\)$/.test(name) || [NODE, OURS, OURS_ALL, OURS_FILE, OURS_ALONE].includes(name),
  );
  const rows = shown.flatMap(({ name, verbs }) => {
    const start = verbs.includes('START');
    const add = calls.get(`${name}|${start ? 'START' : 'ADD'}`);
    if (add === undefined || name.startsWith('hello')) return [];
    const p50 = median(add.wallMs);
    const remove = median(calls.get(`${name}|DEL`)?.wallMs ?? []);
    const cpu = mean(add.cpuMs) + (add.agentMs.length === 0 ? 0 : mean(add.agentMs));
    return [
      [
        start ? `${name} (no plugin)` : name,
        ...[p50, p50 / noop, at(add.wallMs, 0.95), cpu, remove].map((n) => show(n)),
      ],
    ];
  });
  return markdownTable([['', 'ADD p50 ms', 'x no-op', 'p95 ms', 'CPU ms', 'DEL p50 ms'], ...rows]);
}
