// What a pod or a node wants left alone, from annotation text and from configuration lists: the only reader of either.
import { type IpRange, parseIpRange } from '../core/ip.ts';
import { mergePortRanges, type PortRange, parsePortRange } from '../core/port-range.ts';
import { type Parsed, ProblemList, quoteValue } from '../core/problems.ts';
import { ANNOTATION_EXCLUDE_PORTS, ANNOTATION_EXCLUDE_RANGES } from '../mesh/constants.ts';
import { mergeIpRanges } from './merge-ip-ranges.ts';

/** `ports`: TCP, ascending, disjoint. `ranges`: both families, by family and address, disjoint. */
export interface Exclusions {
  readonly ports: readonly PortRange[];
  readonly ranges: readonly IpRange[];
}

/** A comma list and what it is called where it came from. */
export interface ExclusionText {
  readonly path: string;
  readonly text: string;
}

const NONE: Parsed<Exclusions> = { kind: 'value', value: { ports: [], ranges: [] }, warnings: [] };

/** Reads a pod's two annotations. */
export function parseExclusionAnnotations(annotations: Readonly<Record<string, string>>): Parsed<Exclusions> {
  const named = (path: string): ExclusionText => ({ path, text: annotations[path] ?? '' });
  return parseExclusions({ ports: named(ANNOTATION_EXCLUDE_PORTS), ranges: named(ANNOTATION_EXCLUDE_RANGES) });
}

/**
 * Reads comma lists of `80` or `8000-8100`, and of IPv4 or IPv6 addresses or CIDRs. Blanks around items and empty items
 * are ignored; host bits of a CIDR are masked away. All problems are collected, under `<path>[<index>]`.
 */
export function parseExclusions(texts: {
  readonly ports: ExclusionText;
  readonly ranges: ExclusionText;
}): Parsed<Exclusions> {
  // Of most pods, and of most nodes.
  if (texts.ports.text === '' && texts.ranges.text === '') return NONE;
  const list = new ProblemList();
  const ports = parseList(texts.ports, list, {
    parse: parsePortRange,
    wanted: 'a port or a range like 8000-8100 within 1..65535',
  });
  const ranges = parseList(texts.ranges, list, { parse: parseIpRange, wanted: 'an IPv4 or IPv6 address or CIDR' });
  return list.finish(() => ({ ports: mergePortRanges(ports), ranges: mergeIpRanges(ranges) }));
}

/** Everything that any of them excludes, merged: node-wide and the pod's own. */
export function joinExclusions(a: Exclusions, b: Exclusions): Exclusions {
  if (b.ports.length === 0 && b.ranges.length === 0) return a;
  return { ports: mergePortRanges([...a.ports, ...b.ports]), ranges: mergeIpRanges([...a.ranges, ...b.ranges]) };
}

/** As annotations that parse to the same: what AddPod tells the agent. An empty list is left out. */
export function formatExclusionAnnotations(exclusions: Exclusions): Readonly<Record<string, string>> {
  const ports = exclusions.ports.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`));
  const ranges = exclusions.ranges.map(({ text }) => text);
  return {
    ...(ports.length === 0 ? {} : { [ANNOTATION_EXCLUDE_PORTS]: ports.join(',') }),
    ...(ranges.length === 0 ? {} : { [ANNOTATION_EXCLUDE_RANGES]: ranges.join(',') }),
  };
}

function parseList<T>(
  { path, text }: ExclusionText,
  list: ProblemList,
  { parse, wanted }: { readonly parse: (text: string) => T | undefined; readonly wanted: string },
): readonly T[] {
  const values: T[] = [];
  for (const [index, raw] of text.split(',').entries()) {
    const item = raw.trim();
    if (item === '') continue;
    const value = parse(item);
    if (value === undefined) list.add(`${path}[${index}]`, `must be ${wanted}, got ${quoteValue(item)}`);
    else values.push(value);
  }
  return values;
}
