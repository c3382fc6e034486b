// One at a time for each key: calls about one container never overlap, calls about different ones do.

/** Not reentrant: an action must not wait for another one under its own key. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>();

  /** Runs the action when everything that came before it under this key has ended, well or not. */
  async run<T>(key: string, action: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key);
    const turn = (before ?? Promise.resolve()).then(action, action);
    this.#tails.set(key, turn);
    try {
      return await turn;
    } finally {
      if (this.#tails.get(key) === turn) this.#tails.delete(key);
    }
  }
}
