// A relay server in a directory of its own, and raw clients of it that can misbehave.
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { OpenView, PeerCredentials, RelayHandler } from '../../../src/adapters/relay/relay-connection.ts';
import {
  EVENT_FAILED,
  EVENT_REFUSED,
  EVENT_REQUEST,
  type ListenRelay,
} from '../../../src/adapters/relay/relay-listener.ts';
import { createRelayServer, type RelayLimits, type RelayServer } from '../../../src/adapters/relay/relay-server.ts';
import { type DecodedAnswer, decodeAnswer, encodeRequest } from '../../../src/cni/relay-frame.ts';
import type { Log, LogFields } from '../../../src/core/log.ts';
import { openNative } from '../../support/native.ts';

/** Of clients in this process. */
export const SELF: PeerCredentials = { pid: process.pid, uid: 0, gid: 0 };

/** The listener, with everybody's process number replaced. */
export function listenAs(pid: number): ListenRelay {
  return ({ onEvent, ...options }) =>
    openNative().listenRelay({ ...options, onEvent: (event, fd, _pid, ...more) => onEvent(event, fd, pid, ...more) });
}

export interface RecordedLog extends Log {
  readonly events: { readonly event: string; readonly fields: LogFields }[];
}

/** Keeps what was logged; children write to the same list. */
export function recordLog(): RecordedLog {
  const events: RecordedLog['events'] = [];
  const record = (event: string, fields: LogFields = {}): void => {
    events.push({ event, fields });
  };
  const log: RecordedLog = { events, debug: record, info: record, warn: record, error: record, child: () => log };
  return log;
}

export interface World extends AsyncDisposable {
  readonly dir: string;
  readonly socketPath: string;
  readonly server: RelayServer;
  readonly log: RecordedLog;
  /** So many requests have reached the server: each runs, waits or is refused. */
  readonly requests: () => number;
  /** So many connections have ended without the server's doing, and it knows. */
  readonly ended: () => number;
}

/** The listener, and how often the server has dealt with which of its events. */
function countEvents(listenOnce: ListenRelay) {
  const seen: number[] = [];
  const listen: ListenRelay = ({ onEvent, ...options }) =>
    listenOnce({
      ...options,
      onEvent: (event, ...more) => {
        onEvent(event, ...more);
        seen.push(event);
      },
    });
  const others = [EVENT_REQUEST, EVENT_REFUSED, EVENT_FAILED];
  const requests = () => seen.filter((event) => event === EVENT_REQUEST).length;
  return { listen, requests, ended: () => seen.filter((event) => !others.includes(event)).length };
}

export async function openWorld(
  handle: RelayHandler,
  options: {
    readonly limits?: Partial<RelayLimits>;
    readonly mode?: number;
    readonly openView?: OpenView;
    readonly listen?: ListenRelay;
  } = {},
): Promise<World> {
  const dir = mkdtempSync('/tmp/ae-relay-');
  const socketPath = join(dir, 'relay.sock');
  const log = recordLog();
  const { mode = 0o600, openView = () => undefined, limits = {} } = options;
  const { listen, requests, ended } = countEvents(options.listen ?? openNative().listenRelay);
  const server = await createRelayServer({ socketPath, mode, listen, handle, openView, log, limits });
  return {
    dir,
    socketPath,
    server,
    log,
    requests,
    ended,
    [Symbol.asyncDispose]: async () => {
      await server.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A handler whose calls begin, and wait until they are let go. */
export function holdCalls(stdout = 'fine') {
  const gate = Promise.withResolvers<void>();
  let began = false;
  const handle: RelayHandler = async () => {
    began = true;
    await gate.promise;
    return { stdout, exitCode: 0 };
  };
  return { handle, began: () => began, letGo: gate.resolve };
}

export interface Client {
  readonly socket: Socket;
  /** All bytes once the server has closed. */
  readonly received: Promise<Buffer>;
  /** Settles with the first byte, or rejects when the connection ends without one. */
  readonly firstByte: Promise<number>;
  readonly closed: Promise<void>;
}

export function openClient(socketPath: string): Promise<Client> {
  const socket = connect(socketPath);
  const chunks: Buffer[] = [];
  const first = Promise.withResolvers<number>();
  const closed = Promise.withResolvers<void>();
  first.promise.catch(() => {});
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    first.resolve(chunk[0] ?? 0);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    closed.resolve();
    first.reject(new Error('closed without a byte'));
  });
  const received = closed.promise.then(() => Buffer.concat(chunks));
  const client = { socket, received, firstByte: first.promise, closed: closed.promise };
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(client));
    socket.once('error', reject);
  });
}

/** One call as the relay makes it. */
export async function call(
  socketPath: string,
  env: Readonly<Record<string, string>>,
  stdin: string | Buffer = '{}',
): Promise<DecodedAnswer> {
  const client = await openClient(socketPath);
  client.socket.write(encodeRequest(env, Buffer.from(stdin)));
  return decodeAnswer(await client.received);
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Polls until `holds`; fails after a time that nothing here takes. */
export async function until(holds: () => boolean): Promise<void> {
  for (let waited = 0; !holds(); waited += 5) {
    if (waited > 30_000) throw new Error('waited in vain');
    await sleep(5);
  }
}
