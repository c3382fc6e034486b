// The agent's single file of changes: whatever Envoy and the kernel are told is told by one job at a time, in order.

export interface ChangeRunnerOptions {
  /** Brings everything up to date. */
  readonly refresh: () => Promise<void>;
  /** A refresh that nobody waits for has failed. */
  readonly onError: (error: unknown) => void;
}

export class ChangeRunner {
  readonly #options: ChangeRunnerOptions;
  #tail: Promise<unknown> = Promise.resolve();
  /** The refresh that has not begun. */
  #next: Promise<void> | undefined;

  constructor(options: ChangeRunnerOptions) {
    this.#options = options;
  }

  /** Runs a job after all that came before it. */
  run<T>(job: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(job, job);
    this.#tail = turn.catch(() => {});
    return turn;
  }

  /**
   * A refresh that begins after this call; all who ask before it begins share one. It lets the event loop turn once before:
   * what arrives together is told together, and who is answered already has the answer by then.
   */
  refresh(): Promise<void> {
    this.#next ??= this.run(async () => {
      await new Promise(setImmediate);
      this.#next = undefined;
      await this.#options.refresh();
    });
    return this.#next;
  }

  /** Asks for a refresh soon; nobody waits for it. */
  request(): void {
    if (this.#next === undefined) this.refresh().catch(this.#options.onError);
  }

  /** Resolves when everything that was asked for until now is done. */
  async idle(): Promise<void> {
    await this.#tail;
  }
}
