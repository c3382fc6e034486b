// The network configuration as a runtime hands it over, call by call. What the administrator wrote is the same text each time:
// where a text differs from an earlier one in nothing but the values that the runtime adds, only those are read.
import { findMember, type JsonNode, parseJsonAt } from './json.ts';
import {
  addRuntimeKeys,
  type ConfigSource,
  decodeConfigText,
  NET_CONFIG,
  type NetConfigReading,
  parseNetConfig,
  RUNTIME_KEYS,
  readNetConfig,
  readStandingKeys,
  type StandingReading,
} from './net-config.ts';
import type { NamedValue } from './object-reader.ts';

export interface CallConfig extends NetConfigReading {
  /** What stands under `cniVersion`. */
  readonly version: JsonNode | undefined;
}

/** A text with gaps. */
interface Pattern {
  /** Up to the first gap, or all. */
  readonly head: string;
  /** Each filled by the value of one of RUNTIME_KEYS; `tail`: what follows, up to the next or the end. */
  readonly gaps: readonly { readonly key: string; readonly tail: string }[];
  readonly version: JsonNode | undefined;
  readonly standing: StandingReading;
  /** Of the text itself, where it has no gap. */
  readonly whole: CallConfig | undefined;
}

/** A node has one network with us in it, or two, and verbs differ in what is added. */
const PATTERNS_MAX = 8;
const PATTERN_LENGTH_MAX = 16_384;
/** The newest first. */
const patterns: Pattern[] = [];

/** Throws DecodeError for what is no JSON object in UTF-8. */
export function readCallConfig(stdin: string | Uint8Array): CallConfig {
  const text = decodeConfigText(stdin);
  for (const pattern of patterns) {
    const members = readGaps(text, pattern);
    if (members === undefined) continue;
    const { version, standing, whole } = pattern;
    return whole ?? { version, ...addRuntimeKeys(standing, { text, members }) };
  }
  const source = parseNetConfig(text);
  const standing = keepPattern(source);
  return { version: findMember(source.root, 'cniVersion')?.value, ...readNetConfig(source, standing) };
}

// Undefined: the text is another. Throws DecodeError as if all of it were read, since up to a gap it has been, once.
function readGaps(text: string, { head, gaps }: Pattern): readonly NamedValue[] | undefined {
  if (!text.startsWith(head)) return undefined;
  const members: NamedValue[] = [];
  let at = head.length;
  for (const { key, tail } of gaps) {
    const value = parseJsonAt(text, { what: NET_CONFIG, at, depth: 1 });
    if (!text.startsWith(tail, value.end)) return undefined;
    members.push({ key, value });
    at = value.end + tail.length;
  }
  return at === text.length ? members : undefined;
}

// Gives what it has read; undefined: nothing was kept.
function keepPattern({ text, root }: ConfigSource): StandingReading | undefined {
  // Made of a text of its own: a part of the call's would hold on to the whole.
  let bare = '';
  let at = 0;
  for (const { key, value } of root.members) {
    if (!RUNTIME_KEYS.has(key)) continue;
    bare += `${text.slice(at, value.start)}null`;
    at = value.end;
  }
  bare += text.slice(at);
  if (bare.length > PATTERN_LENGTH_MAX) return undefined;
  const pattern = makePattern(parseNetConfig(bare));
  patterns.unshift(pattern);
  patterns.splice(PATTERNS_MAX);
  return pattern.standing;
}

function makePattern(source: ConfigSource): Pattern {
  const { text, root } = source;
  const filled = root.members.filter(({ key }) => RUNTIME_KEYS.has(key));
  const version = findMember(root, 'cniVersion')?.value;
  const standing = readStandingKeys(root);
  return {
    head: text.slice(0, filled[0]?.value.start),
    gaps: filled.map(({ key, value }, index) => ({ key, tail: text.slice(value.end, filled[index + 1]?.value.start) })),
    version,
    standing,
    whole: filled.length === 0 ? { version, ...readNetConfig(source, standing) } : undefined,
  };
}
