// Real packets inside a test's namespace: a program that listens in places, dials others, and says who answered. Run
// by probe(), below, as a process of its own in the namespace.
import { execFileSync } from 'node:child_process';
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, isIP, type Server } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { TestNetns } from './netns.ts';

export interface Endpoint {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
}

/** `answer`: which listener answered, `127.0.0.1:18001`; or an error's code, or `silence`. */
export interface DialResult {
  readonly answer: string;
  readonly elapsedMs: number;
}

const SILENCE_MS = 1000;

/** Every listener answers with its own address and port. Results are in the order of `dial`. */
export function probe(
  netns: TestNetns,
  plan: { readonly listen: readonly Endpoint[]; readonly dial: readonly Endpoint[] },
): readonly DialResult[] {
  const command = ['netns', 'exec', netns.name, process.execPath, fileURLToPath(import.meta.url)];
  const output = execFileSync('ip', command, { input: JSON.stringify(plan), encoding: 'utf8' });
  return JSON.parse(output) as DialResult[];
}

function format({ address, port }: Endpoint): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`;
}

async function listenTcp(endpoint: Endpoint): Promise<Server> {
  const server = createServer((socket) => socket.end(format(endpoint)).on('error', () => undefined));
  server.listen(endpoint.port, endpoint.address);
  await once(server, 'listening');
  return server;
}

async function listenUdp(endpoint: Endpoint): Promise<UdpSocket> {
  const socket = createSocket(isIP(endpoint.address) === 6 ? 'udp6' : 'udp4');
  socket.on('message', (_, from) => socket.send(format(endpoint), from.port, from.address));
  socket.bind(endpoint.port, endpoint.address);
  await once(socket, 'listening');
  return socket;
}

function dialTcp({ address, port }: Endpoint): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    let text = '';
    socket.setTimeout(SILENCE_MS, () => {
      resolve('silence');
      socket.destroy();
    });
    socket.on('data', (chunk) => {
      text += chunk.toString();
    });
    socket.on('end', () => resolve(text));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'));
  });
}

function dialUdp({ address, port }: Endpoint): Promise<string> {
  return new Promise((resolve) => {
    const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4');
    const finish = (answer: string) => {
      clearTimeout(timer);
      socket.close();
      resolve(answer);
    };
    const timer = setTimeout(finish, SILENCE_MS, 'silence');
    socket.on('message', (message) => finish(message.toString()));
    socket.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? 'error'));
    socket.connect(port, address, () => socket.send('hello'));
  });
}

async function main(): Promise<void> {
  const plan = JSON.parse(readFileSync(0, 'utf8')) as { listen: Endpoint[]; dial: Endpoint[] };
  const listeners = await Promise.all(
    plan.listen.map((endpoint) => (endpoint.protocol === 'tcp' ? listenTcp(endpoint) : listenUdp(endpoint))),
  );
  const results: DialResult[] = [];
  for (const endpoint of plan.dial) {
    const start = performance.now();
    const answer = await (endpoint.protocol === 'tcp' ? dialTcp(endpoint) : dialUdp(endpoint));
    results.push({ answer, elapsedMs: performance.now() - start });
  }
  for (const listener of listeners) listener.close();
  console.log(JSON.stringify(results));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
