// Long work of the agent, done so that calls, Envoy and health come in between.
import { runStepsAside, type Steps } from '../core/steps.ts';

const SLICE_MS = 5;

/** What it reads may have changed before it ends: it works on values that do not. */
export function runAside<T>(steps: Steps<T>): Promise<T> {
  return runStepsAside(steps, { sliceMs: SLICE_MS, pause: () => new Promise((resolve) => setImmediate(resolve)) });
}
