// ADD and DEL on a node where many processes run beside few of them: what looks for a process in /proc pays for each.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { TimerScript } from './call-timer.ts';
import { addPod, type CallSamples, collect, namespaceDir } from './measure-calls.ts';
import { type BenchPlugin, OURS } from './plugins.ts';
import { markdownTable, median, show } from './samples.ts';

const FEW = 80;
const MANY = 1500;

export interface Crowd {
  readonly text: string;
  /** ADD with many / with few. */
  readonly ratio: number;
}

/** In turns of one pod, so that the number of processes is the only difference. */
export async function measureCrowd(
  plugins: readonly BenchPlugin[],
  options: { readonly dir: string; readonly rounds: number; readonly first: number },
): Promise<Crowd> {
  const { dir, rounds, first } = options;
  const here = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length;
  const found = new Map<string, CallSamples>();
  // Making the many is not cheap: a few pods in each state before the next.
  for (let turn = 0; turn < rounds / 5; turn++) {
    const script = new TimerScript();
    for (const count of [FEW, MANY]) {
      script.crowd(Math.max(0, count - here)).pause(100);
      for (let i = 0; i < 5; i++) {
        for (const [place, plugin] of plugins.entries()) {
          const index = first + (turn * 5 + i) * plugins.length + place;
          addPod(script, plugin, { dir, index, netns: join(namespaceDir(dir), `crowd-${index}`), prefix: `${count}|` });
        }
      }
    }
    collect(await script.run(), found);
  }
  const p50 = (count: number, plugin: BenchPlugin, verb: string): number =>
    median(found.get(`${count}|${plugin.name}|${verb}`)?.wallMs ?? []);
  const ratio = (plugin: BenchPlugin, verb: string): number => p50(MANY, plugin, verb) / p50(FEW, plugin, verb);
  const rows = plugins.flatMap((plugin) =>
    plugin.verbs
      .filter((verb) => verb === 'ADD' || verb === 'DEL')
      .map((verb) => [
        `${verb}: ${plugin.name}`,
        ...[p50(FEW, plugin, verb), p50(MANY, plugin, verb), ratio(plugin, verb)].map((value) => show(value)),
      ]),
  );
  const ours = plugins.find(({ name }) => name === OURS);
  return {
    text: markdownTable([['processes on the node', `p50 ms with ${FEW}`, `with ${MANY}`, 'ratio'], ...rows]),
    ratio: ours === undefined ? Number.NaN : ratio(ours, 'ADD'),
  };
}
