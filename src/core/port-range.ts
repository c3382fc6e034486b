// Inclusive ranges of ports, merged and sorted: how exclusions are held.

/** `first` <= `last`, both 1..65535. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** Reads `80` or `8000-8100`; undefined for anything else, a reversed range included. */
export function parsePortRange(text: string): PortRange | undefined {
  const match = /^([0-9]{1,5})(?:-([0-9]{1,5}))?$/.exec(text);
  if (match === null) return undefined;
  const first = Number(match[1]);
  const last = match[2] === undefined ? first : Number(match[2]);
  return first >= 1 && first <= last && last <= 65535 ? { first, last } : undefined;
}

/** Ascending, with overlapping and adjacent ranges joined: an nft interval set refuses overlaps. */
export function mergePortRanges(ranges: readonly PortRange[]): readonly PortRange[] {
  const merged: PortRange[] = [];
  for (const range of [...ranges].sort((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && range.first <= before.last + 1) {
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
    } else {
      merged.push(range);
    }
  }
  return merged;
}

/** Whether any of the ranges holds the port. */
export function includesPort(ranges: readonly PortRange[], port: number): boolean {
  return ranges.some((range) => range.first <= port && port <= range.last);
}
