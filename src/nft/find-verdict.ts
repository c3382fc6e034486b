// What a table does with the first packet of a connection, computed: the kernel's walk over the rules as a function.
import { assertNever } from '../core/assert-never.ts';
import { compareBytes, type IpAddress, rangeBounds } from '../core/ip.ts';
import type { Match, NftSet, Rule, Table, Verdict } from './model.ts';

export interface Packet {
  readonly protocol: 'tcp' | 'udp';
  readonly destination: IpAddress;
  readonly port: number;
  /** SO_MARK; absent: 0. */
  readonly mark32?: number;
}

/** The verdict of the first rule that takes the packet; undefined: none does. */
export function findVerdict(table: Table, packet: Packet): Verdict | undefined {
  return findRule(table, packet)?.verdict;
}

/** The first rule that takes the packet. */
export function findRule(table: Table, packet: Packet): Rule | undefined {
  const sets = new Map(table.sets.map((set) => [set.name, set]));
  for (const { rules } of table.chains) {
    const rule = rules.find(({ matches, verdict }) => {
      // nft_nat leaves packets of the other family to the rules that follow.
      const applies = verdict.kind !== 'dnat' || verdict.address.family === packet.destination.family;
      return applies && matches.every((match) => isMatch(match, packet, sets));
    });
    if (rule !== undefined) return rule;
  }
  return undefined;
}

function isMatch(match: Match, packet: Packet, sets: ReadonlyMap<string, NftSet>): boolean {
  const { protocol, destination, port, mark32 = 0 } = packet;
  switch (match.kind) {
    case 'mark':
      return match.mark32 === mark32;
    case 'l4proto':
      return match.protocol === protocol;
    case 'dport':
      return match.protocol === protocol && match.port === port;
    case 'dport-range':
      return match.protocol === protocol && match.range.first <= port && port <= match.range.last;
    case 'daddr':
      return match.range.family === destination.family && isWithin(destination.bytes, rangeBounds(match.range));
    case 'dport-in':
      return match.protocol === protocol && isMember(sets.get(match.set), packet);
    case 'daddr-in':
      return match.family === destination.family && isMember(sets.get(match.set), packet);
    case 'daddr-dport-in':
      return match.family === destination.family && protocol === 'tcp' && isMember(sets.get(match.set), packet);
    default:
      return assertNever(match);
  }
}

function isMember(set: NftSet | undefined, { destination, port }: Packet): boolean {
  if (set === undefined) return false;
  switch (set.kind) {
    case 'ports':
      return search(set.elements, ({ first, last }) => (port < first ? -1 : port > last ? 1 : 0));
    case 'ranges':
      return search(set.elements, (range) => compareToBounds(destination.bytes, rangeBounds(range)));
    // Few tables have these, and the plan does not sort them by bytes.
    case 'addresses':
      return set.elements.some(({ text }) => text === destination.text);
    case 'address-ports':
      return set.elements.some((element) => element.address.text === destination.text && element.port === port);
    default:
      return assertNever(set);
  }
}

interface Bounds {
  readonly first: Uint8Array;
  readonly last: Uint8Array;
}

function isWithin(bytes: Uint8Array, bounds: Bounds): boolean {
  return compareToBounds(bytes, bounds) === 0;
}

function compareToBounds(bytes: Uint8Array, { first, last }: Bounds): number {
  return compareBytes(bytes, first) < 0 ? -1 : compareBytes(bytes, last) > 0 ? 1 : 0;
}

// Elements of interval sets are ascending and disjoint; there may be tens of thousands.
function search<T>(elements: readonly T[], compare: (element: T) => number): boolean {
  let from = 0;
  let to = elements.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    const element = elements[middle];
    if (element === undefined) return false;
    const order = compare(element);
    if (order === 0) return true;
    if (order < 0) to = middle;
    else from = middle + 1;
  }
  return false;
}
