// The delay of the real event loop, held up on purpose; the hours that windows take are a clock of our own.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { watchLoopDelay } from '../../../src/adapters/host/loop-delay.ts';

const MINUTE_MS = 60_000;

function block(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

// Long enough for as many notes as are needed.
async function work(touch: () => void, { blockMs = 0 } = {}): Promise<void> {
  for (let i = 0; i < 60; i++) {
    touch();
    block(i % 15 === 0 ? blockMs : 0);
    await sleep(40);
  }
}

t.test('watchLoopDelay() tells how long the loop was held up', async (t) => {
  using monitor = watchLoopDelay();
  t.equal(monitor.read(), undefined, 'nothing was done yet');
  await work(monitor.touch, { blockMs: 200 });
  const { p99Ms = 0, maxMs = 0, windowMs = 0 } = monitor.read() ?? {};
  t.ok(p99Ms > 150, `${p99Ms}`);
  t.ok(maxMs >= p99Ms, `${maxMs}`);
  t.ok(windowMs > 1600, `${windowMs}`);
});

t.test('watchLoopDelay() does not look while nothing is done, and takes no rest for a delay', async (t) => {
  using monitor = watchLoopDelay();
  await work(monitor.touch);
  await sleep(1500);
  block(2500);
  await sleep(500);
  await work(monitor.touch);
  const { maxMs = Number.NaN } = monitor.read() ?? {};
  t.ok(maxMs < 2000, `${maxMs}`);
});

t.test('watchLoopDelay() keeps a window for as long as another, and forgets what is older', async (t) => {
  let nowMs = 0;
  using monitor = watchLoopDelay(() => nowMs);
  await work(monitor.touch, { blockMs: 200 });
  const first = monitor.read();
  t.ok((first?.maxMs ?? 0) > 150);
  nowMs += 5 * MINUTE_MS - 1;
  monitor.touch();
  nowMs += 1;
  monitor.touch();
  t.match(monitor.read(), { maxMs: first?.maxMs, windowMs: 5 * MINUTE_MS }, 'a new window has begun');
  await work(monitor.touch);
  t.ok((monitor.read()?.maxMs ?? 0) >= (first?.maxMs ?? Number.NaN), 'the worst of both');
  nowMs += 5 * MINUTE_MS;
  monitor.touch();
  t.not(monitor.read()?.maxMs, first?.maxMs);
  nowMs += 11 * MINUTE_MS;
  t.equal(monitor.read(), undefined, 'nothing was done for long');
});
