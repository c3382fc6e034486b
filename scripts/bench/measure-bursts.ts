// Many pods at once: how long all of them take, how long each, and what it costs the agent.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CallResult, type ClockResult, TimerScript } from './call-timer.ts';
import { namespaceDir } from './measure-calls.ts';
import { type BenchPlugin, describeCall } from './plugins.ts';
import { at, markdownTable, median, show } from './samples.ts';

/** Pods, and how many of them at a time. */
export interface BurstShape {
  readonly pods: number;
  readonly width: number;
}

const SHAPES: readonly BurstShape[] = [
  { pods: 100, width: 10 },
  { pods: 100, width: 50 },
  { pods: 250, width: 10 },
  { pods: 250, width: 50 },
];

/** What one plugin did in one shape, all repetitions together. */
export interface Burst extends BurstShape {
  readonly plugin: BenchPlugin;
  readonly addMs: number[];
  readonly deleteMs: number[];
  /** From the first start to the last end, one a repetition. */
  readonly addTotalMs: number[];
  readonly deleteTotalMs: number[];
  /** CPU of an ADD, one a repetition: the started process's, and the agent's until it is idle again. */
  readonly cpuMs: number[];
  readonly agentMs: number[];
  /** Afterwards. */
  agentMb: number;
  failed: number;
}

export interface BurstOptions {
  /** The plugins of each shape. */
  readonly plugins: (shape: BurstShape) => readonly BenchPlugin[];
  readonly dir: string;
  readonly repetitions: number;
  /** Number of a pod that nobody else has, and of those after it. */
  readonly first: number;
  readonly onProgress: (text: string) => void;
}

/** Round-robin: every shape with every plugin, then again. */
export async function measureBursts(options: BurstOptions): Promise<readonly Burst[]> {
  const { dir, plugins, repetitions, onProgress } = options;
  const bursts = SHAPES.flatMap((shape) => plugins(shape).map((plugin) => emptyBurst(plugin, shape)));
  let { first } = options;
  for (let repetition = 0; repetition < repetitions; repetition++) {
    for (const burst of bursts) {
      onProgress(
        `bursts, ${burst.pods} pods at ${burst.width} by ${burst.plugin.name}, ${repetition + 1} of ${repetitions}`,
      );
      const indexes = Array.from({ length: burst.pods }, (_, i) => first + i);
      first += burst.pods;
      record(burst, await scriptOf(burst, { dir, indexes }).run());
    }
  }
  return bursts;
}

function emptyBurst(plugin: BenchPlugin, { pods, width }: BurstShape): Burst {
  const lists = { addMs: [], deleteMs: [], addTotalMs: [], deleteTotalMs: [], cpuMs: [], agentMs: [] };
  return { plugin, pods, width, ...lists, agentMb: Number.NaN, failed: 0 };
}

function scriptOf(
  { plugin, width }: Burst,
  { dir, indexes }: { readonly dir: string; readonly indexes: readonly number[] },
): TimerScript {
  const netnsOf = (index: number): string => join(namespaceDir(dir), `burst-${index}`);
  const script = new TimerScript();
  const clock = (label: string): void => {
    if (plugin.agentPid !== undefined) script.clock(label, plugin.agentPid);
  };
  for (const index of indexes) script.namespace(netnsOf(index), 'up');
  script.pause(500).width(width);
  for (const verb of ['ADD', 'DEL'] as const) {
    clock(`${verb} begins`);
    script.mark(`${verb} from`);
    for (const index of indexes) script.call(describeCall(plugin, verb, { dir, index, netns: netnsOf(index) }));
    script.join().mark(`${verb} to`).pause(400);
    clock(`${verb} ends`);
  }
  script.width(1);
  for (const index of indexes) script.remove(netnsOf(index));
  return script;
}

function record(burst: Burst, results: readonly (CallResult | ClockResult)[]): void {
  const clocks = new Map(results.flatMap((each) => (each.kind === 'clock' ? [[each.label, each.cpuMs] as const] : [])));
  const calls = results.filter((each): each is CallResult => each.kind === 'call');
  const of = (verb: string): readonly CallResult[] => calls.filter(({ label }) => label.endsWith(`|${verb}`));
  const span = (from: string, to: string): number => (clocks.get(to) ?? Number.NaN) - (clocks.get(from) ?? Number.NaN);
  const failed = calls.filter(({ status }) => status !== 0);
  for (const { label, text } of failed.slice(0, 3)) process.stderr.write(`bench: ${label} failed: ${text}\n`);
  burst.failed += failed.length;
  burst.addMs.push(...of('ADD').map(({ wallMs }) => wallMs));
  burst.deleteMs.push(...of('DEL').map(({ wallMs }) => wallMs));
  burst.addTotalMs.push(span('ADD from', 'ADD to'));
  burst.deleteTotalMs.push(span('DEL from', 'DEL to'));
  burst.cpuMs.push(of('ADD').reduce((sum, { cpuMs }) => sum + cpuMs, 0) / burst.pods);
  if (burst.plugin.agentPid === undefined) return;
  burst.agentMs.push(span('ADD begins', 'ADD ends') / burst.pods);
  burst.agentMb = residentMb(burst.plugin.agentPid);
}

/** Memory of a process now. */
export function residentMb(pid: number): number {
  const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes ?? Number.NaN) / 1024;
}

export function formatBursts(bursts: readonly Burst[]): string {
  const head = [
    'pods, at a time',
    'plugin',
    'ADD: all',
    'p50',
    'p99',
    'DEL: all',
    'p50',
    'p99',
    'CPU an ADD, started + agent',
  ];
  const rows = bursts.map((burst) => [
    `${burst.pods}, ${burst.width}`,
    burst.plugin.name,
    ...[median(burst.addTotalMs), at(burst.addMs, 0.5), at(burst.addMs, 0.99)].map((ms) => show(ms, 0)),
    ...[median(burst.deleteTotalMs), at(burst.deleteMs, 0.5), at(burst.deleteMs, 0.99)].map((ms) => show(ms, 0)),
    `${show(median(burst.cpuMs))} + ${show(median(burst.agentMs))}`,
    show(burst.agentMb, 0),
    String(burst.failed),
  ]);
  return markdownTable([[...head, 'agent MiB', 'failed'], ...rows]);
}
