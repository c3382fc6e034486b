// Long work in steps: done at once, or with a pause whenever a slice of time is over, the result is the same.
import t from 'tap';
import { runSteps, runStepsAside, type Steps } from '../../src/core/steps.ts';

function* countTo(end: number, onStep: () => void = () => {}): Steps<number> {
  for (let n = 0; n < end; n++) {
    onStep();
    yield;
  }
  return end;
}

t.test('runSteps() does everything and gives what came of it', (t) => {
  t.equal(runSteps(countTo(5)), 5);
  t.equal(runSteps(countTo(0)), 0);
  t.end();
});

t.test('runStepsAside() pauses each time a slice is over', async (t) => {
  const order: string[] = [];
  const pause = async (): Promise<void> => void order.push('pause');
  const each = await runStepsAside(
    countTo(3, () => order.push('step')),
    { sliceMs: 0, pause },
  );
  t.equal(each, 3);
  t.strictSame(order, ['step', 'pause', 'step', 'pause', 'step', 'pause']);
  order.length = 0;
  await runStepsAside(
    countTo(3, () => order.push('step')),
    { sliceMs: 60_000, pause },
  );
  t.strictSame(order, ['step', 'step', 'step']);
});

t.test('runStepsAside() fails with what a step throws', async (t) => {
  const steps = countTo(2, () => {
    throw new RangeError('no');
  });
  await t.rejects(runStepsAside(steps, { sliceMs: 5, pause: async () => {} }), RangeError);
});
