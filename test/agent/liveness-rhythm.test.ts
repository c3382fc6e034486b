// How often pods' health is asked for, on a clock moved by hand: often while one has just come, once a second when nobody is
// waited for, and seldom enough that a slow look does not fill the time.
import t, { type Test } from 'tap';
import { LivenessRhythm } from '../../src/agent/liveness-rhythm.ts';
import { TestClock } from '../support/agent-world.ts';

function start(t: Test, youngestMs: () => number | undefined, { passMs = 0 } = {}) {
  const clock = new TestClock();
  const begunMs = clock.now().getTime();
  const passes: string[] = [];
  const rhythm = new LivenessRhythm({
    clock,
    pass: async (isFull) => {
      passes.push(`${clock.now().getTime() - begunMs}${isFull ? ' full' : ''}`);
      clock.advance(passMs);
      const youngest = youngestMs();
      return youngest === undefined ? undefined : { youngestMs: youngest };
    },
  });
  t.teardown(() => rhythm[Symbol.dispose]());
  const run = async (ms: number): Promise<void> => {
    for (let done = 0; done < ms; done += 10) {
      clock.advance(10);
      await new Promise(setImmediate);
    }
  };
  return { rhythm, run, passes };
}

t.test('LivenessRhythm does nothing until it is woken, and stops without pods', async (t) => {
  const { rhythm, run, passes } = start(t, () => undefined);
  await run(2000);
  t.strictSame(passes, []);
  rhythm.wake();
  await run(3000);
  t.strictSame(passes, ['2050 full']);
});

t.test('LivenessRhythm looks at all once a second when nobody is waited for', async (t) => {
  const { rhythm, run, passes } = start(t, () => Infinity);
  rhythm.wake();
  await run(3100);
  t.strictSame(passes, ['50 full', '1050 full', '2050 full', '3050 full']);
});

for (const [title, youngestMs, perSecond] of [
  ['often for a pod that has just come', 0, 20],
  ['now and then for one that takes its time', 5000, 4],
  ['no more than once a second for one that never comes up', 60_000, 1],
] as const) {
  t.test(`LivenessRhythm looks ${title}`, async (t) => {
    const { rhythm, run, passes } = start(t, () => youngestMs);
    rhythm.wake();
    await run(50);
    passes.length = 0;
    await run(1000);
    t.equal(passes.length, perSecond, passes.join(' '));
    t.equal(passes.filter((pass) => pass.endsWith('full')).length, 1);
  });
}

for (const passMs of [10, 30, 500]) {
  t.test(`LivenessRhythm rests in proportion after a look at a crowd that takes ${passMs} ms`, async (t) => {
    const { rhythm, run, passes } = start(t, () => 0, { passMs });
    rhythm.wake();
    await run(50);
    passes.length = 0;
    const wantedMs = passMs + Math.max(50, Math.min(250, 4 * passMs));
    for (let i = 0; i < 20; i++) await run(50);
    const at = passes.map((pass) => Number.parseInt(pass, 10));
    const gaps = at.slice(1).map((ms, i) => ms - (at[i] ?? 0));
    t.ok(
      gaps.every((gap) => Math.abs(gap - wantedMs) <= 10),
      `${gaps} of ${wantedMs} ms`,
    );
    t.ok(gaps.length > 0);
  });
}

t.test('LivenessRhythm is not put off by being woken again and again', async (t) => {
  const { rhythm, run, passes } = start(t, () => Infinity);
  for (let i = 0; i < 20; i++) {
    rhythm.wake();
    await run(10);
  }
  t.ok(passes.length >= 3, passes.join(' '));
});
