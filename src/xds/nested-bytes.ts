// Encoded messages put into each other: a field of a message that is encoded already, without decoding it (protobuf encoding,
// "length-delimited records"). encode-resource.ts says why joining holds.
import type { DescField } from '@bufbuild/protobuf';

const LENGTH_DELIMITED = 2;

/** The pieces of the message that `pieces` make, as the field of another: to be joined with the other's own. */
export function nest({ number }: Pick<DescField, 'number'>, pieces: readonly Uint8Array[]): readonly Uint8Array[] {
  const size = pieces.reduce((sum, { length }) => sum + length, 0);
  return [Uint8Array.from([...varint((number << 3) | LENGTH_DELIMITED), ...varint(size)]), ...pieces];
}

function varint(value: number): readonly number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return [...bytes, rest];
}
