// The agent's single file of changes: whatever Envoy and the kernel are told is told by one job at a time, in order.

export interface ChangeRunnerOptions {
  /** Brings everything up to date. */
  readonly refresh: () => Promise<void>;
  /** A refresh that nobody waits for has failed. */
  readonly onError: (error: unknown) => void;
  /** A job begins. */
  readonly onWork?: (() => void) | undefined;
}

/**
 * How long a refresh that nobody waits for lets others be first: who is being answered, and what comes with the same crowd of
 * pods. Far below what Envoy takes for a change.
 */
const QUIET_MS = 5;
/** How long those who go on coming may put it off: told one by one, a crowd of pods costs a refresh of the whole node each. */
const CROWD_MS = 40;

/** A refresh that has not begun; `hurry` when somebody waits for it, `wait` when others come along. */
interface Coming {
  readonly done: Promise<void>;
  readonly hurry: () => void;
  readonly wait: () => void;
}

/** Jobs run in the order in which they were asked for; one that fails does not stop the next. */
export class ChangeRunner {
  readonly #options: ChangeRunnerOptions;
  #tail: Promise<unknown> = Promise.resolve();
  #coming: Coming | undefined;

  constructor(options: ChangeRunnerOptions) {
    this.#options = options;
  }

  /** Runs a job after all that came before it. */
  run<T>(job: () => Promise<T>): Promise<T> {
    const begin = (): Promise<T> => {
      this.#options.onWork?.();
      return job();
    };
    const turn = this.#tail.then(begin, begin);
    this.#tail = turn.catch(() => {});
    return turn;
  }

  /**
   * A refresh that begins after this call; all who ask before it begins share one. It lets the event loop turn once before, so
   * that what arrives together is told together.
   */
  refresh(): Promise<void> {
    const { done, hurry } = this.#plan();
    setImmediate(hurry);
    return done;
  }

  /** Asks for a refresh soon; nobody waits for it. */
  request(): void {
    if (this.#coming === undefined) this.#plan().done.catch(this.#options.onError);
    else this.#coming.wait();
  }

  /** Resolves when everything that was asked for until now is done. */
  async idle(): Promise<void> {
    await this.#tail;
  }

  #plan(): Coming {
    if (this.#coming !== undefined) return this.#coming;
    const { promise: quiet, resolve: hurry } = Promise.withResolvers<void>();
    let timer = setTimeout(hurry, QUIET_MS);
    const last = setTimeout(hurry, CROWD_MS);
    const done = this.run(async () => {
      await quiet;
      clearTimeout(timer);
      clearTimeout(last);
      this.#coming = undefined;
      await this.#options.refresh();
    });
    const wait = (): void => {
      clearTimeout(timer);
      timer = setTimeout(hurry, QUIET_MS);
    };
    this.#coming = { done, hurry, wait };
    return this.#coming;
  }
}
