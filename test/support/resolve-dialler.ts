// The client of the agreement test, run inside a pod's namespace: `node resolve-dialler.ts FILE`, where FILE holds a JSON
// list of jobs. Prints the list of what each saw. Every dial binds a source port of its own: Envoy's log names it.
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';

/** `sendHex`: what is sent when the connection is there, after `delayMs`. */
export interface DialJob {
  readonly host: string;
  readonly port: number;
  readonly sourcePort: number;
  readonly sendHex: string;
  readonly delayMs: number;
}

/** `end`: an errno, `closed` by the other side, or `open` still when the time was up. `ms`: until the first bytes or the end. */
export interface DialReport {
  readonly text: string;
  readonly end: string;
  readonly isConnected: boolean;
  readonly ms: number;
}

const PARALLEL = 128;
/** Nothing that is in order takes so long. */
const PATIENCE_MS = 20_000;

if (process.argv[1] === import.meta.filename) {
  const jobs = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as readonly DialJob[]; // written by the test alone
  const reports: DialReport[] = [];
  const queue = [...jobs.entries()];
  // Those that wait cost nothing but time: all of them at once. The others a few at a time.
  const quiet = queue.filter(([, job]) => job.delayMs > 0);
  const others = queue.filter(([, job]) => job.delayMs === 0);
  const run = async ([index, job]: readonly [number, DialJob]): Promise<void> => {
    reports[index] = await dial(job);
  };
  const work = async (): Promise<void> => {
    for (let next = others.shift(); next !== undefined; next = others.shift()) await run(next);
  };
  await Promise.all([...quiet.map(run), ...Array.from({ length: PARALLEL }, work)]);
  process.stdout.write(JSON.stringify(reports), () => process.exit(0));
}

// Ends with a whole answer, the end of the connection, or the time.
function dial(job: DialJob): Promise<DialReport> {
  const start = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ host: job.host, port: job.port, localPort: job.sourcePort, noDelay: true });
    let text = '';
    let isConnected = false;
    let firstMs: number | undefined;
    const timer = setTimeout(() => finish('open'), PATIENCE_MS);
    const finish = (end: string): void => {
      clearTimeout(timer);
      resolve({ text, end, isConnected, ms: firstMs ?? performance.now() - start });
      // At once and for good: no TIME_WAIT, and Envoy writes its log line now.
      socket.resetAndDestroy();
    };
    socket.on('connect', () => {
      isConnected = true;
      const send = (): unknown => socket.writable && socket.write(Buffer.from(job.sendHex, 'hex'));
      if (job.delayMs === 0) send();
      else setTimeout(send, job.delayMs);
    });
    socket.on('data', (bytes) => {
      firstMs ??= performance.now() - start;
      text += bytes.toString();
      if (isWhole(text)) finish('answered');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message));
    socket.on('close', () => finish('closed'));
  });
}

// An application's answer holds one JSON object without nesting; Envoy's own answers end with the connection.
function isWhole(text: string): boolean {
  return /\{"app":[^{}]*\}/.test(text);
}
