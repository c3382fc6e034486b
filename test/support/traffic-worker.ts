// The client of test/support/traffic.ts, in a pod: keeps a fixed set of streams going and counts what each of them gets.
// `node traffic-worker.ts DNS_SERVER STREAMS`; a line on stdin asks for the counts since the last one, the end of stdin ends it.
import { Resolver } from 'node:dns/promises';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StreamSpec, Tally } from './traffic.ts';

const PATIENCE_MS = 3000;
/** After a connection that was lost, before the next. */
const RECONNECT_MS = 10;

const resolver = new Resolver({ timeout: 500, tries: 1 });
resolver.setServers([process.argv[2] ?? '127.0.0.1']);
const specs = JSON.parse(process.argv[3] ?? '[]') as StreamSpec[]; // written by the tests alone
let tallies = new Map<string, Map<string, Tally>>();
let isOver = false;

const streams = specs.map((spec) => run(spec));
for await (const _ of createInterface({ input: process.stdin })) {
  const counted = tallies;
  tallies = new Map();
  const seen = Object.fromEntries([...counted].map(([name, tally]) => [name, Object.fromEntries(tally)]));
  process.stdout.write(`${JSON.stringify(seen)}\n`);
}
isOver = true;
await Promise.all(streams);
process.exit(0);

function note(name: string, answer: string): void {
  const stream = tallies.get(name) ?? new Map<string, Tally>();
  tallies.set(name, stream);
  const nowMs = Date.now();
  const before = stream.get(answer);
  stream.set(answer, { count: (before?.count ?? 0) + 1, firstMs: before?.firstMs ?? nowMs, lastMs: nowMs });
}

async function run(spec: StreamSpec): Promise<void> {
  if (spec.kind === 'tcp-long') return runLong(spec);
  const agent = new Agent({ keepAlive: spec.kind === 'http-keep', maxSockets: 1 });
  while (!isOver) {
    const begunMs = Date.now();
    note(spec.name, await once(spec, agent));
    await sleep(Math.max(1, spec.everyMs - (Date.now() - begunMs)));
  }
  agent.destroy();
}

function once(spec: StreamSpec, agent: Agent): Promise<string> {
  switch (spec.kind) {
    case 'http-keep':
    case 'http-fresh':
      return askHttp(spec, agent);
    case 'dns':
      return resolver.resolve4(spec.host).then(
        ([address]) => String(address),
        (error: unknown) => codeOf(error),
      );
    default:
      return dialTcp(spec);
  }
}

function askHttp({ host, port, authority = host }: StreamSpec, agent: Agent): Promise<string> {
  return new Promise((resolve) => {
    const headers = { host: authority };
    const call = request({ host, port, agent, headers, timeout: PATIENCE_MS }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => resolve(describeHttp(response.statusCode ?? 0, body, response.headers)));
      response.on('error', (error) => resolve(`answer cut: ${codeOf(error)}`));
    });
    call.on('timeout', () => call.destroy(new Error('silent')));
    call.on('error', (error) => resolve(`lost: ${codeOf(error)}`));
    call.end();
  });
}

function describeHttp(status: number, body: string, headers: NodeJS.Dict<string | string[]>): string {
  if (status !== 200) return `${status} ${headers['x-aether-error'] ?? body.slice(0, 60)}`;
  try {
    const { app, port } = JSON.parse(body) as { app?: string; port?: number };
    return `200 ${app}:${port}`;
  } catch {
    return `200 ${body.slice(0, 40)}`;
  }
}

// The answer is the first word that comes: `NAME:PORT` of an echo, `HELLO` and more of a server that speaks first.
function dialTcp({ host, port, kind, sends = 'ping' }: StreamSpec): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, noDelay: true });
    const finish = (answer: string): void => {
      resolve(answer);
      socket.destroy();
    };
    socket.setTimeout(PATIENCE_MS, () => finish('silent'));
    if (kind === 'tcp-fresh') socket.on('connect', () => socket.write(sends));
    socket.on('data', (bytes) => finish(describeTcp(bytes)));
    socket.on('error', (error) => finish(`lost: ${codeOf(error)}`));
    socket.on('close', () => finish('closed'));
  });
}

function describeTcp(bytes: Buffer): string {
  const text = bytes.toString().trim();
  return text.startsWith('HELLO from ') ? text.slice('HELLO from '.length) : (text.split(' ')[0] ?? '');
}

// One connection for as long as it lives; each word that is sent comes back before the next one is sent.
async function runLong(spec: StreamSpec): Promise<void> {
  while (!isOver) {
    const socket = connect({ host: spec.host, port: spec.port, noDelay: true });
    note(spec.name, await talk(socket, spec));
    socket.destroy();
    await sleep(RECONNECT_MS);
  }
}

function talk(socket: Socket, { name, everyMs }: StreamSpec): Promise<string> {
  return new Promise((resolve) => {
    let next: NodeJS.Timeout | undefined;
    const say = (): void => {
      if (isOver) resolve('end');
      else socket.write('word');
    };
    socket.setTimeout(PATIENCE_MS, () => resolve('silent'));
    socket.on('connect', say);
    socket.on('data', (bytes) => {
      note(name, describeTcp(bytes));
      clearTimeout(next);
      next = setTimeout(say, everyMs);
    });
    socket.on('error', (error) => resolve(`lost: ${codeOf(error)}`));
    socket.on('close', () => resolve('lost: closed'));
  });
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? String(error.code) : error.message;
}
