// One call of a relay, from its whole request on: waits for its turn, marks the call as taken, answers. The marker is what makes
// a lost connection safe: a call is acted on only after the kernel took the marker for a peer that is still there, so a relay
// that has seen none may do the call another way.
import { Buffer } from 'node:buffer';
import type { Environment } from '../../cni/environment.ts';
import { formatErrorObject, toErrorObject } from '../../cni/error-object.ts';
import { encodeAnswer, encodeAnswerInto, MARKER_REFUSED, type RelayAnswer } from '../../cni/relay-frame.ts';
import { AgentError, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { QueuedCall } from './call-queue.ts';
import { ANSWER_GOES_ON, ANSWER_UNWANTED, type RelayListener } from './relay-listener.ts';

/** By the kernel's word, as they were when it connected. `pid` is 0 for a process outside our pid namespace. */
export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

/** A CNI call as the started program got it. */
export interface RelayCall {
  readonly env: Environment;
  /** Text where it is ASCII alone. */
  readonly stdin: string | Uint8Array;
  readonly peer: PeerCredentials;
  /** What `openView` gave; closed when the call is over. */
  readonly view: CallView | undefined;
  /**
   * Aborted (reason: AgentError `unavailable`) when an ADD is no longer wanted: its container is being deleted or the
   * runtime gave up; and for every call that outlives the server. Whoever honours it undoes what was done. Made for whoever
   * asks.
   */
  readonly signal: AbortSignal;
  /** As that of the signal, without making one. */
  throwIfAborted(): void;
}

/** The caller's view of the file system: its path of a network namespace -> a path that says so to the kernel adapter. */
export interface CallView extends Disposable {
  resolve(path: string): string;
}

/**
 * Opens what a call needs of its caller; undefined: nothing. Throws where that is not to be had: the call is refused then,
 * before anything is done, and the relay does it the other way.
 */
export type OpenView = (call: Pick<RelayCall, 'env' | 'peer'> & { readonly socketFd: number }) => CallView | undefined;

export type RelayHandler = (call: RelayCall) => Promise<RelayAnswer>;

export interface ConnectionOptions {
  readonly listener: RelayListener;
  readonly handle: RelayHandler;
  readonly openView: OpenView;
  readonly log: Log;
  /** Once, however it ended. */
  readonly onClose: (connection: RelayConnection) => void;
}

/** What the listener told. */
export interface RelayRequest {
  readonly fd: number;
  readonly peer: PeerCredentials;
  readonly env: Environment;
  readonly stdin: string | Uint8Array;
}

const REFUSED = Buffer.of(MARKER_REFUSED);
// Every answer of usual length is put here and sent from here, in one go.
const ANSWER_ROOM = Buffer.alloc(16 * 1024);

/** Owns the connection until `onClose`. */
export class RelayConnection implements QueuedCall, RelayCall {
  readonly verb: string;
  readonly containerId: string;
  readonly fd: number;
  readonly peer: PeerCredentials;
  readonly env: Environment;
  readonly stdin: string | Uint8Array;
  view: CallView | undefined;
  readonly #options: ConnectionOptions;
  #phase: 'waiting' | 'running' | 'answered' = 'waiting';
  #isOpen = true;
  #isMarked = false;
  #abort: AbortController | undefined;
  #abortReason: AgentError | undefined;

  constructor({ fd, peer, env, stdin }: RelayRequest, options: ConnectionOptions) {
    this.verb = env['CNI_COMMAND'] ?? '';
    this.containerId = env['CNI_CONTAINERID'] ?? '';
    this.fd = fd;
    this.peer = peer;
    this.env = env;
    this.stdin = stdin;
    this.#options = options;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#abortReason !== undefined) this.#abort.abort(this.#abortReason);
    }
    return this.#abort.signal;
  }

  throwIfAborted(): void {
    if (this.#abortReason !== undefined) throw this.#abortReason;
  }

  async start(): Promise<void> {
    if (this.#phase !== 'waiting') return;
    this.#phase = 'running';
    if (!this.#openView()) return;
    using _view = this.view;
    // STATUS does nothing that could not be done twice: its marker comes with the answer, and wakes nobody before.
    if (this.verb !== 'STATUS' && !this.#take()) return;
    try {
      this.#answer(await this.#options.handle(this));
    } catch (thrown) {
      this.#options.log.error('relay.call.failed', { verb: this.verb, containerId: this.containerId, error: thrown });
      this.#fail(thrown);
    }
  }

  /** It was not started at once: what its peer does meanwhile is worth knowing. */
  watchWhileWaiting(): void {
    if (this.#phase === 'waiting' && this.#isOpen) this.#options.listener.watch(this.fd);
  }

  cancel(): void {
    const reason = new AgentError('unavailable', `${this.verb}: given up, the container is being deleted`);
    if (this.#phase === 'running') this.#abortWith(reason);
    if (this.#phase !== 'waiting') return;
    // Not refused: the relay would then do the ADD by itself, after the DEL.
    this.#phase = 'running';
    if (this.#take()) this.#fail(reason);
  }

  refuse(): void {
    if (this.#phase === 'waiting') this.#finish(REFUSED);
  }

  /** The server ends: what still runs is told so. */
  stop(): void {
    this.#abortWith(new AgentError('unavailable', `${this.verb}: the agent is stopping`));
    this.drop();
  }

  /** Ends the connection without a word. */
  drop(): void {
    if (!this.#isOpen) return;
    this.#options.listener.drop(this.fd);
    this.markClosed();
  }

  /** The listener has ended the connection. */
  markClosed(): void {
    this.#isOpen = false;
    // Half an ADD is worth nothing to a runtime that is gone; everything else is better finished.
    if (this.#phase === 'running' && this.verb === 'ADD') {
      this.#abortWith(new AgentError('unavailable', 'ADD: given up, nobody waits for the answer'));
    }
    this.#options.onClose(this);
  }

  #abortWith(reason: AgentError): void {
    this.#abortReason ??= reason;
    this.#abort?.abort(reason);
  }

  // False: refused.
  #openView(): boolean {
    const { openView, log } = this.#options;
    try {
      this.view = openView({ env: this.env, peer: this.peer, socketFd: this.fd });
      return true;
    } catch (error) {
      log.warn('relay.call.refused', { verb: this.verb, containerId: this.containerId, reason: messageOf(error) });
      this.#finish(REFUSED);
      return false;
    }
  }

  // True: the kernel took the marker while the peer was there.
  #take(): boolean {
    if (!this.#isOpen) return false;
    const { listener } = this.#options;
    this.#isMarked = listener.take(this.fd);
    if (!this.#isMarked) this.markClosed();
    // Nobody else cares for a peer that goes away now.
    else if (this.verb === 'ADD') listener.watch(this.fd);
    return this.#isMarked;
  }

  #fail(thrown: unknown): void {
    this.#answer({ stdout: formatErrorObject(toErrorObject(thrown)), exitCode: 1 });
  }

  #answer(answer: RelayAnswer): void {
    const length = encodeAnswerInto(answer, { room: ANSWER_ROOM, isSent: this.#isMarked });
    if (length === undefined) this.#finish(encodeAnswer(answer, this.#isMarked));
    else this.#finish(ANSWER_ROOM, length);
  }

  #finish(bytes: Buffer, length = bytes.length): void {
    this.#phase = 'answered';
    if (!this.#isOpen) return;
    const answered = this.#options.listener.answer(this.fd, bytes, length);
    if (answered === ANSWER_GOES_ON) return;
    if (answered === ANSWER_UNWANTED) {
      this.#options.log.warn('relay.client.dropped', { reason: 'more than one request', pid: this.peer.pid });
    }
    this.markClosed();
  }
}
