// The client of a test pod, started in its namespace: `node xds-client.ts JSON`, prints one JSON array of answers.
//   { "http": {host, port, authority, path?, headers?}, "times": 1, "keep": false }   [{status, headers, body, ms}]
//   { "h2": {host, port, authority} }, one request                             [{status, headers, body, ms}]
//   { "tcp": {host, port}, "send": "", "waitMs": 2000 }                        [{got, error?, ms}]
import { Agent, request } from 'node:http';
import { connect as connectH2 } from 'node:http2';
import { connect } from 'node:net';

/** One HTTP request, repeated; `keep` uses one connection for all of them. */
export interface HttpJob {
  readonly http: {
    readonly host: string;
    readonly port: number;
    readonly authority: string;
    readonly path?: string;
    readonly headers?: Readonly<Record<string, string>>;
  };
  readonly times?: number;
  readonly keep?: boolean;
}

/** One request over HTTP/2 with prior knowledge. */
export interface H2Job {
  readonly h2: { readonly host: string; readonly port: number; readonly authority: string };
}

export interface TcpJob {
  readonly tcp: { readonly host: string; readonly port: number };
  readonly send?: string;
  readonly waitMs?: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly ms: number;
  readonly error?: string;
}

/** `got`: what came within the time; `error`: how it ended, where it did. */
export interface TcpAnswer {
  readonly got: string;
  readonly error?: string;
  readonly ms: number;
}

if (process.argv[1] === import.meta.filename) {
  const job = JSON.parse(process.argv[2] ?? '{}') as HttpJob | H2Job | TcpJob; // written by the tests alone
  const answers = 'http' in job ? await runHttp(job) : [await ('h2' in job ? runH2(job) : runTcp(job))];
  process.stdout.write(JSON.stringify(answers), () => process.exit(0));
}

async function runHttp(job: HttpJob): Promise<readonly HttpAnswer[]> {
  const agent = new Agent({ keepAlive: job.keep ?? false, maxSockets: 1 });
  const answers: HttpAnswer[] = [];
  for (let i = 0; i < (job.times ?? 1); i++) answers.push(await ask(job, agent));
  agent.destroy();
  return answers;
}

function ask({ http }: HttpJob, agent: Agent): Promise<HttpAnswer> {
  const start = performance.now();
  const failed = (error: Error): HttpAnswer => ({
    status: 0,
    headers: {},
    body: '',
    ms: performance.now() - start,
    error: error.message,
  });
  return new Promise((resolve) => {
    const headers = { host: http.authority, ...http.headers };
    const path = http.path ?? '/';
    const call = request({ host: http.host, port: http.port, path, agent, headers, timeout: 10_000 }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        body += text;
      });
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers as Record<string, string>, // the tests look at single-valued ones
          body,
          ms: performance.now() - start,
        }),
      );
    });
    call.on('timeout', () => call.destroy(new Error('no answer in 10 s')));
    call.on('error', (error) => resolve(failed(error)));
    call.end();
  });
}

function runH2({ h2 }: H2Job): Promise<HttpAnswer> {
  const start = performance.now();
  return new Promise((resolve) => {
    const failed = (error: Error): void =>
      resolve({ status: 0, headers: {}, body: '', ms: performance.now() - start, error: error.message });
    const session = connectH2(`http://${h2.host}:${h2.port}`).on('error', failed);
    const stream = session.request({ ':path': '/', ':authority': h2.authority }).on('error', failed);
    let status = 0;
    let body = '';
    stream.on('response', (headers) => {
      status = headers[':status'] ?? 0;
    });
    stream.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    stream.on('end', () => resolve({ status, headers: {}, body, ms: performance.now() - start }));
  });
}

// Ends with the first bytes, the end of the connection, or the time.
function runTcp({ tcp, send = '', waitMs = 2000 }: TcpJob): Promise<TcpAnswer> {
  const start = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ host: tcp.host, port: tcp.port, noDelay: true });
    const finish = (answer: Omit<TcpAnswer, 'ms'>): void => {
      resolve({ ...answer, ms: performance.now() - start });
      socket.destroy();
    };
    socket.setTimeout(waitMs, () => finish({ got: '', error: 'silent' }));
    socket.on('connect', () => send !== '' && socket.write(send));
    socket.on('data', (bytes) => finish({ got: bytes.toString() }));
    socket.on('error', (error: NodeJS.ErrnoException) => finish({ got: '', error: error.code ?? error.message }));
    socket.on('close', () => finish({ got: '', error: 'closed' }));
  });
}
