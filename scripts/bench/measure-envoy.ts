// From the start of an Envoy to the first answer through the mesh, the agent and the pods being there.
import type { Dial } from '../lab/dial.ts';
import { startEnvoy } from '../lab/envoy.ts';
import { type Lab, meshName } from '../lab/lab.ts';
import { waitUntil } from '../lab/processes.ts';
import { markdownTable, median, show } from './samples.ts';

const DIAL: Dial = { kind: 'http', host: meshName('shop'), port: 18081, family: 4, timeoutMs: 1000 };

/** Ends the lab's Envoy and leaves a new one. */
export async function measureEnvoy(
  lab: Lab,
  options: { readonly nodeName: string; readonly rounds: number; readonly firstMs: number },
): Promise<string> {
  const samples: number[] = [];
  let { process } = lab.envoy;
  for (let round = 0; round < options.rounds; round++) {
    await process.stop();
    const begun = performance.now();
    const envoy = await startEnvoy({ dir: lab.dir, nodeName: options.nodeName, xdsSocket: lab.places.xdsSocket });
    process = envoy.process;
    const answers = async (): Promise<boolean> => (await lab.dial('client', DIAL)).report.status === 200;
    await waitUntil('the first 200', answers, { timeoutMs: 15_000, process });
    samples.push(performance.now() - begun);
  }
  return markdownTable([
    ['Envoy', 'p50 ms', 'samples'],
    ['start of Envoy to the first 200 through the mesh', show(median(samples), 0), String(samples.length)],
    ['agent, Envoy and 6 pods from nothing to the first 200', show(options.firstMs, 0), '1'],
  ]);
}
