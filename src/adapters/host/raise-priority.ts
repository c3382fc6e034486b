// The agent before ordinary work of the node: every pod's start waits for it, and in a crowd of them the runtime's own processes
// want the processors as well.
import { getPriority, setPriority } from 'node:os';
import { messageOf } from '../../core/errors.ts';

/** About three times the share of an ordinary thread: enough to be asked first, and nobody starves. */
const NICE = -5;

/**
 * For this thread and those that it begins from now on: call it early. Leaves alone what somebody has chosen. Gives the reason
 * why nothing has changed; without CAP_SYS_NICE the agent works as well, only later in a crowd.
 */
export function raisePriority(): string | undefined {
  const nice = getPriority();
  if (nice !== 0) return `nice is ${nice} already`;
  try {
    setPriority(NICE);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
