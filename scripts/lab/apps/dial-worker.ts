// The client of a lab pod: reads one Dial a line on stdin, answers one DialReport a line, in order, until stdin ends.
// Started inside the pod's namespace; `node dial-worker.ts DNS_SERVER`.
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { createInterface } from 'node:readline';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Dial, DialOutcome, DialReport } from '../dial.ts';

type Result = Omit<DialReport, 'ms' | 'dnsMs' | 'address'>;
type Stream = ReturnType<typeof connect> | TLSSocket;

/** Once bytes came, how long to wait for the rest of them. */
const QUIET_MS = 30;

const resolver = new Resolver({ timeout: 1000, tries: 2 });
resolver.setServers([process.argv[2] ?? '127.0.0.1']);

for await (const line of createInterface({ input: process.stdin })) {
  // Lines come from the lab alone, which writes Dials.
  process.stdout.write(`${JSON.stringify(await report(JSON.parse(line) as Dial))}\n`);
}

async function report(dial: Dial): Promise<DialReport> {
  const begin = performance.now();
  let address: string | undefined;
  try {
    address = await resolve(dial);
  } catch (error) {
    return { outcome: 'unresolved', ms: 0, dnsMs: since(begin), error: codeOf(error) };
  }
  const dnsMs = since(begin);
  const start = performance.now();
  const result = dial.kind === 'udp' ? await dialUdp(dial, address) : await dialStream(dial, address);
  return { ms: since(start), dnsMs, address, ...result };
}

async function resolve(dial: Dial): Promise<string> {
  if (isIP(dial.host) !== 0) return dial.host;
  const [address] = await (dial.family === 6 ? resolver.resolve6(dial.host) : resolver.resolve4(dial.host));
  if (address === undefined) throw new Error('no address');
  return address;
}

function dialStream(dial: Dial, address: string): Promise<Result & { ms?: number }> {
  return new Promise((resolve) => {
    const start = performance.now();
    const socket = open(dial, address);
    let connected = false;
    let firstMs: number | undefined;
    let received = Buffer.alloc(0);
    let quiet: NodeJS.Timeout | undefined;
    const limit = setTimeout(() => finish('silent'), dial.timeoutMs);
    const finish = (outcome: DialOutcome, error?: string) => {
      clearTimeout(limit);
      clearTimeout(quiet);
      socket.destroy();
      if (received.length > 0) resolve({ ms: firstMs ?? 0, ...answer(dial, received) });
      else resolve({ outcome, ...(error === undefined ? {} : { error }), afterConnect: connected });
    };
    socket.on(dial.kind === 'tls' ? 'secureConnect' : 'connect', () => {
      connected = true;
      const bytes = payload(dial);
      if (bytes !== undefined) socket.write(bytes);
    });
    socket.on('data', (chunk: Buffer) => {
      firstMs ??= since(start);
      received = Buffer.concat([received, chunk]);
      clearTimeout(quiet);
      quiet = setTimeout(() => finish('answered'), QUIET_MS);
    });
    socket.on('error', (error) => finish(outcomeOf(codeOf(error)), codeOf(error)));
    socket.on('close', () => finish('closed'));
  });
}

function open(dial: Dial, address: string): Stream {
  if (dial.kind !== 'tls') return connect({ host: address, port: dial.port, noDelay: true });
  return connectTls({
    host: address,
    port: dial.port,
    rejectUnauthorized: false,
    ...(dial.serverName === undefined ? {} : { servername: dial.serverName }),
    ...(dial.alpn === undefined ? {} : { ALPNProtocols: [...dial.alpn] }),
    ...dial.certificate,
  });
}

function payload(dial: Dial): string | undefined {
  if (dial.kind !== 'http') return dial.text;
  const authority = dial.authority ?? (dial.port === 80 ? dial.host : `${dial.host}:${dial.port}`);
  return `GET / HTTP/1.1\r\nHost: ${authority}\r\nUser-Agent: lab\r\nConnection: close\r\n\r\n`;
}

function answer(dial: Dial, received: Buffer): Result {
  const text = received.subarray(0, 4096).toString();
  const match = /^HTTP\/1\.[01] ([0-9]{3})/.exec(text);
  if (dial.kind !== 'http' || match === null) return { outcome: 'answered', text };
  const [head = '', ...body] = text.split('\r\n\r\n');
  const headers = Object.fromEntries(
    head
      .split('\r\n')
      .slice(1)
      .map((line) => /^([^:]+):\s*(.*)$/.exec(line) ?? [])
      .map(([, key = '', value = '']) => [key.toLowerCase(), value]),
  );
  return { outcome: 'answered', status: Number(match[1]), headers, text: body.join('\r\n\r\n') };
}

function dialUdp(dial: Dial, address: string): Promise<Result> {
  return new Promise((resolve) => {
    const socket = createSocket(dial.family === 6 ? 'udp6' : 'udp4');
    const finish = (result: Result) => {
      clearTimeout(limit);
      socket.close();
      resolve(result);
    };
    const limit = setTimeout(() => finish({ outcome: 'silent' }), dial.timeoutMs);
    socket.on('error', (error) => finish({ outcome: outcomeOf(codeOf(error)), error: codeOf(error) }));
    socket.on('message', (bytes) => finish({ outcome: 'answered', text: bytes.toString() }));
    // A connected socket is told of ICMP errors.
    socket.connect(dial.port, address, () => socket.send(dial.text ?? ''));
  });
}

function outcomeOf(code: string): DialOutcome {
  if (code === 'ECONNREFUSED' || code === 'ECONNRESET' || code === 'EPIPE') return 'refused';
  if (code === 'EHOSTUNREACH' || code === 'ENETUNREACH' || code === 'EACCES') return 'unreachable';
  return 'failed';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}

function since(start: number): number {
  return Math.round((performance.now() - start) * 10) / 10;
}
