// npm run quickstart: the whole thing on this machine, and nothing left of it. Builds, makes a node with pods by the
// real conflist, starts the real agent and the real Envoy, dials every spelling of the resolution table by mesh name.
// Exit 0 only when every row agrees.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startLab } from './lab/lab.ts';
import { ROOT } from './lab/places.ts';
import { formatResults, type RowResult, runRows } from './lab/run-table.ts';
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
    const results: RowResult[] = [];
    {
      await using lab = await startLab(sandbox, step);
      for (const mode of ['redirect-all', 'scoped'] as const) {
        const rows = await runRows(lab, mode);
        results.push(...rows);
        say(`\ncapture mode ${mode}\n${formatResults(rows)}\n`);
      }
      step('taking the pods down');
    }
    const wrong = results.filter((result) => result.disagreements.length > 0).length;
    step(`${results.length - wrong} of ${results.length} dials as expected`);
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
