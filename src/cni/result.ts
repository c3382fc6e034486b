// prevResult: the result of the plugin before us in the chain, which is also our answer. Where the versions agree it is
// handed on as the very bytes that came; else only what the format's versions spell differently is edited in the text,
// so that unknown keys and every digit of a number survive.
import { canonicalIp, parseIp } from '../core/ip.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import { findMember, type JsonNode, type JsonObject } from './json.ts';
import { type CniVersion, isAtLeast, isSupportedVersion } from './versions.ts';

/** `text` is the whole document that `node`'s offsets point into; `version` is absent where the result names none. */
export interface PrevResult {
  readonly text: string;
  readonly node: JsonObject;
  readonly version?: CniVersion;
  /** Addresses of all `ips`, in their order, canonical, without prefix length. */
  readonly ips: readonly string[];
}

// Members that version 1.1.0 added (CNI specification, section 5): a reader of an older version has no such field.
const INTERFACE_1_1 = ['mtu', 'socketPath', 'pciID'];
const ROUTE_1_1 = ['mtu', 'advmss', 'priority', 'table', 'scope'];

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Reads the object under the key `prevResult` as far as we need it. Problems are named from there. */
export function parsePrevResult(text: string, node: JsonObject): Parsed<PrevResult> {
  const list = new ProblemList();
  const version = parseResultVersion(node, list);
  const ips: string[] = [];
  const items = listItems(node, 'ips');
  for (let index = 0; index < items.length; index++) {
    const item = items[index];
    const address = item?.kind === 'object' ? findMember(item, 'address')?.value : undefined;
    const ip = address?.kind === 'string' ? canonicalIp(withoutPrefixLength(address.value)) : undefined;
    if (ip !== undefined) {
      ips.push(ip);
      continue;
    }
    const got = address?.kind === 'string' ? `, got ${quoteValue(address.value)}` : '';
    list.add(`prevResult.ips[${index}].address`, `must be an address with a prefix length${got}`);
  }
  return list.finish(() => (version === undefined ? { text, node, ips } : { text, node, ips, version }));
}

/** The answer of ADD: the result in the configuration's version. A result that names no version is of that version. */
export function formatResult(result: PrevResult, version: CniVersion): string {
  const { text, node } = result;
  return applyEdits(text, node, result.version === version ? [] : planEdits(result, version));
}

function planEdits({ node, version: from }: PrevResult, to: CniVersion): Edit[] {
  const versionMember = findMember(node, 'cniVersion')?.value;
  const edits: Edit[] = [
    versionMember === undefined
      ? {
          start: node.start + 1,
          end: node.start + 1,
          text: `"cniVersion":"${to}"${node.members.length > 0 ? ',' : ''}`,
        }
      : { start: versionMember.start, end: versionMember.end, text: `"${to}"` },
  ];
  if (from === undefined) return edits;
  const ips = listObjects(node, 'ips');
  if (isAtLeast(to, '1.0.0')) edits.push(...ips.flatMap((ip) => removeMembers(ip, ['version'])));
  else edits.push(...ips.flatMap(addFamily));
  if (isAtLeast(from, '1.1.0') && !isAtLeast(to, '1.1.0')) {
    edits.push(...listObjects(node, 'interfaces').flatMap((entry) => removeMembers(entry, INTERFACE_1_1)));
    edits.push(...listObjects(node, 'routes').flatMap((entry) => removeMembers(entry, ROUTE_1_1)));
  }
  return edits;
}

function parseResultVersion(node: JsonObject, list: ProblemList): CniVersion | undefined {
  const value = findMember(node, 'cniVersion')?.value;
  if (value === undefined || value.kind === 'null') return undefined;
  if (value.kind === 'string' && value.value === '') return undefined;
  if (value.kind === 'string' && isSupportedVersion(value.value)) return value.value;
  list.add('prevResult.cniVersion', 'must be one of the supported versions');
  return undefined;
}

// 0.x: `"version": "4"` or `"6"` is required in each of ips (specification 0.4.0, IP allocation).
function addFamily(ip: JsonObject): Edit[] {
  if (findMember(ip, 'version') !== undefined) return [];
  const address = findMember(ip, 'address')?.value;
  const family = address?.kind === 'string' ? parseIp(withoutPrefixLength(address.value))?.family : undefined;
  if (family === undefined) return [];
  return [{ start: ip.start + 1, end: ip.start + 1, text: `"version":"${family}"${ip.members.length > 0 ? ',' : ''}` }];
}

// Each removed member takes a comma along: the one behind it, or for those at the end the one before the first of them.
function removeMembers(object: JsonObject, keys: readonly string[]): Edit[] {
  const { members } = object;
  const kept = members.map((member) => !keys.includes(member.key));
  const lastKept = kept.lastIndexOf(true);
  const edits: Edit[] = [];
  members.forEach((member, index) => {
    const next = members[index + 1];
    if (kept[index] || index > lastKept) return;
    edits.push({ start: member.start, end: next?.start ?? member.value.end, text: '' });
  });
  const lastMember = members.at(-1);
  if (lastMember !== undefined && lastKept < members.length - 1) {
    const start = members[lastKept]?.value.end ?? object.start + 1;
    edits.push({ start, end: lastMember.value.end, text: '' });
  }
  return edits;
}

function applyEdits(text: string, { start, end }: { readonly start: number; readonly end: number }, edits: Edit[]) {
  let result = '';
  let at = start;
  for (const edit of edits.sort((a, b) => a.start - b.start)) {
    result += text.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return result + text.slice(at, end);
}

function withoutPrefixLength(address: string): string {
  const slash = address.indexOf('/');
  const isLength = slash > 0 && isDigits(address, slash + 1);
  return isLength ? address.slice(0, slash) : address;
}

// From there to the end; by hand, since every ADD waits for it, and a regular expression that rested is slow.
function isDigits(text: string, start: number): boolean {
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x30 || code > 0x39) return false;
  }
  return start < text.length;
}

function listItems(node: JsonObject, key: string): readonly JsonNode[] {
  const value = findMember(node, key)?.value;
  return value?.kind === 'array' ? value.items : [];
}

function listObjects(node: JsonObject, key: string): readonly JsonObject[] {
  return listItems(node, key).filter((item) => item.kind === 'object');
}
