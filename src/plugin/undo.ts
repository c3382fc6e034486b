// What has to be undone when a later step fails, last step first, going on after errors.
/** Empty again after `unwind`. */
export class UndoStack {
  readonly #steps: ((() => Promise<void>) | UndoStack)[] = [];

  /** Push before the step is tried: one that failed half-way may have left something. */
  push(step: () => Promise<void>): void {
    this.#steps.push(step);
  }

  /** A place for the steps of something that goes on beside others: whenever they come, they are undone in its turn. */
  nest(): UndoStack {
    const nested = new UndoStack();
    this.#steps.push(nested);
    return nested;
  }

  /** Runs all; returns what failed. */
  async unwind(): Promise<readonly unknown[]> {
    const failures: unknown[] = [];
    for (const step of this.#steps.splice(0).reverse()) {
      if (step instanceof UndoStack) failures.push(...(await step.unwind()));
      else await step().catch((error: unknown) => failures.push(error));
    }
    return failures;
  }
}
