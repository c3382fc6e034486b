// The agent's end of relay.sock: accepts root alone, keeps clients that send nothing or nonsense from disturbing others, and
// runs calls in bounded number. What a call means is the handler's business.
import { createServer, type Server, type Socket } from 'node:net';
import type { Log } from '../../core/log.ts';
import { listenOnUnixSocket } from '../host/unix-listener.ts';
import { CallQueue, type QueuedCall } from './call-queue.ts';
import {
  findDescriptor,
  type OpenView,
  type PeerCredentials,
  RelayConnection,
  type RelayHandler,
} from './relay-connection.ts';

export interface RelayLimits {
  /** From accept to the whole request. */
  readonly requestMs: number;
  /** From the answer to the peer's close. */
  readonly answerMs: number;
  /** Calls at work at once; the rest wait. */
  readonly maxRunning: number;
  /** Beyond these, calls are refused, and the relay starts the standalone program. */
  readonly maxWaiting: number;
  /** Connections without a whole request; beyond these the oldest is dropped. */
  readonly maxPending: number;
  /** How long close() waits for calls at work before it aborts them. */
  readonly closeMs: number;
}

/** `requestMs` leaves a second of the five in which a bad client must be gone. */
const DEFAULT_LIMITS: RelayLimits = {
  requestMs: 4000,
  answerMs: 4000,
  maxRunning: 64,
  maxWaiting: 1024,
  maxPending: 2048,
  closeMs: 5000,
};

export interface RelayServerOptions {
  /** 107 bytes at most; its directory is made where it is missing. */
  readonly socketPath: string;
  /** `0o600`. */
  readonly mode: number;
  readonly handle: RelayHandler;
  /** SO_PEERCRED of a connected socket. May throw: the client is dropped. */
  readonly peerCredentials: (fd: number) => PeerCredentials;
  readonly openView?: OpenView;
  readonly log: Log;
  readonly limits?: Partial<RelayLimits>;
}

export interface RelayServer extends AsyncDisposable {
  readonly socketPath: string;
  /** Refuses what waits, waits `closeMs` for what runs, aborts the rest. The socket file is gone at once. */
  close(): Promise<void>;
}

/**
 * Listens; a socket file that nobody answers on is replaced. Throws StoreError: somebody answers there, the path is
 * something else than a socket, too long, or cannot be bound.
 */
export async function createRelayServer(options: RelayServerOptions): Promise<RelayServer> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { socketPath, log } = options;
  const queue = new CallQueue(limits);
  const connections = new Set<RelayConnection>();
  const accept = acceptor({ ...options, limits, queue, connections });
  const server = createServer({ pauseOnConnect: true }, accept);
  await listenOnUnixSocket(server, options);
  server.on('error', (error) => log.error('relay.server.failed', { error: error.message }));
  log.info('relay.listening', { socketPath });

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= closeServer({ server, queue, connections, closeMs: limits.closeMs });
    return closing;
  };
  return { socketPath, close, [Symbol.asyncDispose]: close };
}

interface AcceptorOptions extends Omit<RelayServerOptions, 'limits'> {
  readonly limits: RelayLimits;
  readonly queue: CallQueue;
  readonly connections: Set<RelayConnection>;
}

function acceptor({ handle, openView, peerCredentials, log, limits, queue, connections }: AcceptorOptions) {
  // In the order of arrival; only those without a whole request.
  const pending = new Set<QueuedCall & { drop(reason: string): void }>();
  return (socket: Socket): void => {
    const peer = findPeer(socket, peerCredentials);
    if (peer?.uid !== 0) {
      log.warn('relay.client.refused', { pid: peer?.pid, uid: peer?.uid });
      socket.destroy();
      return;
    }
    const connection = new RelayConnection(socket, {
      peer,
      handle,
      openView: openView ?? (() => undefined),
      log,
      requestMs: limits.requestMs,
      answerMs: limits.answerMs,
      onRequest: (call) => {
        pending.delete(connection);
        queue.submit(call);
      },
      onClose: (call) => {
        pending.delete(connection);
        connections.delete(connection);
        queue.withdraw(call);
      },
    });
    connections.add(connection);
    pending.add(connection);
    const [oldest] = pending;
    if (pending.size > limits.maxPending) oldest?.drop('too many clients without a request');
  };
}

function findPeer(socket: Socket, peerCredentials: (fd: number) => PeerCredentials): PeerCredentials | undefined {
  const fd = findDescriptor(socket);
  if (fd === undefined) return undefined;
  try {
    return peerCredentials(fd);
  } catch {
    return undefined;
  }
}

interface CloseOptions {
  readonly server: Server;
  readonly queue: CallQueue;
  readonly connections: Set<RelayConnection>;
  readonly closeMs: number;
}

async function closeServer({ server, queue, connections, closeMs }: CloseOptions): Promise<void> {
  // Done when every connection has ended, so every answer has been written.
  const ended = new Promise<void>((resolve) => server.close(() => resolve()));
  const done = Promise.all([queue.close(), ended]);
  for (const connection of connections) connection.stopReading();
  await settleWithin(done, closeMs);
  for (const connection of connections) connection.stop();
  // A handler that does not listen to its signal is left behind.
  await settleWithin(done, closeMs);
}

async function settleWithin(promise: Promise<unknown>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([promise, expired]);
  clearTimeout(timer);
}
