// An ADD after some time without any: what the agent let go of meanwhile comes back then. On a real node most ADDs are so.
import { join } from 'node:path';
import { TimerScript } from './call-timer.ts';
import { addPod, type CallSamples, collect, namespaceDir } from './measure-calls.ts';
import type { BenchPlugin } from './plugins.ts';
import { markdownTable, mean, median, show } from './samples.ts';

/** Longer than the agent waits before it lets go of memory. */
const REST_MS = 12_000;

/** A Markdown table. `first`: number of a pod that nobody else has, and of those after it. */
export async function measureRest(
  plugins: readonly BenchPlugin[],
  { dir, rounds, first }: { readonly dir: string; readonly rounds: number; readonly first: number },
): Promise<string> {
  const found = new Map<string, CallSamples>();
  for (let round = 0; round < rounds; round++) {
    const script = new TimerScript().pause(REST_MS);
    for (const [place, plugin] of plugins.entries()) {
      const index = first + round * plugins.length + place;
      const netns = join(namespaceDir(dir), `rest-${index}`);
      addPod(script, { ...plugin, verbs: ['ADD', 'DEL'] }, { dir, index, netns });
    }
    collect(await script.run(), found);
  }
  const rows = [...found].map(([label, { wallMs, cpuMs, agentMs }]) => [
    label.split('|').reverse().join(': '),
    show(median(wallMs)),
    show(Math.max(...wallMs)),
    show(mean(cpuMs) + (agentMs.length === 0 ? 0 : mean(agentMs))),
  ]);
  return markdownTable([[`after ${REST_MS / 1000} s of rest`, 'p50 ms', 'longest', 'CPU ms'], ...rows]);
}
