// A gRPC server on a unix socket of ours: never taken from an agent that is alive, never open to others than root.
import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';
import type { GuardedServer } from './guarded-server.ts';

/** sockaddr_un: 108 bytes with the final NUL. */
const SUN_PATH_MAX = 107;

export interface UnixListenerOptions {
  /** Absolute; its directory is made where it is missing. */
  readonly socketPath: string;
  /** `0o600` */
  readonly mode: number;
}

/** Binds. A socket that nobody answers on is replaced. Throws StoreError: somebody answers there, it is no socket, … */
export async function listenOnUnixSocket(
  server: GuardedServer,
  { socketPath, mode }: UnixListenerOptions,
): Promise<void> {
  const attempt = `listening on "${socketPath}"`;
  if (Buffer.byteLength(socketPath) > SUN_PATH_MAX) {
    throw new StoreError(`${attempt}: the path of a socket has ${SUN_PATH_MAX} bytes at most`);
  }
  try {
    mkdirSync(dirname(socketPath), { recursive: true });
    await removeStaleSocket(socketPath);
    await server.bind(socketPath);
    chmodSync(socketPath, mode);
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(`${attempt}: ${messageOf(error)}`, { cause: error });
  }
}

/** Removes a socket that nobody answers on; fine when absent. Throws StoreError where somebody does, or it is no socket. */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new StoreError(`listening on "${path}": something else than a socket lies there`);
  if (await isAnswered(path)) throw new StoreError(`listening on "${path}": another agent answers there`);
  rmSync(path, { force: true });
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => finish(true));
    // Anything else (a full backlog: EAGAIN) leaves open whether there is a server.
    socket.on('error', (error: NodeJS.ErrnoException) =>
      finish(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT'),
    );
  });
}
