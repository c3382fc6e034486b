// npm run quickstart as a user runs it: every row agrees, a second run is quick, and an interrupted one leaves nothing.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { listLeftovers, type RunOptions, runLabProgram } from '../support/lab-leftovers.ts';

const QUICKSTART = [process.execPath, join(import.meta.dirname, '../../scripts/quickstart.ts')] as const;
const tmp = mkdtempSync('/tmp/ae-left-');
t.setTimeout(240_000);
t.teardown(() => rmSync(tmp, { recursive: true }));

t.test('quickstart ends well and leaves nothing', async (t) => {
  const options: RunOptions = { mark: `${process.pid}-whole`, tmp };
  const { exit, output, ms } = await runLabProgram(QUICKSTART, options);
  t.equal(exit, 0, output);
  t.match(output, /capture mode redirect-all[\s\S]*capture mode scoped/);
  t.ok(ms < 60_000, `took ${Math.round(ms)} ms`);
  t.strictSame(listLeftovers(options), []);
});

const moments = [
  'agent started',
  'Envoy started',
  'pod db-0 added',
  'first 200',
  'redirect-all',
  'taking the pods down',
];

for (const [index, when] of moments.entries()) {
  const [signal, code] = index % 2 === 0 ? (['SIGINT', 130] as const) : (['SIGTERM', 143] as const);
  t.test(`quickstart leaves nothing after ${signal} at "${when}"`, async (t) => {
    const options: RunOptions = { mark: `${process.pid}-${index}`, tmp, when, signal };
    const { exit, output } = await runLabProgram(QUICKSTART, options);
    t.equal(exit, code, output);
    t.strictSame(listLeftovers(options), []);
  });
}
