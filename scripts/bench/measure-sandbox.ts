// What a pod's sandbox costs by the real containerd, with us at the end of the network's list and without: two containerds
// beside each other, asked in turns.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pluginEntry } from '../lab/lab.ts';
import { podNetwork } from '../lab/network.ts';
import { type Containerd, startContainerd } from '../runtimes/containerd.ts';
import { makePluginDir } from '../runtimes/plugin-dir.ts';
import type { BenchAgent } from './plugins.ts';
import { at, markdownTable, median, show } from './samples.ts';

export interface SandboxBenchOptions {
  readonly agent: BenchAgent;
  readonly dir: string;
  readonly rounds: number;
  /** Absolute, below the root of every cgroup hierarchy. */
  readonly cgroupParent: string;
}

export interface SandboxBench {
  readonly text: string;
  /** RunPodSandbox with us / without. */
  readonly ratio: number;
}

const WITHOUT = 'bridge and host-local';
const WITH = 'bridge, host-local and ours';
const ANNOTATIONS = { 'aether.io/managed': 'true', 'endpoint.aether.io/ports': '8080,9000=tcp' };

export async function measureSandbox(options: SandboxBenchOptions): Promise<SandboxBench> {
  const { agent, dir, rounds, cgroupParent } = options;
  await using stack = new AsyncDisposableStack();
  const binDir = join(dir, 'cni-bin');
  makePluginDir(binDir, 'relay');
  const ours = { ...pluginEntry(agent.places, agent.dir), proxy_ready: 'skip' };
  const runtimes: [string, Containerd][] = [];
  for (const [name, chained] of [
    [WITHOUT, []],
    [WITH, [ours]],
  ] as const) {
    const own = join(dir, `runtime-${runtimes.length}`);
    const confDir = join(own, 'conf');
    mkdirSync(confDir, { recursive: true });
    writeFileSync(join(confDir, 'bench.conflist'), JSON.stringify(podNetwork(join(own, 'ipam'), chained)));
    const env = { AETHER_RELAY_SOCKET: agent.places.relaySocket };
    runtimes.push([name, stack.use(await startContainerd({ dir: own, confDir, binDir, env }))]);
  }
  const samples = new Map(runtimes.map(([name]) => [name, { run: [] as number[], stop: [] as number[] }]));
  // The first of each is not counted. Who comes second finds the machine still busy with the end of the first one's pod: that is
  // each in turn. The bridge plugin takes 2 or 52 ms, about as often the one as the other, with us or without: with few
  // rounds that is what the medians differ by.
  for (let round = -1; round < rounds; round++) {
    for (const [name, { cri }] of round % 2 === 0 ? runtimes : runtimes.toReversed()) {
      const pod = `pod-${round + 1}`;
      const begun = performance.now();
      const config = { name: pod, namespace: 'bench', uid: `uid-${pod}`, annotations: ANNOTATIONS, cgroupParent };
      const id = await cri.runPodSandbox(config);
      const running = performance.now();
      await cri.stopPodSandbox(id);
      const stopped = performance.now();
      await cri.removePodSandbox(id);
      if (round < 0) continue;
      samples.get(name)?.run.push(running - begun);
      samples.get(name)?.stop.push(stopped - running);
    }
  }
  const p50 = (name: string, what: 'run' | 'stop'): number => median(samples.get(name)?.[what] ?? []);
  const rows = [...samples].map(([name, { run, stop }]) => [
    name,
    ...[at(run, 0.5), at(run, 0.95), p50(name, 'run') / p50(WITHOUT, 'run')].map((value) => show(value)),
    ...[at(stop, 0.5), p50(name, 'stop') / p50(WITHOUT, 'stop')].map((value) => show(value)),
  ]);
  const head = ["containerd's own time", 'RunPodSandbox p50 ms', 'p95', 'ratio', 'StopPodSandbox p50 ms', 'ratio'];
  return { text: markdownTable([head, ...rows]), ratio: p50(WITH, 'run') / p50(WITHOUT, 'run') };
}
