// How long the event loop keeps whoever comes next waiting. Measured while there is something to do and for a second after
// it: an idle agent is not woken for this.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { LoopDelay } from '../../agent/node-check.ts';

/** The monitor notes every so often how late it is. */
const RESOLUTION_MS = 10;
/** Of fewer notes nothing is told: the worst would stand for all. */
const NOTES_MIN = 100;
const QUIET_MS = 1000;
/** What is told is of the last one to two of these. */
const WINDOW_MS = 5 * 60_000;

export interface LoopDelayMonitor extends Disposable {
  /** There is something to do. Cheap. */
  readonly touch: () => void;
  /** Undefined: little was done lately. */
  readonly read: () => LoopDelay | undefined;
}

/** `nowMs`: monotonic; for tests. */
export function watchLoopDelay(nowMs: () => number = () => performance.now()): LoopDelayMonitor {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  let before: LoopDelay | undefined;
  let beganMs = nowMs();
  let touchedMs = beganMs;
  let timer: NodeJS.Timeout | undefined;

  // The histogram holds whole intervals in nanoseconds: what is beyond the resolution is the delay.
  const delayMs = (ns: number): number => Math.max(0, ns / 1e6 - RESOLUTION_MS);
  const current = (): LoopDelay | undefined => {
    if (histogram.count < NOTES_MIN) return undefined;
    const { max } = histogram;
    return { p99Ms: delayMs(histogram.percentile(99)), maxMs: delayMs(max), windowMs: nowMs() - beganMs };
  };
  const turn = (): void => {
    if (nowMs() - beganMs < WINDOW_MS) return;
    before = nowMs() - touchedMs < WINDOW_MS ? current() : undefined;
    histogram.reset();
    beganMs = nowMs();
  };
  const rest = (): void => {
    turn();
    const leftMs = touchedMs + QUIET_MS - nowMs();
    timer = leftMs > 0 ? setTimeout(rest, leftMs).unref() : undefined;
    if (timer === undefined) histogram.disable();
  };
  return {
    touch: () => {
      turn();
      touchedMs = nowMs();
      if (timer !== undefined) return;
      histogram.enable();
      timer = setTimeout(rest, QUIET_MS).unref();
    },
    read: () => {
      turn();
      const now = current();
      if (before === undefined || now === undefined) return now ?? before;
      return {
        p99Ms: Math.max(before.p99Ms, now.p99Ms),
        maxMs: Math.max(before.maxMs, now.maxMs),
        windowMs: before.windowMs + now.windowMs,
      };
    },
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      histogram.disable();
    },
  };
}
