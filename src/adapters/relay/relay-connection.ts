// One connection of a relay: takes in one request within a time, waits for its turn, marks the call as taken, answers. The
// marker is what makes a lost connection safe: a call is acted on only after the kernel took the marker for a peer that
// is still there, so a relay that has seen none may do the call another way.
import type { Socket } from 'node:net';
import { formatErrorObject, toErrorObject } from '../../cni/error-object.ts';
import {
  decodeRequestEnv,
  decodeRequestHeader,
  encodeAnswer,
  MARKER_REFUSED,
  MARKER_TAKEN,
  REQUEST_HEADER_BYTES,
  type RelayAnswer,
} from '../../cni/relay-frame.ts';
import { AgentError, messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { QueuedCall } from './call-queue.ts';

export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

/** A CNI call as the started program got it. */
export interface RelayCall {
  /** `CNI_*` only. */
  readonly env: Record<string, string>;
  readonly stdin: Buffer;
  readonly peer: PeerCredentials;
  /** What `openView` gave; closed when the call is over. */
  readonly view: CallView | undefined;
  /**
   * Aborted (reason: AgentError `unavailable`) when an ADD is no longer wanted: its container is being deleted or the
   * runtime gave up; and for every call that outlives the server. Whoever honours it undoes what was done.
   */
  readonly signal: AbortSignal;
}

/** The caller's view of the file system: its path of a network namespace -> a path that says so to the kernel adapter. */
export interface CallView extends Disposable {
  resolve(path: string): string;
}

/**
 * Opens what a call needs of its caller; undefined: nothing. Throws where that is not to be had: the call is refused then,
 * before anything is done, and the relay does it the other way.
 */
export type OpenView = (
  call: Pick<RelayCall, 'env' | 'peer'> & { readonly socketFd: number | undefined },
) => CallView | undefined;

export type RelayHandler = (call: RelayCall) => Promise<RelayAnswer>;

export interface ConnectionOptions {
  readonly peer: PeerCredentials;
  readonly handle: RelayHandler;
  readonly openView: OpenView;
  readonly log: Log;
  /** From accept to the last byte of the request. */
  readonly requestMs: number;
  /** From the answer to the peer's close. */
  readonly answerMs: number;
  /** The request is complete. */
  readonly onRequest: (call: QueuedCall) => void;
  /** Once, however it ended. */
  readonly onClose: (call: QueuedCall) => void;
}

/** Owns the socket from its construction to its end. */
export class RelayConnection implements QueuedCall {
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #abort = new AbortController();
  #phase: 'reading' | 'waiting' | 'running' | 'answered' = 'reading';
  #timer: NodeJS.Timeout;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #wanted = REQUEST_HEADER_BYTES;
  #env: Record<string, string> = {};
  #stdin: Buffer = Buffer.alloc(0);

  /** `socket` has not been read from. */
  constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#timer = setTimeout(() => this.drop('no whole request in time'), options.requestMs);
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    // `close` follows, and says all that matters here.
    socket.on('error', () => {});
    socket.on('close', () => this.#closed());
    socket.resume();
  }

  get verb(): string {
    return this.#env['CNI_COMMAND'] ?? '';
  }

  get containerId(): string {
    return this.#env['CNI_CONTAINERID'] ?? '';
  }

  async start(): Promise<void> {
    if (this.#phase !== 'waiting') return;
    this.#phase = 'running';
    const opened = this.#openView();
    if (opened.kind === 'refused') return;
    using view = opened.view;
    if (!(await this.#mark())) return;
    const { signal } = this.#abort;
    try {
      const { peer } = this.#options;
      const answer = await this.#options.handle({ env: this.#env, stdin: this.#stdin, peer, view, signal });
      this.#finish(encodeAnswer(answer));
    } catch (thrown) {
      this.#options.log.error('relay.call.failed', { verb: this.verb, containerId: this.containerId, error: thrown });
      this.#fail(thrown);
    }
  }

  #openView(): { readonly kind: 'refused' } | { readonly kind: 'opened'; readonly view: CallView | undefined } {
    const { openView, peer, log } = this.#options;
    try {
      return { kind: 'opened', view: openView({ env: this.#env, peer, socketFd: findDescriptor(this.#socket) }) };
    } catch (error) {
      log.warn('relay.call.refused', { verb: this.verb, containerId: this.containerId, reason: messageOf(error) });
      this.#finish(Buffer.of(MARKER_REFUSED));
      return { kind: 'refused' };
    }
  }

  cancel(): void {
    const reason = new AgentError('unavailable', `${this.verb}: given up, the container is being deleted`);
    if (this.#phase === 'running') this.#abort.abort(reason);
    if (this.#phase !== 'waiting') return;
    // Not refused: the relay would then do the ADD by itself, after the DEL.
    this.#phase = 'running';
    this.#mark().then(
      () => this.#fail(reason),
      () => {},
    );
  }

  refuse(): void {
    if (this.#phase !== 'waiting') return;
    this.#finish(Buffer.of(MARKER_REFUSED));
  }

  /** The server ends: a request that is not complete is not waited for. */
  stopReading(): void {
    if (this.#phase === 'reading') this.#socket.destroy();
  }

  /** The server ends: what still runs is told so. */
  stop(): void {
    this.#abort.abort(new AgentError('unavailable', `${this.verb}: the agent is stopping`));
    this.#socket.destroy();
  }

  /** Ends the connection without a word. */
  drop(reason: string): void {
    this.#options.log.warn('relay.client.dropped', { reason, pid: this.#options.peer.pid });
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    if (this.#phase !== 'reading') {
      this.drop('more than one request');
      return;
    }
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#wanted === REQUEST_HEADER_BYTES && !this.#readHeader()) return;
    if (this.#bytes < this.#wanted) return;
    if (this.#bytes > this.#wanted) this.drop('more than one request');
    else this.#readRequest();
  }

  // False: dropped.
  #readHeader(): boolean {
    const header = decodeRequestHeader(this.#joined());
    if (header.kind === 'broken') {
      this.drop(header.problem);
      return false;
    }
    if (header.kind === 'header') this.#wanted = REQUEST_HEADER_BYTES + header.envBytes + header.stdinBytes;
    return header.kind === 'header';
  }

  #readRequest(): void {
    const bytes = this.#joined();
    const header = decodeRequestHeader(bytes);
    if (header.kind !== 'header') return;
    const envEnd = REQUEST_HEADER_BYTES + header.envBytes;
    const decoded = decodeRequestEnv(bytes.subarray(REQUEST_HEADER_BYTES, envEnd));
    if (decoded.kind === 'broken') {
      this.drop(decoded.problem);
      return;
    }
    this.#env = decoded.env;
    this.#stdin = bytes.subarray(envEnd);
    this.#chunks = [];
    this.#phase = 'waiting';
    clearTimeout(this.#timer);
    this.#options.onRequest(this);
  }

  #joined(): Buffer {
    const joined = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
    return joined ?? Buffer.alloc(0);
  }

  // True: the kernel took the marker while the peer was there.
  #mark(): Promise<boolean> {
    return new Promise((resolve) => {
      this.#socket.write(Buffer.of(MARKER_TAKEN), (error) => resolve(!error && !this.#socket.destroyed));
    });
  }

  #fail(thrown: unknown): void {
    this.#finish(encodeAnswer({ stdout: formatErrorObject(toErrorObject(thrown)), exitCode: 1 }));
  }

  #finish(bytes: Buffer): void {
    this.#phase = 'answered';
    if (this.#socket.destroyed) return;
    this.#socket.end(bytes);
    this.#timer = setTimeout(() => this.drop('answer not taken in time'), this.#options.answerMs);
  }

  #closed(): void {
    clearTimeout(this.#timer);
    // Half an ADD is worth nothing to a runtime that is gone; everything else is better finished.
    if (this.#phase === 'running' && this.verb === 'ADD') {
      this.#abort.abort(new AgentError('unavailable', 'ADD: given up, nobody waits for the answer'));
    }
    this.#options.onClose(this);
  }
}

/** Node has no public way to a socket's descriptor; this is the only place that knows the other one. */
export function findDescriptor(socket: Socket): number | undefined {
  const { _handle: handle } = socket as Socket & { readonly _handle?: { readonly fd?: unknown } | null };
  return typeof handle?.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined;
}
