// The listener of native/relay-listener.h as JavaScript has it: connections by their descriptors, told of and answered on the
// event loop.

/** `enum relay_event`; 3 is left: the peer has gone, or has its answer. */
export const EVENT_REQUEST = 0;
export const EVENT_REFUSED = 1;
export const EVENT_DROPPED = 2;
export const EVENT_FAILED = 4;

/** `enum relay_answered`: the last two of three; 0: it is with the kernel, and the connection has ended. */
export const ANSWER_GOES_ON = 1;
export const ANSWER_UNWANTED = 2;

/**
 * `text`: stdin of a request, as bytes where it is not ASCII alone; why a client was dropped, what lets nobody in. The others, of a
 * request: its variables, undefined where it has none. The connection is
 * the receiver's from EVENT_REQUEST until EVENT_DROPPED or 3 is told of it, or a call has ended it.
 */
export type OnRelayEvent = (
  event: number,
  fd: number,
  pid: number,
  uid: number,
  gid: number,
  text: string | Uint8Array,
  command: string | undefined,
  containerId: string | undefined,
  netns: string | undefined,
  ifname: string | undefined,
  args: string | undefined,
) => void;

export interface RelayListenOptions {
  readonly socketPath: string;
  /** Less what the umask takes. */
  readonly mode: number;
  readonly backlog: number;
  readonly requestMs: number;
  readonly answerMs: number;
  readonly maxPending: number;
  readonly onEvent: OnRelayEvent;
}

export interface RelayListener {
  /** Marks a call as taken. False: its peer has gone, it may not be acted on; the connection has ended. */
  take(fd: number): boolean;
  /** From now on what the peer does is told at once. */
  watch(fd: number): void;
  /** Sends so many bytes and ends the connection, at once or (ANSWER_GOES_ON) when the peer has taken all. */
  answer(fd: number, bytes: Uint8Array, length: number): number;
  /** Ends the connection. */
  drop(fd: number): void;
  /** Accepts nobody, and ends connections without a request. The process may end when no connection is left. */
  stop(): void;
}

/** Listens. Throws where the path cannot be bound. */
export type ListenRelay = (options: RelayListenOptions) => RelayListener;

/** What native/relay-addon.c exports; the first argument is what relayListen() gave. */
export interface RelayAddon {
  relayListen(
    ...args: [
      path: string,
      mode: number,
      backlog: number,
      request: number,
      answer: number,
      pending: number,
      OnRelayEvent,
    ]
  ): unknown;
  relayTake(listener: unknown, fd: number): number;
  relayWatch(listener: unknown, fd: number): void;
  relayAnswer(listener: unknown, fd: number, bytes: Uint8Array, length: number): number;
  relayDrop(listener: unknown, fd: number): void;
  relayStop(listener: unknown): void;
}

/** Types over the addon. */
export function relayListenerOf(addon: RelayAddon): ListenRelay {
  return ({ socketPath, mode, backlog, requestMs, answerMs, maxPending, onEvent }) => {
    const listener = addon.relayListen(socketPath, mode, backlog, requestMs, answerMs, maxPending, onEvent);
    return {
      take: (fd) => addon.relayTake(listener, fd) === 1,
      watch: (fd) => addon.relayWatch(listener, fd),
      answer: (fd, bytes, length) => addon.relayAnswer(listener, fd, bytes, length),
      drop: (fd) => addon.relayDrop(listener, fd),
      stop: () => addon.relayStop(listener),
    };
  };
}
