// When the agent gives memory back: at the end of its start, and when it has been quiet for a while after work.
import { trimAfterWork } from '../adapters/kernel/trim-memory.ts';
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

export interface MemoryTrimmer extends Disposable {
  /** Never throws: a failure is in the log. */
  readonly now: () => Promise<void>;
  /** There is something to do. Cheap. */
  readonly touch: () => void;
}

/** `trim` gives the bytes let go; undefined: nothing is ever done. */
export function openMemoryTrimmer(trim: (() => Promise<number>) | undefined, log: Log): MemoryTrimmer {
  if (trim === undefined) return { now: async () => {}, touch: () => {}, [Symbol.dispose]: () => {} };
  const now = async (): Promise<void> => {
    try {
      log.debug('agent.memory.trimmed', { bytes: await trim() });
    } catch (error) {
      log.warn('agent.memory.not_trimmed', { reason: messageOf(error) });
    }
  };
  const after = trimAfterWork(() => void now());
  return { now, touch: after.touch, [Symbol.dispose]: () => after[Symbol.dispose]() };
}
