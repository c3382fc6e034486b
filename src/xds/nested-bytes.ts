// Encoded messages put into each other: what is encoded already becomes a field of another message without being decoded
// (protobuf encoding, "length-delimited records"). encode-resource.ts says why joining holds.
import type { DescField } from '@bufbuild/protobuf';

const LENGTH_DELIMITED = 2;

/** Bytes to be: pieces one after the other, some of them made of pieces. */
export interface Nested {
  readonly size: number;
  readonly pieces: readonly Piece[];
}

type Piece = Uint8Array | Nested;

/** One after the other. */
export function row(pieces: readonly Piece[]): Nested {
  return { size: pieces.reduce((sum, piece) => sum + sizeOf(piece), 0), pieces };
}

/** A message of these pieces, as the field of another. */
export function nest({ number }: Pick<DescField, 'number'>, pieces: readonly Piece[]): Nested {
  const message = row(pieces);
  const head: number[] = [];
  pushVarint(head, (number << 3) | LENGTH_DELIMITED);
  pushVarint(head, message.size);
  return { size: head.length + message.size, pieces: [Uint8Array.from(head), message] };
}

/** All in one piece. */
export function writeNested(nested: Nested): Uint8Array {
  const bytes = new Uint8Array(nested.size);
  write(nested, bytes, 0);
  return bytes;
}

function sizeOf(piece: Piece): number {
  return piece instanceof Uint8Array ? piece.length : piece.size;
}

function write({ pieces }: Nested, into: Uint8Array, at: number): void {
  let next = at;
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) into.set(piece, next);
    else write(piece, into, next);
    next += sizeOf(piece);
  }
}

function pushVarint(bytes: number[], value: number): void {
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
}
