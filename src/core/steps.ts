// Long work that can be done in one go or a little at a time: a generator that yields where it may be left alone for a while.

export type Steps<T> = Generator<void, T, void>;

/** Does all of it now. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Does it so that whatever else is to be done waits for `sliceMs` and one step at most. */
export async function runStepsAside<T>(
  steps: Steps<T>,
  { sliceMs, pause }: { readonly sliceMs: number; readonly pause: () => Promise<void> },
): Promise<T> {
  for (;;) {
    const endMs = performance.now() + sliceMs;
    do {
      const { done, value } = steps.next();
      if (done) return value;
    } while (performance.now() < endMs);
    await pause();
  }
}
