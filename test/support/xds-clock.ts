// A clock that stands still until a test moves it.
import type { Clock } from '../../src/agent/deps.ts';

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

export class ManualClock implements Clock {
  readonly #timers = new Set<Timer>();
  #nowMs = 0;

  now(): Date {
    return new Date(this.#nowMs);
  }

  after(delayMs: number, callback: () => void): Disposable {
    const timer = { atMs: this.#nowMs + delayMs, callback };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  /** Timers not yet fired. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Fires what is due, in order of time. */
  advance(byMs: number): void {
    const end = this.#nowMs + byMs;
    for (;;) {
      const [next] = [...this.#timers].filter(({ atMs }) => atMs <= end).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#nowMs = next.atMs;
      next.callback();
    }
    this.#nowMs = end;
  }
}
