// A kernel's set elements in nft's words, so that they compare with a plan's and show in a message.
import { Buffer } from 'node:buffer';
import { compareBytes, ipFromBytes } from '../core/ip.ts';
import type { KernelElement } from './kernel-table.ts';
import type { NftSet } from './model.ts';

/** The elements as text.ts spells them, sorted by key; `like` says what the keys mean. */
export function readElements(elements: readonly KernelElement[], like: NftSet): readonly string[] {
  // An end comes before the start at the same key: neighbouring intervals share it.
  const sorted = [...elements].sort((a, b) => compareBytes(a.key, b.key) || Number(b.isEnd) - Number(a.isEnd));
  switch (like.kind) {
    case 'ports':
      return readIntervals(sorted, 2).map(([first, last]) => spell(`${portOf(first)}`, `${portOf(last)}`));
    case 'ranges':
      return readIntervals(sorted, like.family === 4 ? 4 : 16).map(([first, last]) => spellRange(first, last));
    case 'addresses':
      return sorted.map(({ key }) => ipText(key));
    case 'address-ports':
      return sorted.map(({ key }) => {
        const length = like.family === 4 ? 4 : 16;
        return `${ipText(key.subarray(0, length))} . ${portOf(key.subarray(length))}`;
      });
  }
}

type Interval = readonly [first: Uint8Array, last: Uint8Array];

// An interval without an end goes up to the last key.
function readIntervals(sorted: readonly KernelElement[], keyLength: number): readonly Interval[] {
  const intervals: Interval[] = [];
  for (const [index, { key, isEnd }] of sorted.entries()) {
    if (isEnd) continue;
    const next = sorted[index + 1];
    const last = next?.isEnd === true ? predecessor(next.key) : new Uint8Array(keyLength).fill(0xff);
    intervals.push([key, last]);
  }
  return intervals;
}

function predecessor(key: Uint8Array): Uint8Array {
  const before = Uint8Array.from(key);
  for (let i = before.length - 1; i >= 0; i--) {
    const byte = before[i] ?? 0;
    before[i] = (byte - 1) & 0xff;
    if (byte !== 0) break;
  }
  return before;
}

function spell(first: string, last: string): string {
  return first === last ? first : `${first}-${last}`;
}

// `10.0.0.0/8` where the two bounds are a prefix, else `10.0.0.1-10.0.0.9`.
function spellRange(first: Uint8Array, last: Uint8Array): string {
  const bits = first.length * 8;
  let prefixLength = 0;
  while (prefixLength < bits && bitAt(first, prefixLength) === bitAt(last, prefixLength)) prefixLength++;
  if (prefixLength === bits) return ipText(first);
  for (let i = prefixLength; i < bits; i++) {
    if (bitAt(first, i) !== 0 || bitAt(last, i) !== 1) return `${ipText(first)}-${ipText(last)}`;
  }
  return `${ipText(first)}/${prefixLength}`;
}

function bitAt(bytes: Uint8Array, index: number): number {
  return ((bytes[index >> 3] ?? 0) >> (7 - (index & 7))) & 1;
}

function ipText(bytes: Uint8Array): string {
  return bytes.length === 4 || bytes.length === 16
    ? ipFromBytes(bytes).text
    : `0x${Buffer.from(bytes).toString('hex')}`;
}

function portOf(bytes: Uint8Array): number {
  return ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
}
