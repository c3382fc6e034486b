// Every spelling of the proposal's resolution table, dialled by mesh name from a real pod through the real plugin, agent
// and Envoy: both capture modes, both address families.

import { startLab } from '../../scripts/lab/lab.ts';
import { resolutionRows } from '../../scripts/lab/resolution-table.ts';
import { formatResults, runRow } from '../../scripts/lab/run-table.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';

const sandbox = await enterSandbox(import.meta.filename);
// Only inside the sandbox: outside, this process prints nothing of its own.
const { default: t } = await import('tap');
t.setTimeout(240_000);
const lab = await startLab(sandbox);

for (const mode of ['redirect-all', 'scoped'] as const) {
  for (const family of [4, 6] as const) {
    await t.test(`resolution, ${mode}, IPv${family}`, async (t) => {
      for (const row of resolutionRows(mode)) {
        const result = await runRow(lab, row, { mode, family });
        t.strictSame(result.disagreements, [], `${row.spelling} gives ${row.expected}`, {
          seen: formatResults([result]),
        });
      }
    });
  }
}

await t.test('a pod is told which identity calls it', async (t) => {
  const { report } = await lab.dial('client', {
    ...{ kind: 'http', host: 'shop.demo.aether.internal', port: 18081, family: 4, timeoutMs: 4000 },
  });
  t.match(report.text, /spiffe:\/\/aether\.internal\/ns\/demo\/sa\/client/);
});

await t.test('the lab ends in good order', async (t) => {
  await lab[Symbol.asyncDispose]();
  t.pass();
});
