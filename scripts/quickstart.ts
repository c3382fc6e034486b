// npm run quickstart: the whole thing on this machine, and nothing left of it. Builds, makes a node with pods by the
// real conflist, starts the real agent and the real Envoy, dials every spelling of the resolution table by mesh name.
// Exit 0 only when every row agrees.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startLab } from './lab/lab.ts';
import { ROOT } from './lab/places.ts';
import { formatStrangers, runStrangers } from './lab/run-strangers.ts';
import { formatResults, runRows } from './lab/run-table.ts';
import { enterSandbox } from './lab/sandbox.ts';

const sandbox = await enterSandbox(import.meta.filename, {
  prepare: [[process.execPath, join(ROOT, 'scripts/build.ts')]],
});
process.exit(await main());

async function main(): Promise<number> {
  const start = performance.now();
  const say = (text: string) => process.stdout.write(`${text}\n`);
  const step = (text: string) => say(`${((performance.now() - start) / 1000).toFixed(1).padStart(5)} s  ${text}`);
  try {
    const verdicts: boolean[] = [];
    {
      await using lab = await startLab(sandbox, { onStep: step });
      for (const mode of ['redirect-all', 'scoped'] as const) {
        const rows = await runRows(lab, mode);
        verdicts.push(...rows.map((row) => row.disagreements.length === 0));
        say(`\ncapture mode ${mode}\n${formatResults(rows)}\n`);
      }
      const strangers = await runStrangers(lab);
      verdicts.push(...strangers.map((stranger) => stranger.agrees));
      say(`strangers at the mesh hop\n${formatStrangers(strangers)}\n`);
      step('taking the pods down');
    }
    const wrong = verdicts.filter((agrees) => !agrees).length;
    step(`${verdicts.length - wrong} of ${verdicts.length} as expected`);
    return wrong === 0 ? 0 : 1;
  } catch (error) {
    say(error instanceof Error ? (error.stack ?? error.message) : String(error));
    for (const name of ['agent.log', 'envoy.log', 'plugin.log']) say(`--- ${name}\n${tail(join(sandbox.dir, name))}`);
    return 1;
  }
}

function tail(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n').slice(-20).join('\n') : '(none)';
}
