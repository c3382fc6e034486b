// Single calls of every plugin, round-robin, so that a drift of the machine hits all alike: wall clock, CPU of the started
// process and, for what asks it, of the agent. Each call comes to a machine that was idle a moment before.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type CallResult, type ClockResult, TimerScript } from './call-timer.ts';
import { type BenchPlugin, describeCall } from './plugins.ts';

/** Between two calls: whatever the last one left to do is done. */
const PAUSE_MS = 15;
/** Pods that are on the node all the time, two of each service. */
const RESIDENTS = 20;
/** Rounds of one script: between two of them there is time to say how far it is. */
const SCRIPT_ROUNDS = 10;
const WARM_PODS = 300;

export interface CallSamples {
  readonly wallMs: number[];
  readonly cpuMs: number[];
  readonly agentMs: number[];
  readonly peakMb: number[];
  failed: number;
}

/** By `<plugin>|<verb>`. */
export type CallTimes = ReadonlyMap<string, CallSamples>;

export interface CallsOptions {
  readonly plugins: readonly BenchPlugin[];
  readonly dir: string;
  readonly rounds: number;
  /** Told how far it is. */
  readonly onProgress: (text: string) => void;
}

/** A call that fails is counted and said, with what it printed. The first round is not counted. */
export async function measureCalls(options: CallsOptions): Promise<CallTimes> {
  const { plugins, rounds, dir, onProgress } = options;
  const found = new Map<string, CallSamples>();
  await measureRounds({ plugins, dir, rounds: [-1] });
  for (let begin = 0; begin < rounds; begin += SCRIPT_ROUNDS) {
    onProgress(`single calls, round ${begin} of ${rounds}`);
    const count = Math.min(SCRIPT_ROUNDS, rounds - begin);
    collect(await measureRounds({ plugins, dir, rounds: Array.from({ length: count }, (_, i) => begin + i) }), found);
  }
  return found;
}

function measureRounds(options: {
  readonly plugins: readonly BenchPlugin[];
  readonly dir: string;
  readonly rounds: readonly number[];
}): Promise<readonly (CallResult | ClockResult)[]> {
  const { plugins, dir } = options;
  const script = new TimerScript();
  for (const round of options.rounds) {
    for (const [place, plugin] of plugins.entries()) {
      const index = (round + 1) * plugins.length + place;
      addPod(script, plugin, { dir, index, netns: join(namespaceDir(dir), `call-${index}`) });
    }
  }
  return script.run();
}

/** All calls of a plugin about one pod, each measured. */
export function addPod(
  script: TimerScript,
  plugin: BenchPlugin,
  pod: { readonly dir: string; readonly index: number; readonly netns: string; readonly prefix?: string },
): void {
  const { netns, prefix = '' } = pod;
  script.namespace(netns, 'up').pause(PAUSE_MS);
  for (const verb of plugin.verbs) {
    if (verb === 'DEL') script.loopback(netns, plugin.loAtDel).pause(1);
    const call = describeCall(plugin, verb, pod);
    const label = prefix + call.label;
    if (plugin.agentPid !== undefined) script.clock(label, plugin.agentPid);
    script.call({ ...call, label }).pause(PAUSE_MS);
    if (plugin.agentPid !== undefined) script.clock(label, plugin.agentPid);
  }
  script.remove(netns).pause(PAUSE_MS / 3);
}

/**
 * Gives the agent pods that stay, so that the node is none where nothing runs; then as many pods that go as a node sees in its
 * first hours: what V8 does for code that runs often is done when it is measured. `first`: number of a pod that nobody else has.
 */
export async function settleNode(
  plugin: BenchPlugin,
  { dir, first }: { readonly dir: string; readonly first: number },
): Promise<void> {
  const script = new TimerScript();
  for (let pod = 0; pod < RESIDENTS; pod++) {
    const netns = join(namespaceDir(dir), `resident-${first + pod}`);
    script.namespace(netns, 'up').call(describeCall(plugin, 'ADD', { dir, index: first + pod, netns }));
  }
  for (let pod = 0; pod < WARM_PODS; pod++) {
    const index = first + RESIDENTS + pod;
    const netns = join(namespaceDir(dir), `warm-${index}`);
    script.namespace(netns, 'up');
    for (const verb of plugin.verbs) script.call(describeCall(plugin, verb, { dir, index, netns }));
    script.remove(netns);
  }
  collect(await script.run(), new Map());
}

/** Where the namespaces' files are made. */
export function namespaceDir(dir: string): string {
  const path = join(dir, 'ns');
  mkdirSync(path, { recursive: true });
  return path;
}

/** Sorts results by their labels into `found`; says what failed. */
export function collect(results: readonly (CallResult | ClockResult)[], found: Map<string, CallSamples>): void {
  let before: number | undefined;
  for (const result of results) {
    const samples = found.get(result.label) ?? { wallMs: [], cpuMs: [], agentMs: [], peakMb: [], failed: 0 };
    found.set(result.label, samples);
    if (result.kind === 'call') {
      samples.wallMs.push(result.wallMs);
      samples.cpuMs.push(result.cpuMs);
      samples.peakMb.push(result.peakMb);
      if (result.status === 0) continue;
      samples.failed++;
      process.stderr.write(`bench: ${result.label} failed: ${result.text}\n`);
    } else if (before === undefined) {
      before = result.cpuMs;
    } else {
      samples.agentMs.push(result.cpuMs - before);
      before = undefined;
    }
  }
}
