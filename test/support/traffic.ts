// Continuous traffic out of a pod: streams of requests and connections that count every answer and every failure, with the
// time of the first and the last of each kind.
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { inNetns } from '../../scripts/lab/processes.ts';

/**
 * `http-keep`: requests over one kept connection. `http-fresh`, `tcp-fresh`: a connection each. `first-fresh`: the server
 * speaks first. `tcp-long`: words to and fro over one connection. `dns`: the name `host` is asked for.
 */
export type StreamKind = 'http-keep' | 'http-fresh' | 'tcp-fresh' | 'first-fresh' | 'tcp-long' | 'dns';

export interface StreamSpec {
  readonly name: string;
  readonly kind: StreamKind;
  readonly host: string;
  readonly port: number;
  /** Host header; `host` where absent. */
  readonly authority?: string;
  readonly everyMs: number;
  /** Of `tcp-fresh`: what is sent. Default `ping`, which might become HTTP. */
  readonly sends?: string;
}

export interface Tally {
  readonly count: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** Stream -> answer -> how often. An answer is `200 shop-0:8080`, `shop-0:9000`, `421 no-http-port`, `lost: ECONNRESET`, … */
export type Seen = Readonly<Record<string, Readonly<Record<string, Tally>>>>;

const WORKER = `${import.meta.dirname}/traffic-worker.ts`;

interface Waiting {
  readonly resolve: (seen: Seen) => void;
  readonly reject: (error: Error) => void;
}

/** Streams of one pod. Dispose ends them. */
export class Traffic implements Disposable {
  readonly #child: ChildProcess;
  readonly #waiting: Waiting[] = [];

  /** `dnsServer`: whom the pod asks for names. */
  constructor(netns: string, streams: readonly StreamSpec[], options: { readonly dnsServer: string }) {
    const [file, ...args] = inNetns(netns, [process.execPath, WORKER, options.dnsServer, JSON.stringify(streams)]);
    this.#child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    if (this.#child.stdout === null) throw new Error('starting traffic: the worker has no stdout');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      // Only our worker writes there.
      this.#waiting.shift()?.resolve(JSON.parse(line) as Seen);
    });
    this.#child.once('exit', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('the traffic worker ended'));
    });
  }

  /** What came since the last call. */
  take(): Promise<Seen> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#child.stdin?.write('\n');
    });
  }

  [Symbol.dispose](): void {
    this.#child.kill();
  }
}

/** Stream -> what it may get. */
export type Allowed = Readonly<Record<string, RegExp>>;

/** `shop keep: 3 x 503 (12 to 40 ms)`: what came that may not. A stream that is not named may get anything. */
export function findUnexpected(
  seen: Seen,
  allowed: Allowed,
  options: { readonly sinceMs?: number } = {},
): readonly string[] {
  const since = options.sinceMs ?? 0;
  return Object.entries(allowed).flatMap(([stream, answers]) => {
    const tallies = Object.entries(seen[stream] ?? {});
    if (tallies.length === 0) return [`${stream}: nothing came`];
    return tallies
      .filter(([answer]) => !answers.test(answer))
      .map(
        ([answer, { count, firstMs, lastMs }]) =>
          `${stream}: ${count} x ${answer} (${firstMs - since} to ${lastMs - since} ms)`,
      );
  });
}

/** `shop keep  200 shop-0:8080 x 41, 200 shop-1:8080 x 40`: one line a stream. */
export function formatSeen(seen: Seen): string {
  return Object.entries(seen)
    .map(([stream, tallies]) => {
      const counts = Object.entries(tallies).map(([answer, { count }]) => `${answer} x ${count}`);
      return `${stream}  ${counts.sort().join(', ')}`;
    })
    .join('\n');
}

/** When an answer of this kind came first; undefined: never. */
export function firstOf(seen: Seen | undefined, stream: string, answer: RegExp): number | undefined {
  const times = talliesOf(seen, stream, answer).map(({ firstMs }) => firstMs);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** When an answer of this kind came last; undefined: never. */
export function lastOf(seen: Seen | undefined, stream: string, answer: RegExp): number | undefined {
  const times = talliesOf(seen, stream, answer).map(({ lastMs }) => lastMs);
  return times.length === 0 ? undefined : Math.max(...times);
}

function talliesOf(seen: Seen | undefined, stream: string, answer: RegExp): readonly Tally[] {
  return Object.entries(seen?.[stream] ?? {}).flatMap(([text, tally]) => (answer.test(text) ? [tally] : []));
}
