// Sets as the kernel holds them: a key type that tells `nft list` how to print, and elements as packed bytes. An
// interval is two elements, its first key and the key after its last, the second flagged as an end.
import { assertNever } from '../core/assert-never.ts';
import { type IpFamily, type IpRange, rangeBounds } from '../core/ip.ts';
import type { NftSet } from './model.ts';

/** `id` is unique in its batch. */
export interface LoweredSet {
  readonly name: string;
  readonly id: number;
  /** nft's own numbers, which the kernel stores for it: 7 ipv4_addr, 8 ipv6_addr, 13 inet_service. */
  readonly keyType: number;
  readonly keyLength: number;
  readonly isInterval: boolean;
  readonly elements: PackedElements;
}

/** `keys`: count keys of the set's key length, one after another. `ends`: a byte each, 1 for the end of an interval. */
export interface PackedElements {
  readonly count: number;
  readonly keys: Uint8Array;
  readonly ends: Uint8Array;
}

interface KeyShape {
  readonly keyType: number;
  readonly keyLength: number;
  readonly isInterval: boolean;
}

const TYPE_ADDRESS = { 4: 7, 6: 8 } as const;
const TYPE_INET_SERVICE = 13;
const ADDRESS_LENGTH = { 4: 4, 6: 16 } as const;
/** Each part of a concatenated key takes whole 4-byte registers. */
const PORT_REGISTER_LENGTH = 4;
/** nft packs the types of a concatenation into 6 bits each. */
const CONCAT_SHIFT = 6;

/** A set with its elements in kernel form. */
export function lowerSet(set: NftSet, id: number): LoweredSet {
  return { name: set.name, id, ...keyShape(set), elements: packElements(set) };
}

/** The key's type and length for a kind of set. */
export function keyShape(set: NftSet): KeyShape {
  switch (set.kind) {
    case 'ports':
      return { keyType: TYPE_INET_SERVICE, keyLength: 2, isInterval: true };
    case 'ranges':
      return { ...addressShape(set.family), isInterval: true };
    case 'addresses':
      return { ...addressShape(set.family), isInterval: false };
    case 'address-ports':
      return {
        keyType: (TYPE_ADDRESS[set.family] << CONCAT_SHIFT) | TYPE_INET_SERVICE,
        keyLength: ADDRESS_LENGTH[set.family] + PORT_REGISTER_LENGTH,
        isInterval: false,
      };
    default:
      return assertNever(set);
  }
}

function addressShape(family: IpFamily): { readonly keyType: number; readonly keyLength: number } {
  return { keyType: TYPE_ADDRESS[family], keyLength: ADDRESS_LENGTH[family] };
}

/** The set's elements in kernel form, in the set's order. */
export function packElements(set: NftSet): PackedElements {
  const { keyLength } = keyShape(set);
  switch (set.kind) {
    case 'ports':
      return packIntervals(
        set.elements.map(({ first, last }) => ({ first: portKey(first), last: portKey(last) })),
        keyLength,
      );
    case 'ranges':
      return packIntervals(
        set.elements.map((range: IpRange) => rangeBounds(range)),
        keyLength,
      );
    case 'addresses':
      return packKeys(set.elements.length, keyLength, (i, keys) => {
        keys.set(set.elements[i]?.bytes ?? [], i * keyLength);
      });
    case 'address-ports':
      return packKeys(set.elements.length, keyLength, (i, keys) => {
        const element = set.elements[i];
        if (element === undefined) return;
        keys.set(element.address.bytes, i * keyLength);
        keys.set(portKey(element.port), i * keyLength + element.address.bytes.length);
      });
    default:
      return assertNever(set);
  }
}

function packKeys(count: number, keyLength: number, write: (i: number, keys: Uint8Array) => void): PackedElements {
  const keys = new Uint8Array(count * keyLength);
  for (let i = 0; i < count; i++) write(i, keys);
  return { count, keys, ends: new Uint8Array(count) };
}

interface Interval {
  readonly first: Uint8Array;
  readonly last: Uint8Array;
}

// An interval up to the very last key has no end: there is no key after it.
function packIntervals(intervals: readonly Interval[], keyLength: number): PackedElements {
  const keys: Uint8Array[] = [];
  const ends: number[] = [];
  for (const { first, last } of intervals) {
    keys.push(first);
    ends.push(0);
    const after = successor(last);
    if (after === undefined) continue;
    keys.push(after);
    ends.push(1);
  }
  const packed = new Uint8Array(keys.length * keyLength);
  keys.forEach((key, i) => {
    packed.set(key, i * keyLength);
  });
  return { count: keys.length, keys: packed, ends: Uint8Array.from(ends) };
}

function successor(key: Uint8Array): Uint8Array | undefined {
  const next = Uint8Array.from(key);
  for (let i = next.length - 1; i >= 0; i--) {
    const byte = next[i] ?? 0;
    next[i] = (byte + 1) & 0xff;
    if (byte !== 0xff) return next;
  }
  return undefined;
}

function portKey(port: number): Uint8Array {
  return Uint8Array.of(port >> 8, port & 0xff);
}
