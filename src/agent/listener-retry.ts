// A listener that Envoy refused because the pod's namespace could not be entered: Envoy never tries again by itself, so it
// is taken away and sent again, each time a little later.
import type { Clock } from './deps.ts';

const FIRST_DELAY_MS = 250;
const LAST_DELAY_MS = 30_000;
/** A refusal so long after the last try is a new story: the listener had been taken meanwhile. */
const FORGET_AFTER_MS = 10_000;

interface Try {
  readonly nextDelayMs: number;
  readonly forgetAtMs: number;
}

export interface ListenerRetryOptions {
  readonly clock: Clock;
  /** Takes the listener away from Envoy and sends it again. */
  readonly resend: (name: string) => void;
}

/** One for a stream: ends with it. */
export class ListenerRetry implements Disposable {
  readonly #options: ListenerRetryOptions;
  readonly #timers = new Map<string, Disposable>();
  readonly #tries = new Map<string, Try>();

  constructor(options: ListenerRetryOptions) {
    this.#options = options;
  }

  /** Any other refusal is final until the listener changes: to take it away would end an older version that works. */
  refused(name: string, message: string): void {
    if (!isNamespaceFailure(message) || this.#timers.has(name)) return;
    const nowMs = this.#options.clock.now().getTime();
    const last = this.#tries.get(name);
    const delayMs = last === undefined || nowMs > last.forgetAtMs ? FIRST_DELAY_MS : last.nextDelayMs;
    this.#tries.set(name, {
      nextDelayMs: Math.min(delayMs * 2, LAST_DELAY_MS),
      forgetAtMs: nowMs + delayMs + FORGET_AFTER_MS,
    });
    const timer = this.#options.clock.after(delayMs, () => {
      this.#timers.delete(name);
      this.#options.resend(name);
    });
    this.#timers.set(name, timer);
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers.values()) timer[Symbol.dispose]();
    this.#timers.clear();
  }
}

function isNamespaceFailure(message: string): boolean {
  return /\bnetns file\b|network namespace/i.test(message);
}
