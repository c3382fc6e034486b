// The process's clock and timers.
import type { Clock } from '../../agent/deps.ts';

// setTimeout takes 31 bits of milliseconds and fires at once beyond.
const LONGEST_MS = 0x7fff_ffff;

export const systemClock: Clock = {
  now: () => new Date(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, Math.max(0, Math.min(delayMs, LONGEST_MS)));
    timer.unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
};
