// Which services and pods are left out of what is published: one log line when one is, one when it is not any more.
import type { Log } from '../core/log.ts';
import { formatProblems } from '../core/problems.ts';
import type { LeftOut } from '../xds/build-fit-snapshot.ts';

/** `take` each new list, also an empty one: what is not on it any more is said to be back. */
export class LeftOutReport {
  readonly #log: Log;
  /** What was said last of each, by `<kind> <name>`. */
  #said = new Map<string, string>();
  #list: readonly LeftOut[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  get list(): readonly LeftOut[] {
    return this.#list;
  }

  take(list: readonly LeftOut[]): void {
    const now = new Map<string, string>();
    for (const { kind, name, problems } of list) {
      const reason = formatProblems(problems);
      now.set(`${kind} ${name}`, reason);
      if (this.#said.get(`${kind} ${name}`) !== reason)
        this.#log.error(`agent.${kind}.left_out`, { [kind]: name, reason });
    }
    for (const label of this.#said.keys()) {
      const [kind = '', name] = label.split(' ');
      if (!now.has(label)) this.#log.info(`agent.${kind}.taken_in`, { [kind]: name });
    }
    this.#said = now;
    this.#list = list;
  }
}
