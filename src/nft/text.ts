// A ruleset as `nft -f` text. The body is spelt as `nft list table` spells it (but for line breaks inside long element
// lists), so that a rule in a message, a golden file and the tool's own listing read alike.
import { assertNever } from '../core/assert-never.ts';
import type { IpAddress, IpFamily, IpRange } from '../core/ip.ts';
import type { PortRange } from '../core/port-range.ts';
import type { BaseChain, ElementChange, Match, NftSet, Rule, Table, Verdict } from './model.ts';

/** A script that replaces the table whatever stands there: `add table`, `delete table`, then the body. */
export function formatTable(table: Table): string {
  return `add table inet ${table.name}\ndelete table inet ${table.name}\n${formatTableBody(table)}`;
}

/** `table inet aether { … }`, ending in a newline. Empty sets are printed without `elements`. */
export function formatTableBody(table: Table): string {
  const blocks = [...table.sets.map(formatSet), ...table.chains.map(formatChain)];
  return `table inet ${table.name} {\n${blocks.join('\n')}}\n`;
}

/** One `add element` or `delete element` line a set; additions first. */
export function formatElementChange(change: ElementChange): string {
  const line = (verb: string) => (set: NftSet) =>
    set.elements.length === 0
      ? ''
      : `${verb} element inet ${change.table} ${set.name} { ${listElements(set).join(', ')} }\n`;
  return [...change.add.map(line('add')), ...change.remove.map(line('delete'))].join('');
}

/** One rule without indentation: `tcp dport 18081 redirect to :18001`. */
export function formatRule(rule: Rule): string {
  return [...rule.matches.map(formatMatch), formatVerdict(rule.verdict)].join(' ');
}

/** The set's type as nft names it: `ipv4_addr . inet_service`. */
export function formatSetType(set: NftSet): string {
  switch (set.kind) {
    case 'ports':
      return 'inet_service';
    case 'ranges':
    case 'addresses':
      return `ipv${set.family}_addr`;
    case 'address-ports':
      return `ipv${set.family}_addr . inet_service`;
    default:
      return assertNever(set);
  }
}

/** The elements as nft spells them, in the set's order. */
export function listElements(set: NftSet): readonly string[] {
  switch (set.kind) {
    case 'ports':
      return set.elements.map(formatPortRange);
    case 'ranges':
      return set.elements.map(formatRange);
    case 'addresses':
      return set.elements.map((address) => address.text);
    case 'address-ports':
      return set.elements.map((element) => `${element.address.text} . ${element.port}`);
    default:
      return assertNever(set);
  }
}

/** `0x0000ae7e`: how nft prints a mark. */
function formatMark(mark32: number): string {
  return `0x${mark32.toString(16).padStart(8, '0')}`;
}

function formatPortRange(range: PortRange): string {
  return range.first === range.last ? `${range.first}` : `${range.first}-${range.last}`;
}

// nft leaves the length of a single address out.
function formatRange(range: IpRange): string {
  return range.prefixLength === range.bytes.length * 8 ? range.text.slice(0, range.text.indexOf('/')) : range.text;
}

function formatSet(set: NftSet): string {
  const interval = set.kind === 'ports' || set.kind === 'ranges' ? '\t\tflags interval\n' : '';
  const elements = set.elements.length === 0 ? '' : `\t\telements = { ${listElements(set).join(', ')} }\n`;
  return `\tset ${set.name} {\n\t\ttype ${formatSetType(set)}\n${interval}${elements}\t}\n`;
}

function formatChain(chain: BaseChain): string {
  const rules = chain.rules.map((rule) => `\t\t${formatRule(rule)}\n`).join('');
  return `\tchain ${chain.name} {\n\t\ttype nat hook output priority ${chain.priority}; policy accept;\n${rules}\t}\n`;
}

const ipKeyword = (family: IpFamily): string => (family === 4 ? 'ip' : 'ip6');

function formatMatch(match: Match): string {
  switch (match.kind) {
    case 'mark':
      return `meta mark ${formatMark(match.mark32)}`;
    case 'l4proto':
      return `meta l4proto ${match.protocol}`;
    case 'dport':
      return `${match.protocol} dport ${match.port}`;
    case 'dport-range':
      return `${match.protocol} dport ${formatPortRange(match.range)}`;
    case 'daddr':
      return `${ipKeyword(match.range.family)} daddr ${formatRange(match.range)}`;
    case 'dport-in':
      return `${match.protocol} dport @${match.set}`;
    case 'daddr-in':
      return `${ipKeyword(match.family)} daddr @${match.set}`;
    case 'daddr-dport-in':
      return `${ipKeyword(match.family)} daddr . tcp dport @${match.set}`;
    default:
      return assertNever(match);
  }
}

function formatVerdict(verdict: Verdict): string {
  switch (verdict.kind) {
    case 'accept':
      return 'accept';
    case 'redirect':
      return `redirect to :${verdict.port}`;
    case 'dnat':
      return `dnat ${ipKeyword(verdict.address.family)} to ${formatEndpoint(verdict.address, verdict.port)}`;
    case 'reset':
      return 'reject with tcp reset';
    default:
      return assertNever(verdict);
  }
}

function formatEndpoint(address: IpAddress, port: number): string {
  return address.family === 4 ? `${address.text}:${port}` : `[${address.text}]:${port}`;
}
