// What the plugin promises to cost, each figure beside its gate and its aim. All are ratios inside one run, or counts.
import type { SystemCalls } from './count-system-calls.ts';
import type { Burst } from './measure-bursts.ts';
import type { CallSamples, CallTimes } from './measure-calls.ts';
import { type BenchVerb, NODE, NOOP, OURS, OURS_ALL, OURS_ALONE, OURS_FILE, OURS_LO_DOWN, TUNING } from './plugins.ts';
import { at, markdownTable, mean, median, show } from './samples.ts';

/** All that was measured in this run; NaN: not measured. */
export interface Measured {
  readonly calls: CallTimes;
  readonly systemCalls: ReadonlyMap<string, SystemCalls>;
  readonly bursts: readonly Burst[];
  /** ADD with many processes on the node / with few. */
  readonly crowdRatio: number;
  /** RunPodSandbox with us / without. */
  readonly sandboxRatio: number;
  /** How late the agent's event loop came, 99 of 100 times, in ms. */
  readonly loopDelayMs: number;
  /** Processes of ours after the last DEL. */
  readonly processesLeft: number;
}

export interface Gate {
  readonly figure: string;
  readonly value: number;
  /** Undefined: only aimed at. */
  readonly gate?: number;
  readonly aim?: number;
}

export function listGates(measured: Measured): readonly Gate[] {
  const { calls, systemCalls, bursts } = measured;
  const of = (plugin: string, verb: BenchVerb): CallSamples | undefined => calls.get(`${plugin}|${verb}`);
  const p50 = (plugin: string, verb: BenchVerb): number => median(of(plugin, verb)?.wallMs ?? []);
  const p95 = (plugin: string, verb: BenchVerb): number => at(of(plugin, verb)?.wallMs ?? [], 0.95);
  const noop = (verb: BenchVerb): number => p50(NOOP, verb);
  const node = p50(NODE, 'START');
  const burst = (plugin: string): number => {
    const found = bursts.find((each) => each.plugin.name === plugin && each.pods === 100 && each.width === 50);
    return at(found?.addMs ?? [], 0.99);
  };
  const started = systemCalls.get(`${OURS}|ADD`);
  return [
    { figure: 'ADD p50 / no-op ADD p50', value: p50(OURS, 'ADD') / noop('ADD'), gate: 0.7, aim: 0.4 },
    { figure: 'ADD p95 / no-op ADD p50', value: p95(OURS, 'ADD') / noop('ADD'), gate: 1.5, aim: 0.8 },
    { figure: 'ADD redirect-all / scoped', value: p50(OURS_ALL, 'ADD') / p50(OURS, 'ADD'), gate: 1.15 },
    {
      figure: 'CPU of an ADD, relay and agent / no-op',
      value: cpuOf(of(OURS, 'ADD')) / cpuOf(of(NOOP, 'ADD')),
      gate: 0.8,
      aim: 0.4,
    },
    { figure: 'DEL p50, `lo` up / no-op DEL p50', value: p50(OURS, 'DEL') / noop('DEL'), gate: 0.5, aim: 0.3 },
    {
      figure: 'DEL p50, `lo` down / no-op DEL p50',
      value: p50(OURS_LO_DOWN, 'DEL') / noop('DEL'),
      gate: 0.5,
      aim: 0.3,
    },
    { figure: 'VERSION p50 / no-op VERSION p50', value: p50(OURS, 'VERSION') / noop('VERSION'), gate: 0.3, aim: 0.25 },
    { figure: 'STATUS p50 / no-op STATUS p50', value: p50(OURS, 'STATUS') / noop('STATUS'), gate: 0.3, aim: 0.25 },
    { figure: 'ADD with 1 500 processes on the node / with 80', value: measured.crowdRatio, gate: 1.1, aim: 1 },
    {
      figure: "burst of 100, 50 at a time: ADD p99 / tuning's",
      value: burst(OURS) / burst(TUNING),
      gate: 0.8,
      aim: 0.5,
    },
    { figure: "the agent's event loop, ms late at most 99 of 100 times", value: measured.loopDelayMs, gate: 20 },
    { figure: 'execs of an ADD', value: started?.execs ?? Number.NaN, gate: 1, aim: 1 },
    { figure: 'system calls of the process started for an ADD', value: started?.all ?? Number.NaN, gate: 40, aim: 20 },
    { figure: 'processes left after DEL', value: measured.processesLeft, gate: 0, aim: 0 },
    { figure: 'RunPodSandbox with us / without', value: measured.sandboxRatio, gate: 1.03 },
    { figure: 'full file: VERSION / node -e 0', value: p50(OURS_FILE, 'VERSION') / node, aim: 1.1 },
    { figure: 'full file, asking the agent: ADD / node -e 0', value: p50(OURS_FILE, 'ADD') / node, aim: 1.8 },
    { figure: 'full file, by gRPC: ADD / node -e 0', value: p50(OURS_ALONE, 'ADD') / node, aim: 1.8 },
  ];
}

/** CPU of a call, started process and agent together, on average. */
function cpuOf(samples: CallSamples | undefined): number {
  if (samples === undefined) return Number.NaN;
  return mean(samples.cpuMs) + (samples.agentMs.length === 0 ? 0 : mean(samples.agentMs));
}

export type Verdict = 'aim met' | 'gate met' | 'not met' | 'not measured';

/** A value as it is shown is what counts: 1.03 is not above 1.03. */
export function judge({ value, gate, aim }: Gate): Verdict {
  if (Number.isNaN(value)) return 'not measured';
  const shown = Number(value.toFixed(2));
  if (aim !== undefined && shown <= aim) return 'aim met';
  return gate !== undefined && shown <= gate ? 'gate met' : 'not met';
}

export function formatGates(gates: readonly Gate[]): string {
  const limit = (value: number | undefined): string => (value === undefined ? '–' : `≤ ${value}`);
  const rows = gates.map((gate) => [
    gate.figure,
    Number.isInteger(gate.value) ? String(gate.value) : show(gate.value),
    limit(gate.gate),
    limit(gate.aim),
    judge(gate),
  ]);
  return markdownTable([['figure', 'this run', 'gate', 'aim', ''], ...rows]);
}
