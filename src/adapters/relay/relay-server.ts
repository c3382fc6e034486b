// The agent's end of relay.sock: accepts root alone, keeps clients that send nothing or nonsense from disturbing others, and
// runs calls in bounded number. What a call means is the handler's business.
import type { Log } from '../../core/log.ts';
import { bindUnixSocket, UNIX_BACKLOG } from '../host/unix-listener.ts';
import { CallQueue } from './call-queue.ts';
import {
  type ConnectionOptions,
  type OpenView,
  RelayConnection,
  type RelayHandler,
  type RelayRequest,
} from './relay-connection.ts';
import {
  EVENT_DROPPED,
  EVENT_FAILED,
  EVENT_REFUSED,
  EVENT_REQUEST,
  type ListenRelay,
  type OnRelayEvent,
} from './relay-listener.ts';

export interface RelayLimits {
  /** From accept to the whole request. */
  readonly requestMs: number;
  /** For the peer to take an answer that its socket does not hold. */
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
  readonly listen: ListenRelay;
  readonly handle: RelayHandler;
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
  const { socketPath, mode, log } = options;
  const service = new RelayService(options);
  const unlink = await bindUnixSocket({ socketPath, mode }, () => service.listen());
  log.info('relay.listening', { socketPath });
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    if (closing === undefined) {
      unlink();
      closing = service.close();
    }
    return closing;
  };
  return { socketPath, close, [Symbol.asyncDispose]: close };
}

class RelayService {
  readonly #options: RelayServerOptions;
  readonly #limits: RelayLimits;
  readonly #queue: CallQueue;
  readonly #connections = new Map<number, RelayConnection>();
  readonly #ended = Promise.withResolvers<void>();
  /** Once it listens. */
  #connectionOptions: ConnectionOptions | undefined;
  #isClosing = false;

  constructor(options: RelayServerOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#queue = new CallQueue(this.#limits);
  }

  listen(): void {
    const { socketPath, mode, listen, handle, log, openView = () => undefined } = this.#options;
    const { requestMs, answerMs, maxPending } = this.#limits;
    const bounds = { requestMs, answerMs, maxPending, backlog: UNIX_BACKLOG };
    const listener = listen({ socketPath, mode, ...bounds, onEvent: this.#onEvent });
    this.#connectionOptions = { listener, handle, openView, log, onClose: this.#onClose };
  }

  /** Done when every connection has ended, so every answer has been taken. */
  async close(): Promise<void> {
    const { closeMs } = this.#limits;
    this.#isClosing = true;
    this.#connectionOptions?.listener.stop();
    const done = Promise.all([this.#queue.close(), this.#ended.promise]);
    this.#endWhereNobodyIsLeft();
    await settleWithin(done, closeMs);
    for (const connection of this.#connections.values()) connection.stop();
    // A handler that does not listen to its signal is left behind.
    await settleWithin(done, closeMs);
  }

  readonly #onEvent: OnRelayEvent = (event, fd, pid, uid, gid, text, command, containerId, netns, ifname, args) => {
    if (event === EVENT_REQUEST) {
      const env = {
        CNI_COMMAND: command,
        CNI_CONTAINERID: containerId,
        CNI_NETNS: netns,
        CNI_IFNAME: ifname,
        CNI_ARGS: args,
      };
      return this.#take({ fd, peer: { pid, uid, gid }, env, stdin: text });
    }
    const { log } = this.#options;
    if (event === EVENT_REFUSED) return log.warn('relay.client.refused', { pid, uid });
    if (event === EVENT_FAILED) return log.error('relay.server.failed', { error: `accept: ${text}` });
    if (event === EVENT_DROPPED) log.warn('relay.client.dropped', { reason: text, pid });
    this.#connections.get(fd)?.markClosed();
  };

  #take(request: RelayRequest): void {
    if (this.#connectionOptions === undefined) return;
    const connection = new RelayConnection(request, this.#connectionOptions);
    this.#connections.set(request.fd, connection);
    this.#queue.submit(connection);
    connection.watchWhileWaiting();
  }

  readonly #onClose = (connection: RelayConnection): void => {
    this.#connections.delete(connection.fd);
    this.#queue.withdraw(connection);
    this.#endWhereNobodyIsLeft();
  };

  #endWhereNobodyIsLeft(): void {
    if (this.#isClosing && this.#connections.size === 0) this.#ended.resolve();
  }
}

async function settleWithin(promise: Promise<unknown>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([promise, expired]);
  clearTimeout(timer);
}
