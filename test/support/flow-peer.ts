// A program inside a test's namespace that keeps its sockets from one step of a test to the next: servers that say who they
// are, UDP sockets and TCP connections from fixed ports. Started by startPeer(), driven by one JSON line a command.
import { spawn } from 'node:child_process';
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, isIP, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { TestNetns } from './netns.ts';

export interface Place {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
}

type Command =
  | ({ readonly kind: 'listen' } & Place)
  /** UDP sends from the port; TCP connects once, and says more on the same connection while it lives. */
  | ({ readonly kind: 'ask'; readonly from: number; readonly sizeBytes?: number } & Place)
  | { readonly kind: 'close'; readonly protocol: 'tcp' | 'udp'; readonly from: number };

export interface Peer {
  /** Answers whatever is said with its own name, `udp 127.0.0.1:18001`, and the size of what it heard. */
  listen(place: Place): Promise<void>;
  /** `udp 127.0.0.1:18001 heard 5, from 10.9.0.1:18081`; or an error's code; or `silence`. */
  ask(place: Place, options: { readonly from: number; readonly sizeBytes?: number }): Promise<string>;
  /** Closes the socket of that port; a TCP connection is reset. */
  close(protocol: 'tcp' | 'udp', from: number): Promise<void>;
}

const SILENCE_MS = 400;

/** Lives until the test ends. */
export function startPeer(t: { teardown(fn: () => unknown): unknown }, netns: TestNetns): Peer {
  const command = ['netns', 'exec', netns.name, process.execPath, fileURLToPath(import.meta.url)];
  const child = spawn('ip', command, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const answers = createInterface(child.stdout)[Symbol.asyncIterator]();
  let turn: Promise<unknown> = Promise.resolve();
  const run = (order: Command): Promise<string> => {
    const answer = turn.then(async () => {
      child.stdin.write(`${JSON.stringify(order)}\n`);
      const { value, done } = await answers.next();
      if (done === true) throw new Error(`the peer in ${netns.name} has ended`);
      return JSON.parse(value) as string;
    });
    turn = answer.catch(() => undefined);
    return answer;
  };
  return {
    listen: async (place) => void (await run({ kind: 'listen', ...place })),
    ask: (place, options) => run({ kind: 'ask', ...place, ...options }),
    close: async (protocol, from) => void (await run({ kind: 'close', protocol, from })),
  };
}

const name = (address: string, port: number) => (isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`);

class PeerProgram {
  readonly #udp = new Map<number, UdpSocket>();
  readonly #tcp = new Map<number, Socket>();

  async run(command: Command): Promise<string> {
    switch (command.kind) {
      case 'listen':
        return this.#listen(command);
      case 'ask':
        return command.protocol === 'udp' ? this.#askUdp(command) : this.#askTcp(command);
      case 'close':
        return this.#close(command);
    }
  }

  async #listen({ protocol, address, port }: Place): Promise<string> {
    const says = (sizeBytes: number) => `${protocol} ${name(address, port)} heard ${sizeBytes}`;
    if (protocol === 'udp') {
      const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4');
      socket.on('message', (message, from) => socket.send(says(message.length), from.port, from.address));
      socket.bind(port, address);
      await once(socket, 'listening');
    } else {
      const server = createServer((socket) => {
        socket.on('data', (chunk) => socket.write(says(chunk.length))).on('error', () => undefined);
      });
      server.listen(port, address);
      await once(server, 'listening');
    }
    return 'listening';
  }

  async #askUdp({ address, port, from, sizeBytes = 5 }: Place & { from: number; sizeBytes?: number }): Promise<string> {
    let socket = this.#udp.get(from);
    if (socket === undefined) {
      socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4');
      this.#udp.set(from, socket);
      socket.on('error', () => undefined);
      socket.bind(from);
      await once(socket, 'listening');
    }
    const answer = once(socket, 'message', { signal: AbortSignal.timeout(SILENCE_MS) });
    socket.send(Buffer.alloc(sizeBytes), port, address);
    try {
      const [message, by] = await answer;
      return `${message}, from ${name(by.address, by.port)}`;
    } catch (error) {
      return codeOf(error);
    }
  }

  async #askTcp({ address, port, from, sizeBytes = 5 }: Place & { from: number; sizeBytes?: number }): Promise<string> {
    try {
      let socket = this.#tcp.get(from);
      if (socket === undefined) {
        socket = connect({ host: address, port, localPort: from });
        await once(socket, 'connect', { signal: AbortSignal.timeout(SILENCE_MS) });
        this.#tcp.set(from, socket);
      }
      const answer = once(socket, 'data', { signal: AbortSignal.timeout(SILENCE_MS) });
      socket.write(Buffer.alloc(sizeBytes));
      const [message] = await answer;
      return `${message}, from ${name(socket.remoteAddress ?? '', socket.remotePort ?? 0)}`;
    } catch (error) {
      this.#tcp.get(from)?.destroy();
      this.#tcp.delete(from);
      return codeOf(error);
    }
  }

  async #close({ protocol, from }: { protocol: 'tcp' | 'udp'; from: number }): Promise<string> {
    if (protocol === 'udp') this.#udp.get(from)?.close();
    else this.#tcp.get(from)?.resetAndDestroy();
    this.#udp.delete(from);
    this.#tcp.delete(from);
    return 'closed';
  }
}

function codeOf(error: unknown): string {
  const { code, name: kind } = error as NodeJS.ErrnoException;
  return kind === 'AbortError' ? 'silence' : (code ?? String(error));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const program = new PeerProgram();
  for await (const line of createInterface(process.stdin)) {
    console.log(JSON.stringify(await program.run(JSON.parse(line) as Command)));
  }
}
