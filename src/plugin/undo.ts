// What has to be undone when a later step fails, last step first, going on after errors.
/** Empty again after `unwind`. */
export class UndoStack {
  readonly #steps: (() => Promise<void>)[] = [];

  /** Push before the step is tried: one that failed half-way may have left something. */
  push(step: () => Promise<void>): void {
    this.#steps.push(step);
  }

  /** Runs all; returns what failed. */
  async unwind(): Promise<readonly unknown[]> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).reverse()) {
      await step().catch((error: unknown) => failures.push(error));
    }
    return failures;
  }
}
