// The few DER encodings (X.690) that a certificate is made of, and a look at the parts of one. No schema, no validation.
import { Buffer } from 'node:buffer';

/** Tags: universal ones, and those of the context, primitive or constructed. */
export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  context: (number: number): number => 0x80 + number,
  contextConstructed: (number: number): number => 0xa0 + number,
} as const;

/** One value: tag, length, contents one after another. */
export function encodeDer(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const size = contents.reduce((sum, { length }) => sum + length, 0);
  return Buffer.concat([Buffer.of(tag), encodeLength(size), ...contents]);
}

/** `2.5.29.19` */
export function encodeOid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  return encodeDer(TAG.oid, Buffer.from([first * 40 + second, ...rest.flatMap(encodeBase128)]));
}

/** Whole seconds; as RFC 5280, 4.1.2.5 wants it: two digits of the year until 2049. */
export function encodeTime(time: Date): Buffer {
  const digits = time.toISOString().replaceAll(/[-:T]|\.\d+/g, '');
  return time.getUTCFullYear() < 2050
    ? encodeDer(TAG.utcTime, Buffer.from(digits.slice(2)))
    : encodeDer(TAG.generalizedTime, Buffer.from(digits));
}

/** The values inside a constructed one, each whole. Throws RangeError for what is cut. */
export function listDer(value: Buffer): readonly Buffer[] {
  const found: Buffer[] = [];
  for (let at = headerLength(value, 0); at < value.length; ) {
    const end = at + headerLength(value, at) + contentLength(value, at);
    if (end > value.length) throw new RangeError('reading DER: a value is longer than what holds it');
    found.push(value.subarray(at, end));
    at = end;
  }
  return found;
}

/** What stands behind tag and length. */
export function contentOf(value: Buffer): Buffer {
  return value.subarray(headerLength(value, 0));
}

function encodeLength(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  if (length < 0x100) return Buffer.of(0x81, length);
  return Buffer.of(0x82, length >> 8, length & 0xff);
}

function encodeBase128(number: number): number[] {
  const bytes = [number & 0x7f];
  for (let rest = number >>> 7; rest > 0; rest >>>= 7) bytes.unshift((rest & 0x7f) | 0x80);
  return bytes;
}

function headerLength(value: Buffer, at: number): number {
  const first = value.readUInt8(at + 1);
  return first < 0x80 ? 2 : 2 + (first & 0x7f);
}

function contentLength(value: Buffer, at: number): number {
  const first = value.readUInt8(at + 1);
  return first < 0x80 ? first : value.readUIntBE(at + 2, first & 0x7f);
}
