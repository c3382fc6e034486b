// Binding a unix socket where an earlier run may have left its file: one server at a path, and nobody's else removed.
import { chmodSync, lstatSync, mkdirSync, rmSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { dirname } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';

/** sizeof(sockaddr_un.sun_path) - 1, sys/un.h. A longer path would be cut silently. */
const SUN_PATH_MAX = 107;

/**
 * Listens at `socketPath` with `mode`, replacing a socket file that nobody answers on; its directory is made where it is
 * missing. Throws StoreError: somebody answers there, the path is something else than a socket, too long, or cannot be bound.
 */
export async function listenOnUnixSocket(
  server: Server,
  { socketPath, mode }: { readonly socketPath: string; readonly mode: number },
): Promise<void> {
  if (Buffer.byteLength(socketPath) > SUN_PATH_MAX) {
    throw new StoreError(`listen on "${socketPath}": the path of a socket has ${SUN_PATH_MAX} bytes at most`);
  }
  try {
    mkdirSync(dirname(socketPath), { recursive: true });
    await removeStale(socketPath);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ path: socketPath, backlog: 4096 }, () => {
        server.removeListener('error', reject);
        resolve();
      });
      // Bound already, and nobody was accepted yet.
      if (server.listening) chmodSync(socketPath, mode);
    });
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw new StoreError(`listen on "${socketPath}": ${messageOf(cause)}`, { cause });
  }
}

// Removes a socket file whose server is gone; nothing else is ever removed.
async function removeStale(socketPath: string): Promise<void> {
  const stats = lstatSync(socketPath, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isSocket()) throw new StoreError(`listen on "${socketPath}": it exists and is no socket`);
  if ((await tryConnect(socketPath)) !== 'ECONNREFUSED') {
    throw new StoreError(`listen on "${socketPath}": another process answers there`);
  }
  rmSync(socketPath, { force: true });
}

// Undefined: connected. Anything but ECONNREFUSED (a full backlog: EAGAIN) leaves open whether there is a server.
function tryConnect(socketPath: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once('connect', () => {
      socket.destroy();
      resolve(undefined);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}
