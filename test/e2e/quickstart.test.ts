// npm run quickstart as a user runs it: every row agrees, a second run is quick, and an interrupted one leaves nothing.
import { join } from 'node:path';
import t from 'tap';
import { listLeftovers, runLabProgram } from '../support/lab-leftovers.ts';

const QUICKSTART = [process.execPath, join(import.meta.dirname, '../../scripts/quickstart.ts')] as const;

t.test('quickstart ends well and leaves nothing', async (t) => {
  const mark = `${process.pid}-whole`;
  const before = listLeftovers(mark);
  const { exit, output, ms } = await runLabProgram(QUICKSTART, { mark });
  t.equal(exit, 0, output);
  t.match(output, /capture mode redirect-all[\s\S]*capture mode scoped/);
  t.ok(ms < 60_000, `took ${Math.round(ms)} ms`);
  t.strictSame(listLeftovers(mark), before);
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
    const mark = `${process.pid}-${index}`;
    const before = listLeftovers(mark);
    const { exit, output } = await runLabProgram(QUICKSTART, { mark, when, signal });
    t.equal(exit, code, output);
    t.strictSame(listLeftovers(mark), before);
  });
}
