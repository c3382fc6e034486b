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
  #isRequested = false;

  constructor(options: ChangeRunnerOptions) {
    this.#options = options;
  }

  /** Runs a job after all that came before it. */
  run<T>(job: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(job, job);
    this.#tail = turn.catch(() => {});
    return turn;
  }

  /** Asks for a refresh soon. Requests that come before it begins are one. */
  request(): void {
    if (this.#isRequested) return;
    this.#isRequested = true;
    this.run(() => {
      this.#isRequested = false;
      return this.#options.refresh();
    }).catch(this.#options.onError);
  }

  /** Resolves when everything that was asked for until now is done. */
  async idle(): Promise<void> {
    await this.#tail;
  }
}
