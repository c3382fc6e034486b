// A plain set's elements as planned against those that the kernel reports, by their bytes: a node's tables have hundreds of
// thousands of them together, and mostly nothing differs.
import { Buffer } from 'node:buffer';
import { ipFromBytes } from '../core/ip.ts';
import type { KernelSet } from './kernel-table.ts';
import type { NftSet } from './model.ts';
import { keyShape, packElements } from './set-elements.ts';

/** A set of single addresses, or of address and port: without intervals. */
export type PlainSet = Extract<NftSet, { readonly kind: 'addresses' | 'address-ports' }>;

/** Both in the shape of the plan: what it has and the kernel lacks, and the other way round. Absent: nothing. */
export interface ElementDifference {
  readonly missing?: PlainSet;
  readonly extra?: PlainSet;
}

/** The set that the kernel reports is of the same type (compareTable says so). */
export function diffElements(planned: PlainSet, found: KernelSet): ElementDifference {
  const keys = keysOf(planned);
  const seen = new Set<string>();
  const extra: Uint8Array[] = [];
  for (const { key } of found.elements) {
    const text = latin1(key);
    if (keys.has(text)) seen.add(text);
    else extra.push(key);
  }
  if (seen.size === keys.size && extra.length === 0) return {};
  const isMissing = new Set([...keys].filter(([text]) => !seen.has(text)).map(([, index]) => index));
  return {
    ...(isMissing.size === 0 ? {} : { missing: pick(planned, (index) => isMissing.has(index)) }),
    ...(extra.length === 0 ? {} : { extra: readKeys(extra, planned) }),
  };
}

/** Whether each element stands for itself, as in sets without intervals. */
export function isPlainSet(set: NftSet): set is PlainSet {
  return set.kind === 'addresses' || set.kind === 'address-ports';
}

/** The elements whose index is wanted. */
export function pick(set: PlainSet, isWanted: (index: number) => boolean): PlainSet {
  return set.kind === 'addresses'
    ? { ...set, elements: set.elements.filter((_, index) => isWanted(index)) }
    : { ...set, elements: set.elements.filter((_, index) => isWanted(index)) };
}

// One plan is held against many kernels.
const known = new WeakMap<PlainSet, ReadonlyMap<string, number>>();

function keysOf(set: PlainSet): ReadonlyMap<string, number> {
  const before = known.get(set);
  if (before !== undefined) return before;
  const { keyLength } = keyShape(set);
  const { keys, count } = packElements(set);
  const texts = latin1(keys);
  const map = new Map(
    Array.from({ length: count }, (_, index) => [texts.slice(index * keyLength, (index + 1) * keyLength), index]),
  );
  known.set(set, map);
  return map;
}

function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return buffer.toString('latin1');
}

function readKeys(keys: readonly Uint8Array[], like: PlainSet): PlainSet {
  const length = like.family === 4 ? 4 : 16;
  if (like.kind === 'addresses') return { ...like, elements: keys.map((key) => ipFromBytes(Uint8Array.from(key))) };
  return {
    ...like,
    elements: keys.map((key) => ({
      address: ipFromBytes(Uint8Array.from(key.subarray(0, length))),
      port: ((key[length] ?? 0) << 8) | (key[length + 1] ?? 0),
    })),
  };
}
