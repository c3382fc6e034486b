// Who waits for Envoy to take a resource, and until when.
import type { AckState } from './ads-protocol.ts';
import type { Clock } from './deps.ts';
import type { AckResult, ResourceName } from './publisher.ts';

export interface AckTrackerOptions {
  readonly clock: Clock;
  /** Where a resource stands with all connected Envoys together; undefined when none is connected. */
  readonly stateOf: (name: ResourceName) => AckState | undefined;
}

interface Waiter {
  readonly names: readonly ResourceName[];
  readonly resolve: (result: AckResult) => void;
  readonly timer: Disposable;
}

/** Every `wait` settles by its time-out at the latest. */
export class AckTracker {
  readonly #options: AckTrackerOptions;
  readonly #waiters = new Set<Waiter>();

  constructor(options: AckTrackerOptions) {
    this.#options = options;
  }

  /** Settles as soon as all are taken or one is refused. An Envoy that is away may come back until the time is over. */
  wait(names: readonly ResourceName[], { timeoutMs }: { readonly timeoutMs: number }): Promise<AckResult> {
    const now = this.#judge(names);
    if (now !== undefined) return Promise.resolve(now);
    return new Promise((resolve) => {
      const timer = this.#options.clock.after(timeoutMs, () => {
        this.#waiters.delete(waiter);
        resolve(this.#giveUp(names));
      });
      const waiter: Waiter = { names, resolve, timer };
      this.#waiters.add(waiter);
    });
  }

  /** To be called after anything that may have changed a state. */
  check(): void {
    for (const waiter of this.#waiters) {
      const result = this.#judge(waiter.names);
      if (result === undefined) continue;
      this.#waiters.delete(waiter);
      waiter.timer[Symbol.dispose]();
      waiter.resolve(result);
    }
  }

  #judge(names: readonly ResourceName[]): AckResult | undefined {
    const rejected: { name: string; message: string }[] = [];
    let isWaiting = false;
    for (const resource of names) {
      const state = this.#options.stateOf(resource);
      if (state?.kind === 'rejected') rejected.push({ name: resource.name, message: state.message });
      else if (state?.kind !== 'acknowledged') isWaiting = true;
    }
    if (rejected.length > 0) return { kind: 'rejected', resources: rejected };
    return isWaiting ? undefined : { kind: 'acknowledged' };
  }

  #giveUp(names: readonly ResourceName[]): AckResult {
    const states = names.map((resource) => ({ name: resource.name, state: this.#options.stateOf(resource) }));
    if (states.some(({ state }) => state === undefined)) return { kind: 'disconnected' };
    return {
      kind: 'timeout',
      waitingFor: states.filter(({ state }) => state?.kind !== 'acknowledged').map(({ name }) => name),
    };
  }
}
