// How long the event loop keeps whoever comes next waiting. Measured while there is something to do and for a moment after
// it: an idle agent is not woken for this. (Node's own monitor takes a rest between two measurements for a delay.)
import { createHistogram } from 'node:perf_hooks';
import type { LoopDelay } from '../../agent/node-check.ts';

/** So often it is noted how late that came. */
const STEP_MS = 10;
/** Of fewer notes nothing is told: the worst would stand for all. */
const NOTES_MIN = 100;
const QUIET_MS = 200;
/** What is told is of the last one to two of these. */
const WINDOW_MS = 5 * 60_000;
/** Of the notes, in microseconds. */
const RANGE = { lowest: 1, highest: 3_600_000_000, figures: 2 };

export interface LoopDelayMonitor extends Disposable {
  /** There is something to do. Cheap. */
  readonly touch: () => void;
  /** Undefined: little was done lately. */
  readonly read: () => LoopDelay | undefined;
}

/** `nowMs`: monotonic; for tests. */
export function watchLoopDelay(nowMs: () => number = () => performance.now()): LoopDelayMonitor {
  const histogram = createHistogram(RANGE);
  let before: LoopDelay | undefined;
  let beganMs = nowMs();
  let touchedMs = beganMs;
  let notedMs = 0;
  let timer: NodeJS.Timeout | undefined;

  const current = (): LoopDelay | undefined => {
    if (histogram.count < NOTES_MIN) return undefined;
    const { max } = histogram;
    return { p99Ms: histogram.percentile(99) / 1000, maxMs: max / 1000, windowMs: nowMs() - beganMs };
  };
  const turn = (): void => {
    if (nowMs() - beganMs < WINDOW_MS) return;
    before = nowMs() - touchedMs < WINDOW_MS ? current() : undefined;
    histogram.reset();
    beganMs = nowMs();
  };
  const rest = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const note = (): void => {
    const lateMs = performance.now() - notedMs - STEP_MS;
    histogram.record(Math.min(RANGE.highest, Math.max(RANGE.lowest, Math.round(lateMs * 1000))));
    notedMs = performance.now();
    turn();
    if (nowMs() - touchedMs > QUIET_MS) rest();
  };
  return {
    touch: () => {
      turn();
      touchedMs = nowMs();
      if (timer !== undefined) return;
      notedMs = performance.now();
      timer = setInterval(note, STEP_MS).unref();
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
    [Symbol.dispose]: rest,
  };
}
