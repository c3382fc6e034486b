// The way back from expressions to a rule, for showing what a kernel holds in nft's words. Only rules that we could
// have planned come back; the caller shows the expressions of any other.
import { type IpAddress, type IpFamily, ipFromBytes, parseIpRange } from '../core/ip.ts';
import { type Expression, formatExpressions } from './expression.ts';
import { lowerRule } from './lower.ts';
import type { Match, Rule, Verdict } from './model.ts';
import { formatRule } from './text.ts';

/** `tcp dport 18081 redirect to :18001`, or the expressions where it is no rule of our kind. */
export function describeRule(expressions: readonly Expression[]): string {
  const rule = raiseRule(expressions);
  return rule === undefined ? formatExpressions(expressions) : formatRule(rule);
}

/** A rule that lowers to exactly these expressions, or undefined. */
export function raiseRule(expressions: readonly Expression[]): Rule | undefined {
  const reader: Reader = { rest: [...expressions], family: undefined, l4: undefined, l4Unused: false };
  const matches: Match[] = [];
  while (reader.rest.length > 0) {
    const verdict = raiseVerdict(reader.rest);
    if (verdict !== undefined) {
      if (reader.l4Unused && reader.l4 !== undefined) matches.push({ kind: 'l4proto', protocol: reader.l4 });
      return [
        { matches, verdict },
        { matches: explicitL4(matches, reader.l4), verdict },
      ].find((rule) => formatExpressions(lowerRule(rule)) === formatExpressions(expressions));
    }
    const match = raiseMatch(reader);
    if (match === undefined) return undefined;
    if (match !== 'context') matches.push(match);
  }
  return undefined;
}

interface Reader {
  rest: Expression[];
  family: IpFamily | undefined;
  l4: 'tcp' | 'udp' | undefined;
  /** The protocol was checked, and no port was looked at since: it was a match of its own. */
  l4Unused: boolean;
}

// `meta l4proto tcp ip daddr @s`: what was taken for an implied check stood first, as a match.
function explicitL4(matches: readonly Match[], protocol: 'tcp' | 'udp' | undefined): readonly Match[] {
  if (protocol === undefined) return matches;
  return [{ kind: 'l4proto', protocol }, ...matches.filter(({ kind }) => kind !== 'l4proto')];
}

function raiseMatch(reader: Reader): Match | 'context' | undefined {
  const [load, second] = reader.rest;
  if (load?.kind === 'meta-load' && second?.kind === 'compare' && second.operator === 'eq') {
    reader.rest = reader.rest.slice(2);
    return raiseMeta(reader, load.key, second.value);
  }
  if (load?.kind !== 'payload-load') return undefined;
  return load.base === 'transport' ? raisePort(reader) : raiseAddress(reader, load.length);
}

function raiseMeta(
  reader: Reader,
  key: 'mark' | 'nfproto' | 'l4proto',
  value: Uint8Array,
): Match | 'context' | undefined {
  const [first = 0, second = 0, third = 0, fourth = 0] = value;
  if (key === 'mark') {
    return { kind: 'mark', mark32: (first | (second << 8) | (third << 16) | (fourth << 24)) >>> 0 };
  }
  if (key === 'nfproto') {
    reader.family = first === 2 ? 4 : first === 10 ? 6 : undefined;
    return reader.family === undefined ? undefined : 'context';
  }
  reader.l4 = first === 6 ? 'tcp' : first === 17 ? 'udp' : undefined;
  reader.l4Unused = true;
  return reader.l4 === undefined ? undefined : 'context';
}

function raisePort(reader: Reader): Match | undefined {
  const [, test, second] = reader.rest;
  const { l4: protocol } = reader;
  if (protocol === undefined) return undefined;
  reader.l4Unused = false;
  if (test?.kind === 'lookup') {
    reader.rest = reader.rest.slice(2);
    return { kind: 'dport-in', protocol, set: test.set };
  }
  if (test?.kind !== 'compare') return undefined;
  if (test.operator === 'eq') {
    reader.rest = reader.rest.slice(2);
    return { kind: 'dport', protocol, port: readPort(test.value) };
  }
  if (second?.kind !== 'compare') return undefined;
  reader.rest = reader.rest.slice(3);
  return { kind: 'dport-range', protocol, range: { first: readPort(test.value), last: readPort(second.value) } };
}

function raiseAddress(reader: Reader, length: number): Match | undefined {
  const [, second, third] = reader.rest;
  const { family } = reader;
  if (family === undefined) return undefined;
  if (second?.kind === 'lookup') {
    reader.rest = reader.rest.slice(2);
    return { kind: 'daddr-in', family, set: second.set };
  }
  if (second?.kind === 'payload-load' && third?.kind === 'lookup') {
    reader.rest = reader.rest.slice(3);
    reader.l4Unused = false;
    return { kind: 'daddr-dport-in', family, set: third.set };
  }
  if (second?.kind === 'compare') {
    reader.rest = reader.rest.slice(2);
    return daddr(family, second.value, length * 8);
  }
  if (second?.kind !== 'mask' || third?.kind !== 'compare') return undefined;
  reader.rest = reader.rest.slice(3);
  const bits = Array.from(second.mask, (byte) => byte.toString(2).padStart(8, '0')).join('');
  return daddr(family, third.value, bits.lastIndexOf('1') + 1);
}

function daddr(family: IpFamily, value: Uint8Array, prefixLength: number): Match | undefined {
  const bytes = new Uint8Array(family === 4 ? 4 : 16);
  bytes.set(value.subarray(0, bytes.length));
  const range = parseIpRange(`${ipFromBytes(bytes).text}/${prefixLength}`);
  return range === undefined ? undefined : { kind: 'daddr', range };
}

function raiseVerdict(rest: readonly Expression[]): Verdict | undefined {
  const [first, second, third] = rest;
  if (rest.length === 1 && first?.kind === 'accept') return { kind: 'accept' };
  if (rest.length === 1 && first?.kind === 'reject') return { kind: 'reset' };
  if (rest.length === 2 && first?.kind === 'immediate' && second?.kind === 'redirect') {
    return { kind: 'redirect', port: readPort(first.value) };
  }
  if (rest.length === 3 && first?.kind === 'immediate' && second?.kind === 'immediate' && third?.kind === 'dnat') {
    const address = readAddress(first.value);
    return address === undefined ? undefined : { kind: 'dnat', address, port: readPort(second.value) };
  }
  return undefined;
}

function readAddress(bytes: Uint8Array): IpAddress | undefined {
  return bytes.length === 4 || bytes.length === 16 ? ipFromBytes(bytes) : undefined;
}

function readPort(bytes: Uint8Array): number {
  return ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
}
