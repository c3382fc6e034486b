// The bytes between the relay (native/relay.c) and the agent: one request, one answer, one connection. Not what they mean.
// The numbers are owned here; scripts/generate-relay-header.ts hands them to C. Integers are little-endian.
//
//   request   u32 magic, u32 version, u32 env bytes, u32 stdin bytes, env (`CNI_X=value` NUL …), stdin
//   answer    u8 REFUSED alone (nothing was or will be done), or
//             u8 TAKEN before anything is done, then u8 exit code, u32 stdout bytes, u32 stderr bytes, both
import { Buffer } from 'node:buffer';
import { InternalError } from '../core/errors.ts';

/** `AERL` on the wire. */
export const RELAY_MAGIC = 0x4c52_4541;
export const RELAY_FRAME_VERSION = 1;
export const MARKER_TAKEN = 0x01;
export const MARKER_REFUSED = 0x02;
export const REQUEST_HEADER_BYTES = 16;
/** Marker, exit code and two lengths. */
export const ANSWER_HEADER_BYTES = 10;
/** All `CNI_*` variables with their NULs. */
export const ENV_BYTES_MAX = 64 * 1024;
export const STDIN_BYTES_MAX = 16 * 1024 * 1024;
export const STDOUT_BYTES_MAX = 16 * 1024 * 1024;
export const STDERR_BYTES_MAX = 64 * 1024;

/** What the relay sends for a call with these variables; of `env` only names that start with `CNI_`. */
export function encodeRequest(env: Readonly<Record<string, string>>, stdin: Buffer): Buffer {
  const entries = Object.entries(env).filter(([name]) => name.startsWith('CNI_'));
  const packed = Buffer.from(entries.map(([name, value]) => `${name}=${value}\0`).join(''));
  const header = Buffer.alloc(REQUEST_HEADER_BYTES);
  header.writeUInt32LE(RELAY_MAGIC, 0);
  header.writeUInt32LE(RELAY_FRAME_VERSION, 4);
  header.writeUInt32LE(packed.length, 8);
  header.writeUInt32LE(stdin.length, 12);
  return Buffer.concat([header, packed, stdin]);
}

/** What the started program prints and ends with. */
export interface RelayAnswer {
  /** Goes to stdout byte for byte; STDOUT_BYTES_MAX at most. */
  readonly stdout: string | Buffer;
  /** Warnings; cut at STDERR_BYTES_MAX. */
  readonly stderr?: string | Buffer;
  /** 0..255. */
  readonly exitCode: number;
}

/** An answer, or where its marker `isSent` the rest of it. Throws InternalError for what no frame can hold. */
export function encodeAnswer({ stdout, stderr = '', exitCode }: RelayAnswer, isSent = false): Buffer {
  const outBytes = Buffer.byteLength(stdout);
  const errBytes = Math.min(Buffer.byteLength(stderr), STDERR_BYTES_MAX);
  if (outBytes > STDOUT_BYTES_MAX) throw new InternalError(`encode relay answer: ${outBytes} bytes are too many`);
  const start = isSent ? 0 : 1;
  const outAt = start + ANSWER_HEADER_BYTES - 1;
  const bytes = Buffer.alloc(outAt + outBytes + errBytes);
  putText(bytes, stdout, outAt);
  putText(bytes, stderr, outAt + outBytes);
  putAnswerHeader(bytes, { start, exitCode, outBytes, errBytes });
  return bytes;
}

/**
 * The same at the start of `room`, which is there already; gives its length. Undefined: there may not be room enough, or it is
 * no text. Throws InternalError.
 */
export function encodeAnswerInto(
  { stdout, stderr = '', exitCode }: RelayAnswer,
  { room, isSent }: { readonly room: Buffer; readonly isSent: boolean },
): number | undefined {
  if (typeof stdout !== 'string' || typeof stderr !== 'string') return undefined;
  // A character has three bytes at most, in UTF-8 from UTF-16.
  if (ANSWER_HEADER_BYTES + 3 * (stdout.length + stderr.length) > room.length) return undefined;
  const start = isSent ? 0 : 1;
  const outAt = start + ANSWER_HEADER_BYTES - 1;
  const outBytes = putText(room, stdout, outAt);
  const errBytes = putText(room, stderr, outAt + outBytes);
  putAnswerHeader(room, { start, exitCode, outBytes, errBytes });
  return outAt + outBytes + errBytes;
}

interface AnswerHeader {
  /** 1: behind the marker, which is written then. */
  readonly start: 0 | 1;
  readonly exitCode: number;
  readonly outBytes: number;
  readonly errBytes: number;
}

function putAnswerHeader(bytes: Buffer, { start, exitCode, outBytes, errBytes }: AnswerHeader): void {
  if (!Number.isInteger(exitCode) || exitCode < 0 || exitCode > 255) {
    throw new InternalError(`encode relay answer: exit code must be 0..255, got ${exitCode}`);
  }
  if (start === 1) bytes[0] = MARKER_TAKEN;
  bytes[start] = exitCode;
  for (let i = 0; i < 4; i++) {
    bytes[start + 1 + i] = outBytes >>> (8 * i);
    bytes[start + 5 + i] = errBytes >>> (8 * i);
  }
}

// What does not fit is left out.
function putText(into: Buffer, part: string | Buffer, at: number): number {
  if (typeof part !== 'string') return part.copy(into, at);
  return part === '' ? 0 : into.write(part, at);
}

/** What a connection has brought so far. `taken`: the call is being acted on, its answer is not complete. */
export type DecodedAnswer =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'refused' }
  | { readonly kind: 'taken' }
  | { readonly kind: 'broken' }
  | { readonly kind: 'answer'; readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number };

/** Reads all bytes that came back, marker first. The C twin is relay_parse_answer(). */
export function decodeAnswer(bytes: Buffer): DecodedAnswer {
  if (bytes.length === 0) return { kind: 'nothing' };
  if (bytes[0] === MARKER_REFUSED) return { kind: bytes.length === 1 ? 'refused' : 'broken' };
  if (bytes[0] !== MARKER_TAKEN) return { kind: 'broken' };
  if (bytes.length < ANSWER_HEADER_BYTES) return { kind: 'taken' };
  const exitCode = bytes.readUInt8(1);
  const outBytes = bytes.readUInt32LE(2);
  const errBytes = bytes.readUInt32LE(6);
  if (outBytes > STDOUT_BYTES_MAX || errBytes > STDERR_BYTES_MAX) return { kind: 'broken' };
  const outEnd = ANSWER_HEADER_BYTES + outBytes;
  const end = outEnd + errBytes;
  if (bytes.length !== end) return { kind: bytes.length < end ? 'taken' : 'broken' };
  return {
    kind: 'answer',
    exitCode,
    stdout: bytes.subarray(ANSWER_HEADER_BYTES, outEnd),
    stderr: bytes.subarray(outEnd, end),
  };
}
