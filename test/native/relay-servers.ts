// What an installed relay may find at its socket: the real server, a server that misbehaves, the agent as a process.
import { spawn } from 'node:child_process';
import { createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { RelayHandler } from '../../src/adapters/relay/relay-connection.ts';
import { createRelayServer, type RelayServerOptions } from '../../src/adapters/relay/relay-server.ts';
import { recordLog, until } from '../adapters/relay/relay-world.ts';
import { openNative } from '../support/native.ts';
import type { Installed } from './relay-program.ts';

/** Starts the real server for an installed relay. */
export function serve({ socketPath }: Installed, handle: RelayHandler, more: Partial<RelayServerOptions> = {}) {
  const listen = openNative().listenRelay;
  return createRelayServer({ socketPath, mode: 0o600, listen, handle, log: recordLog(), ...more });
}

/** A server that does with a connection what it is told, once the first bytes are there. */
export async function serveRaw({ socketPath }: Pick<Installed, 'socketPath'>, behave: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => behave(socket));
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return {
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** The agent as a process, and what it said. */
export async function startAgent(socketPath: string) {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.resolve('./relay-agent-process.ts')), socketPath], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  child.stdout.on('data', (chunk: Buffer) => lines.push(...chunk.toString().trimEnd().split('\n')));
  const ended = new Promise<void>((resolve) => child.on('close', () => resolve()));
  await until(() => lines.includes('ready'));
  return {
    lines,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
