// Which of the calls that arrived may run now: a bounded number at once, those of one container one after another, in the
// order of arrival. A DEL ends what an ADD of its container still waits for. Knows no socket and no frame.

/** One call. The queue calls `start` at most once, and nothing after `refuse`. */
export interface QueuedCall {
  readonly verb: string;
  /** Empty where the call is about no container. */
  readonly containerId: string;
  /** Settles when the call is over, one way or the other; never rejects. */
  start(): Promise<void>;
  /** The container is being deleted: end soon. A call that has not started is not started any more. */
  cancel(): void;
  /** It will not be run. */
  refuse(): void;
}

export interface CallQueueLimits {
  readonly maxRunning: number;
  /** Beyond these, calls are refused. */
  readonly maxWaiting: number;
}

/** Every call that is submitted is started or refused, once. */
export class CallQueue {
  readonly #limits: CallQueueLimits;
  readonly #running = new Map<QueuedCall, Promise<void>>();
  readonly #busyContainers = new Set<string>();
  #waiting: QueuedCall[] = [];
  #closed = false;

  constructor(limits: CallQueueLimits) {
    this.#limits = limits;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  submit(call: QueuedCall): void {
    if (call.verb === 'DEL' && call.containerId !== '') this.#cancelAdds(call.containerId);
    if (this.#closed || this.#waiting.length >= this.#limits.maxWaiting) {
      call.refuse();
      return;
    }
    if (this.#waiting.length === 0 && this.#mayStart(call)) {
      this.#begin(call);
      return;
    }
    this.#waiting.push(call);
    this.#startWhatMay();
  }

  /** Whoever asked is gone. A call that runs is not touched. */
  withdraw(call: QueuedCall): void {
    if (this.#waiting.length > 0) this.#waiting = this.#waiting.filter((other) => other !== call);
  }

  /** From now on refuses everything; settles when nothing runs any more. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const call of this.#waiting.splice(0)) call.refuse();
    await Promise.all(this.#running.values());
  }

  #cancelAdds(containerId: string): void {
    const isAdd = (call: QueuedCall) => call.verb === 'ADD' && call.containerId === containerId;
    const cancelled = this.#waiting.filter(isAdd);
    this.#waiting = this.#waiting.filter((call) => !isAdd(call));
    for (const call of [...cancelled, ...[...this.#running.keys()].filter(isAdd)]) call.cancel();
  }

  #startWhatMay(): void {
    for (const call of [...this.#waiting]) {
      if (this.#running.size >= this.#limits.maxRunning) return;
      if (!this.#mayStart(call)) continue;
      this.withdraw(call);
      this.#begin(call);
    }
  }

  #mayStart({ containerId }: QueuedCall): boolean {
    const isBusy = containerId !== '' && this.#busyContainers.has(containerId);
    return !isBusy && this.#running.size < this.#limits.maxRunning;
  }

  #begin(call: QueuedCall): void {
    this.#busyContainers.add(call.containerId);
    this.#running.set(call, this.#run(call));
  }

  async #run(call: QueuedCall): Promise<void> {
    try {
      await call.start();
    } finally {
      this.#running.delete(call);
      this.#busyContainers.delete(call.containerId);
      this.#startWhatMay();
    }
  }
}
