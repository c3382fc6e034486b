// Memory that only a start or a burst needed goes back to the system when the work is over.
import { kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';

/** Long enough that a rollout of many pods is one piece of work. */
const QUIET_MS = 10_000;

/** Lets go of unchanged file pages and of what malloc keeps. Gives the bytes of pages; they come back as they are used. */
export async function trimMemory(native: NativeLibrary): Promise<number> {
  const kib = Number(await native.callOffThread('ae_trim_memory'));
  if (kib < 0) throw kernelError('trim memory', -kib);
  return kib * 1024;
}

export interface TrimAfterWork extends Disposable {
  /** There is something to do. Cheap. */
  readonly touch: () => void;
}

/** Calls `trim` when nothing was touched for `quietMs` after something was; it must not throw. */
export function trimAfterWork(trim: () => void, { quietMs = QUIET_MS } = {}): TrimAfterWork {
  let touchedMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const arm = (ms: number): void => {
    timer = setTimeout(rest, ms).unref();
  };
  const rest = (): void => {
    timer = undefined;
    const leftMs = touchedMs + quietMs - performance.now();
    if (leftMs > 0) arm(leftMs);
    else trim();
  };
  return {
    touch: () => {
      touchedMs = performance.now();
      if (timer === undefined) arm(quietMs);
    },
    [Symbol.dispose]: () => clearTimeout(timer),
  };
}
