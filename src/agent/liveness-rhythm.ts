// When to ask how the pods are: once a second while all is settled, more often for a pod that has just come, never
// without pods.
import type { Clock } from './deps.ts';

const FULL_MS = 1000;
/** Delay until the next look by the age of the youngest pod that was never seen healthy. */
const STEPS = [
  { untilMs: 2000, delayMs: 50 },
  { untilMs: 30_000, delayMs: 250 },
] as const;
/** A look at a crowd takes a while: for so many times as long there is a rest, up to `REST_MAX_MS`. */
const REST = 4;
const REST_MAX_MS = 250;
/** Every so many full passes each pod is asked for by itself. */
const THOROUGH_EVERY = 10;

export interface LivenessRhythmOptions {
  readonly clock: Clock;
  /**
   * Looks at all pods, or (`isFull` false) at those that were never seen healthy; gives the age of the youngest of those,
   * `Infinity` without, undefined when there is no pod at all. Never rejects.
   */
  readonly pass: (isFull: boolean) => Promise<{ readonly youngestMs: number } | undefined>;
}

/** Asleep until it is woken; falls asleep again when a pass finds no pod. */
export class LivenessRhythm implements Disposable {
  readonly #options: LivenessRhythmOptions;
  #timer: Disposable | undefined;
  #isPassing = false;
  #isWoken = false;
  #isOver = false;
  #fullAtMs = Number.NEGATIVE_INFINITY;
  #fullPasses = 0;

  constructor(options: LivenessRhythmOptions) {
    this.#options = options;
  }

  /** Whether this full pass takes nothing for granted. */
  get isThorough(): boolean {
    return this.#fullPasses % THOROUGH_EVERY === 0;
  }

  /** Something came: look soon. */
  wake(): void {
    // Many in a row do not put it off again and again.
    if (!this.#isPassing && !this.#isWoken) this.#schedule(STEPS[0].delayMs);
    this.#isWoken = true;
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#timer?.[Symbol.dispose]();
  }

  #schedule(delayMs: number): void {
    this.#timer?.[Symbol.dispose]();
    if (!this.#isOver) this.#timer = this.#options.clock.after(delayMs, () => void this.#run());
  }

  async #run(): Promise<void> {
    this.#isPassing = true;
    this.#isWoken = false;
    const nowMs = this.#options.clock.now().getTime();
    const isFull = nowMs - this.#fullAtMs >= FULL_MS;
    if (isFull) {
      this.#fullAtMs = nowMs;
      this.#fullPasses += 1;
    }
    const seen = await this.#options.pass(isFull);
    this.#isPassing = false;
    const tookMs = this.#options.clock.now().getTime() - nowMs;
    if (seen === undefined && !this.#isWoken) return;
    const step = STEPS.find(({ untilMs }) => this.#isWoken || (seen !== undefined && seen.youngestMs < untilMs));
    const restMs = Math.min(REST_MAX_MS, REST * tookMs);
    this.#schedule(Math.max(restMs, step?.delayMs ?? FULL_MS));
  }
}
