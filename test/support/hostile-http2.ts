// Bytes that a client of a gRPC socket should not send: HTTP/2 frames by hand (RFC 9113), and raw clients to send them with.
import { connect } from 'node:net';

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const DATA = 0;
const HEADERS = 1;
const SETTINGS = 4;
const END_HEADERS = 4;

/** A frame; `announced` is the length that its header claims, the body's own where absent. */
function frame(type: number, options: { flags?: number; stream?: number; body?: Buffer; announced?: number }): Buffer {
  const { flags = 0, stream = 0, body = Buffer.alloc(0), announced = body.length } = options;
  const header = Buffer.alloc(9);
  header.writeUIntBE(announced, 0, 3);
  header.writeUInt8(type, 3);
  header.writeUInt8(flags, 4);
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, body]);
}

// HPACK (RFC 7541): a literal field without indexing, name and value as they are.
function field(name: string, value: string): Buffer {
  return Buffer.from(
    `\0${String.fromCharCode(name.length)}${name}${String.fromCharCode(value.length)}${value}`,
    'latin1',
  );
}

/** Preface, settings and the head of a gRPC call on stream 1. */
function openCall(path: string, flags: number = END_HEADERS): Buffer {
  // POST and http, by their numbers in the static table.
  const body = Buffer.concat([
    Buffer.of(0x83, 0x86),
    field(':path', path),
    field(':authority', 'x'),
    field('content-type', 'application/grpc'),
    field('te', 'trailers'),
  ]);
  return Buffer.concat([PREFACE, frame(SETTINGS, {}), frame(HEADERS, { flags, stream: 1, body })]);
}

const message = (length: number, bytes: Buffer): Buffer => {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, bytes]);
};

/** What a bad client of the gRPC method at `path` sends, and then waits. By name. */
export function hostileGrpcClients(path: string): Readonly<Record<string, Buffer>> {
  const part = Buffer.of(1, 2, 3);
  const data = (body: Buffer, announced?: number): Buffer =>
    frame(DATA, { stream: 1, body, ...(announced === undefined ? {} : { announced }) });
  return {
    nothing: Buffer.alloc(0),
    zeros: Buffer.alloc(4096),
    'HTTP/1.1': Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
    'half a preface': PREFACE.subarray(0, 11),
    'a preface alone': PREFACE,
    'settings alone': Buffer.concat([PREFACE, frame(SETTINGS, {})]),
    'half a frame': Buffer.concat([PREFACE, frame(HEADERS, { stream: 1, body: Buffer.of(0x83), announced: 100 })]),
    'a frame of 16 MiB': Buffer.concat([PREFACE, frame(HEADERS, { stream: 1, announced: 0xff_ff_ff })]),
    'headers without their end': openCall(path, 0),
    'a call without a message': openCall(path),
    'half a message': Buffer.concat([openCall(path), data(message(100, part))]),
    'half a frame of a message': Buffer.concat([openCall(path), data(message(100, part), 200)]),
    'a message of 1 GiB': Buffer.concat([openCall(path), data(message(2 ** 30, part))]),
    'a call of nobody': openCall('/no.such.Service/Method'),
  };
}

/** How a connection went: who closed it and after how long. */
export interface Fate {
  readonly closed: boolean;
  readonly ms: number;
  readonly receivedBytes: number;
}

/** Connects, sends, sends `drip` every 200 ms where given, and waits for the server to close, `patienceMs` at most. */
export async function sendAndWait(
  socketPath: string,
  bytes: Buffer,
  { patienceMs, drip }: { readonly patienceMs: number; readonly drip?: Buffer },
): Promise<Fate> {
  const start = performance.now();
  // Half-open: the client never closes its own end.
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  let receivedBytes = 0;
  const closed = Promise.withResolvers<boolean>();
  socket.on('error', () => closed.resolve(true));
  socket.on('end', () => closed.resolve(true));
  socket.on('data', (chunk: Buffer) => {
    receivedBytes += chunk.length;
  });
  socket.write(bytes);
  const dripping = drip === undefined ? undefined : setInterval(() => socket.write(drip), 200);
  const patience = setTimeout(() => closed.resolve(false), patienceMs);
  const fate = { closed: await closed.promise, ms: performance.now() - start, receivedBytes };
  clearInterval(dripping);
  clearTimeout(patience);
  socket.destroy();
  return fate;
}

/** A PING frame: legal at any time, and no call. */
export const PING: Buffer = frame(6, { body: Buffer.alloc(8) });
