// The lab's end of a dial worker: hands it one Dial at a time and gets its report.
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Dial, DialReport } from './dial.ts';
import { inNetns } from './processes.ts';

const WORKER = `${import.meta.dirname}/apps/dial-worker.ts`;

/** A client in a namespace. Dials given at the same time are made one after the other. Dispose ends the worker. */
export class DialClient implements Disposable {
  readonly #child: ChildProcess;
  readonly #waiting: ((report: DialReport) => void)[] = [];

  /** `dnsServer`: whom the client asks for names, as its resolv.conf would say. */
  constructor(netns: string | undefined, dnsServer: string) {
    const [file, ...args] = inNetns(netns, [process.execPath, WORKER, dnsServer]);
    this.#child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    if (this.#child.stdout === null) throw new Error('starting a dial worker: it has no stdout');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      // Only our worker writes there, and only reports.
      this.#waiting.shift()?.(JSON.parse(line) as DialReport);
    });
    this.#child.once('exit', () => this.#failAll());
  }

  dial(dial: Dial): Promise<DialReport> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#child.stdin?.write(`${JSON.stringify(dial)}\n`);
    });
  }

  [Symbol.dispose](): void {
    this.#child.kill();
  }

  #failAll(): void {
    for (const resolve of this.#waiting.splice(0)) {
      resolve({ outcome: 'failed', ms: 0, dnsMs: 0, error: 'the dial worker ended' });
    }
  }
}
