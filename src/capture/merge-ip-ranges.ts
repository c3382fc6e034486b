// Disjoint ranges from any: an nft interval set refuses overlaps, and a listing joins halves that we would print apart.
import { compareBytes, type IpRange, ipFromBytes, isInRange, parseIpRange } from '../core/ip.ts';

/** Sorted by family and address; ranges within others dropped, two halves of one range joined to it, again and again. */
export function mergeIpRanges(ranges: readonly IpRange[]): readonly IpRange[] {
  const sorted = [...ranges].sort(
    (a, b) => a.family - b.family || compareBytes(a.bytes, b.bytes) || a.prefixLength - b.prefixLength,
  );
  const merged: IpRange[] = [];
  for (const range of sorted) {
    const before = merged.at(-1);
    if (before !== undefined && holds(before, range)) continue;
    merged.push(range);
    joinHalves(merged);
  }
  return merged;
}

function holds(outer: IpRange, inner: IpRange): boolean {
  return outer.prefixLength <= inner.prefixLength && isInRange(baseOf(inner), outer);
}

// Only the last two can have become halves of one range; their joint may then be the half of another.
function joinHalves(merged: IpRange[]): void {
  for (;;) {
    const [lower, upper] = merged.slice(-2);
    if (lower === undefined || upper === undefined) return;
    const joint = parentOf(lower);
    if (joint === undefined || lower.prefixLength !== upper.prefixLength || !holds(joint, upper)) return;
    merged.splice(-2, 2, joint);
  }
}

function parentOf(range: IpRange): IpRange | undefined {
  if (range.prefixLength === 0) return undefined;
  const address = range.text.slice(0, range.text.indexOf('/'));
  return parseIpRange(`${address}/${range.prefixLength - 1}`);
}

function baseOf(range: IpRange) {
  return ipFromBytes(range.bytes);
}
