// IP addresses and ranges as values. Text is canonical (RFC 5952 for IPv6) because the kernel compares bytes where
// Envoy compares prints: two spellings of one address must never be two values.
// Read here and not by node:net: its regular expression alone costs a third of a short-lived process. The test holds both
// against each other.

export type IpFamily = 4 | 6;

/** An address. `bytes`: 4 or 16, network order. `text`: canonical, so `===` on it is equality. */
export interface IpAddress {
  readonly family: IpFamily;
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** A range, masked: host bits are zero. `text`: `10.0.0.0/8`. */
export interface IpRange {
  readonly family: IpFamily;
  readonly bytes: Uint8Array;
  readonly prefixLength: number;
  readonly text: string;
}

/** An address and a TCP port: one element of an address-ports set, `10.96.0.50 . 9000`. */
export interface AddressPort {
  readonly address: IpAddress;
  readonly port: number;
}

/** Reads IPv4 dotted decimal or IPv6 (no zone, no brackets); an IPv4-mapped IPv6 address becomes the IPv4 address. */
export function parseIp(text: string): IpAddress | undefined {
  const bytes = text.includes(':') ? parseIpv6Bytes(text) : parseIpv4Bytes(text);
  return bytes === undefined ? undefined : ipFromBytes(bytes);
}

/** The canonical text of an address, as parseIp() gives it. */
export function canonicalIp(text: string): string | undefined {
  if (text.includes(':')) return parseIp(text)?.text;
  // Without leading zeros there is one way to write it.
  return parseIpv4(text) < 0 ? undefined : text;
}

/** Wraps 4 or 16 bytes in network order; 16 bytes of an IPv4-mapped address give the IPv4 address. */
export function ipFromBytes(bytes: Uint8Array): IpAddress {
  if (bytes.length === 4) return { family: 4, bytes, text: formatIpv4(bytes) };
  if (bytes.length !== 16) throw new RangeError(`an address has 4 or 16 bytes, got ${bytes.length}`);
  const mapped = bytes.subarray(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
  if (mapped) return ipFromBytes(bytes.slice(12));
  return { family: 6, bytes, text: formatIpv6(bytes) };
}

/** Reads `address/length` or a bare address (the full length). Host bits are masked away. */
export function parseIpRange(text: string): IpRange | undefined {
  const slash = text.indexOf('/');
  const address = parseIp(slash < 0 ? text : text.slice(0, slash));
  if (address === undefined) return undefined;
  const bits = address.bytes.length * 8;
  const lengthText = slash < 0 ? String(bits) : text.slice(slash + 1);
  if (!/^(0|[1-9][0-9]{0,2})$/.test(lengthText)) return undefined;
  const prefixLength = Number(lengthText);
  if (prefixLength > bits) return undefined;
  const bytes = address.bytes.map((byte, i) => byte & maskByte(prefixLength - i * 8));
  const base = bytes.length === 4 ? formatIpv4(bytes) : formatIpv6(bytes);
  return { family: address.family, bytes, prefixLength, text: `${base}/${prefixLength}` };
}

/** First and last address of a range, inclusive, as bytes. */
export function rangeBounds(range: IpRange): { readonly first: Uint8Array; readonly last: Uint8Array } {
  const last = range.bytes.map((byte, i) => byte | (~maskByte(range.prefixLength - i * 8) & 0xff));
  return { first: range.bytes, last };
}

/** Whether the range holds the address; never across families. */
export function isInRange(address: IpAddress, range: IpRange): boolean {
  return (
    address.family === range.family &&
    address.bytes.every((byte, i) => (byte & maskByte(range.prefixLength - i * 8)) === range.bytes[i])
  );
}

/** Orders by family, then bytes: the order of every list of addresses we emit. */
export function compareIps(a: IpAddress, b: IpAddress): number {
  return a.family - b.family || compareBytes(a.bytes, b.bytes);
}

/** Byte-wise order; the shorter of two equal prefixes comes first. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function maskByte(bitsLeft: number): number {
  return bitsLeft >= 8 ? 0xff : bitsLeft <= 0 ? 0 : (0xff << (8 - bitsLeft)) & 0xff;
}

function parseIpv4Bytes(text: string): Uint8Array | undefined {
  const number = parseIpv4(text);
  if (number < 0) return undefined;
  const bytes = new Uint8Array(4);
  for (let index = 0; index < 4; index++) bytes[index] = number >>> (24 - 8 * index);
  return bytes;
}

// Its 32 bits; -1: it is none. Digit by digit: every ADD waits for it, and a regular expression that rested is slow.
function parseIpv4(text: string): number {
  let bits = 0;
  let index = 0;
  let digits = 0;
  let value = 0;
  for (let at = 0; at <= text.length; at++) {
    const code = at === text.length ? DOT : text.charCodeAt(at);
    if (code === DOT) {
      if (digits === 0 || index === 4) return -1;
      bits = bits * 256 + value;
      index++;
      digits = 0;
      value = 0;
      continue;
    }
    const digit = code - ZERO;
    // No leading zero: some read it as octal.
    if (digit < 0 || digit > 9 || (digits > 0 && value === 0)) return -1;
    value = value * 10 + digit;
    digits++;
    if (value > 255) return -1;
  }
  return index === 4 ? bits : -1;
}

const DOT = 0x2e;
const ZERO = 0x30;

// RFC 4291 2.2: eight groups of 16 bits, one run of zero groups as `::`, the last two groups also as an IPv4 address.
function parseIpv6Bytes(text: string): Uint8Array | undefined {
  const halves = text.split('::');
  const [head, tail] = halves.map((half) => (half === '' ? [] : parseIpv6Groups(half)));
  if (halves.length > 2 || head === undefined || (halves.length === 2 && tail === undefined)) return undefined;
  // An IPv4 address ends the text; before a `::` it does not.
  if (halves.length === 2 && halves[0]?.includes('.')) return undefined;
  const length = head.length + (tail?.length ?? 0);
  if (tail === undefined ? length !== 16 : length > 14) return undefined;
  return Uint8Array.from([...head, ...new Array<number>(16 - length).fill(0), ...(tail ?? [])]);
}

function parseIpv6Groups(text: string): number[] | undefined {
  const groups = text.split(':');
  const bytes: number[] = [];
  for (const [index, group] of groups.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(group)) {
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    } else {
      const ipv4 = index === groups.length - 1 ? parseIpv4Bytes(group) : undefined;
      if (ipv4 === undefined) return undefined;
      bytes.push(...ipv4);
    }
  }
  return bytes;
}

function formatIpv4(bytes: Uint8Array): string {
  return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`;
}

// RFC 5952: no leading zeros, the longest run of two or more zero groups (the first of equals) becomes `::`.
function formatIpv6(bytes: Uint8Array): string {
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[i * 2] ?? 0) << 8) | (bytes[i * 2 + 1] ?? 0));
  let best = { start: -1, length: 1 };
  for (let i = 0; i < 8; i++) {
    let length = 0;
    while (groups[i + length] === 0) length++;
    if (length > best.length) best = { start: i, length };
    i += length;
  }
  const hex = groups.map((group) => group.toString(16));
  if (best.start < 0) return hex.join(':');
  return `${hex.slice(0, best.start).join(':')}::${hex.slice(best.start + best.length).join(':')}`;
}
