// A server on a unix socket of ours: never taken from an agent that is alive, never open to others than its mode says, and
// nothing but a socket is ever removed for it.
import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { dirname } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';

/** sizeof(sockaddr_un.sun_path) - 1, sys/un.h. A longer path would be cut silently. */
const SUN_PATH_MAX = 107;
/** Bursts of a whole node's pods must fit. */
export const UNIX_BACKLOG = 4096;

export interface UnixSocketOptions {
  /** Absolute; its directory is made where it is missing. */
  readonly socketPath: string;
  /** `0o600` */
  readonly mode: number;
}

/** Listens. A socket that nobody answers on is replaced. Throws StoreError: somebody answers there, it is no socket, … */
export async function listenOnUnixSocket(server: Server, options: UnixSocketOptions): Promise<void> {
  await bindUnixSocket(options, () => listen(server, options.socketPath));
}

/**
 * The same where `bind` makes the socket, open to nobody else in the moment before it has its mode. Gives what removes the
 * file, once and only if it is still that one. Throws StoreError.
 */
export async function bindUnixSocket(
  { socketPath, mode }: UnixSocketOptions,
  bind: () => void | Promise<void>,
): Promise<() => void> {
  const attempt = `listening on "${socketPath}"`;
  if (Buffer.byteLength(socketPath) > SUN_PATH_MAX) {
    throw new StoreError(`${attempt}: the path of a socket has ${SUN_PATH_MAX} bytes at most`);
  }
  try {
    mkdirSync(dirname(socketPath), { recursive: true });
    await removeStaleSocket(socketPath);
    await bind();
    chmodSync(socketPath, mode);
    const own = lstatSync(socketPath);
    return () => {
      const found = lstatSync(socketPath, { throwIfNoEntry: false });
      if (found?.ino === own.ino && found.dev === own.dev) rmSync(socketPath, { force: true });
    };
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError(`${attempt}: ${messageOf(error)}`, { cause: error });
  }
}

// Nobody may connect in the moment between bind and chmod. The file is made before `listen` returns: the umask is the whole
// process's, and must not be another's while this waits.
function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    const umask = process.umask(0o177);
    try {
      server.listen({ path, backlog: UNIX_BACKLOG }, () => {
        server.removeListener('error', reject);
        resolve();
      });
    } finally {
      process.umask(umask);
    }
  });
}

/** Removes a socket that nobody answers on; fine when absent. Throws StoreError where somebody does, or it is no socket. */
export async function removeStaleSocket(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new StoreError(`listening on "${path}": something else than a socket lies there`);
  if (await isAnswered(path)) {
    throw new StoreError(`listening on "${path}": another agent answers there; end it, or give this one other sockets`);
  }
  rmSync(path, { force: true });
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path });
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => finish(true));
    // Anything else (a full backlog: EAGAIN) leaves open whether there is a server.
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code !== 'EACCES') return finish(code !== 'ECONNREFUSED' && code !== 'ENOENT');
      reject(
        new StoreError(`listening on "${path}": EACCES: the socket there is not ours to use; run the agent as root`),
      );
    });
  });
}
