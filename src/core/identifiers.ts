// Strings that reach a path, a rule or a kernel call, checked once and branded, so that an unchecked one cannot.
// The rules are libcni's (containernetworking/cni pkg/utils), plus a length that leaves room for a file name suffix.

import { Buffer } from 'node:buffer';

export type ContainerId = string & { readonly __brand: 'ContainerId' };
/** Absolute path of a network namespace file; existence is not implied. */
export type NetnsPath = string & { readonly __brand: 'NetnsPath' };
/** Interface name inside the pod: IFNAMSIZ - 1 = 15 bytes at most. */
export type InterfaceName = string & { readonly __brand: 'InterfaceName' };

const CONTAINER_ID_MAX = 200;
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

/** The container id, or why it is none (a sentence fragment for a problem list). */
export function parseContainerId(text: string): ContainerId | { readonly problem: string } {
  if (text.length > CONTAINER_ID_MAX) return { problem: `must be at most ${CONTAINER_ID_MAX} characters long` };
  if (!NAME.test(text)) {
    return { problem: 'must start with a letter or digit and hold only letters, digits, "_", "." and "-"' };
  }
  return text as ContainerId;
}

/** The interface name, or why it is none. */
export function parseInterfaceName(text: string): InterfaceName | { readonly problem: string } {
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
  return NAME.test(text);
}

/** A DNS label as Kubernetes names namespaces and service accounts: 63 characters at most, lower case (RFC 1123). */
export function isDnsLabel(text: string): boolean {
  return /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(text);
}

/** Whether an absolute path is `/`, however it is spelt: no place for files of ours, whose directories are made private. */
export function isRoot(path: string): boolean {
  return /^[/.]+$/.test(path);
}
