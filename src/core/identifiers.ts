// Strings that reach a path, a rule or a kernel call, checked once and branded, so that an unchecked one cannot.
// The rules are libcni's (containernetworking/cni pkg/utils), plus a length that leaves room for a file name suffix.

import { Buffer } from 'node:buffer';

export type ContainerId = string & { readonly __brand: 'ContainerId' };
/** Absolute path of a network namespace file; existence is not implied. */
export type NetnsPath = string & { readonly __brand: 'NetnsPath' };
/** Interface name inside the pod: IFNAMSIZ - 1 = 15 bytes at most. */
export type InterfaceName = string & { readonly __brand: 'InterfaceName' };

const CONTAINER_ID_MAX = 200;

/** The container id, or why it is none (a sentence fragment for a problem list). */
export function parseContainerId(text: string): ContainerId | { readonly problem: string } {
  if (text.length > CONTAINER_ID_MAX) return { problem: `must be at most ${CONTAINER_ID_MAX} characters long` };
  if (!isNetworkName(text)) {
    return { problem: 'must start with a letter or digit and hold only letters, digits, "_", "." and "-"' };
  }
  return text as ContainerId;
}

/** The interface name, or why it is none. */
export function parseInterfaceName(text: string): InterfaceName | { readonly problem: string } {
  // As nearly all are called.
  if (text.length <= 15 && isNetworkName(text)) return text as InterfaceName;
  if (text === '' || Buffer.byteLength(text) > 15) return { problem: 'must be 1 to 15 bytes long' };
  if (text === '.' || text === '..') return { problem: 'must not be "." or ".."' };
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be kept out
  if (/[/:\s\u0000-\u001f\u007f]/.test(text))
    return { problem: 'must not hold "/", ":", blanks or control characters' };
  return text as InterfaceName;
}

/** An absolute path without NUL, 4096 bytes at most; or why it is none. */
export function parseNetnsPath(text: string): NetnsPath | { readonly problem: string } {
  if (!text.startsWith('/')) return { problem: 'must be an absolute path' };
  if (text.includes('\u0000') || text.length > 4096)
    return { problem: 'must be a path without NUL, at most 4096 bytes' };
  return text as NetnsPath;
}

/** Network names follow the container id's alphabet. */
export function isNetworkName(text: string): boolean {
  return isMadeOf(text, NAME) && isOneOf(text.charCodeAt(0), ALPHANUMERIC);
}

/** A DNS label as Kubernetes names namespaces and service accounts: 63 characters at most, lower case (RFC 1123). */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && isDns(text, LOWER | DASH);
}

/** A DNS name as Kubernetes names pods: 253 characters at most, lower case (RFC 1123). */
export function isDnsName(text: string): boolean {
  return text.length <= 253 && isDns(text, LOWER | DASH | DOT);
}

/** What a runtime may give as a pod's uid: 128 characters of a file name. */
export function isPodUid(text: string): boolean {
  return text.length <= 128 && isMadeOf(text, NAME);
}

// Kinds of characters. By a table: every ADD waits for these, and a regular expression that rested is slow.
const LOWER = 1; // and digits
const UPPER = 2;
const DASH = 4;
const DOT = 8;
const UNDERSCORE = 16;
const ALPHANUMERIC = LOWER | UPPER;
const NAME = ALPHANUMERIC | DASH | DOT | UNDERSCORE;
const KINDS = new Uint8Array(128);
for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
  KINDS[letter.charCodeAt(0)] = LOWER;
  KINDS[letter.toUpperCase().charCodeAt(0)] = UPPER;
}
for (const digit of '0123456789') KINDS[digit.charCodeAt(0)] = LOWER;
KINDS[0x2d] = DASH;
KINDS[0x2e] = DOT;
KINDS[0x5f] = UNDERSCORE;

function isOneOf(code: number, kinds: number): boolean {
  return ((KINDS[code] ?? 0) & kinds) !== 0;
}

// And not empty.
function isMadeOf(text: string, kinds: number): boolean {
  for (let at = 0; at < text.length; at++) if (!isOneOf(text.charCodeAt(at), kinds)) return false;
  return text !== '';
}

function isDns(text: string, kinds: number): boolean {
  return (
    isMadeOf(text, kinds) && isOneOf(text.charCodeAt(0), LOWER) && isOneOf(text.charCodeAt(text.length - 1), LOWER)
  );
}

/** Whether an absolute path is `/`, however it is spelt: no place for files of ours, whose directories are made private. */
export function isRoot(path: string): boolean {
  return /^[/.]+$/.test(path);
}

/** A directory's path without slashes at its end. */
export function withoutEndSlash(dir: string): string {
  // Most have none, and every call waits for a regular expression that rested.
  return dir.endsWith('/') ? dir.replace(/\/+$/, '') : dir;
}
