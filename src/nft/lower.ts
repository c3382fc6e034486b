// From a ruleset to what the kernel takes: expressions over registers, set elements as packed bytes. Each rule gets
// the same expressions that `nft` itself would send (nft 1.0.6, `--debug=netlink`), its implied protocol checks
// included, so that `nft list` reads our rules back in the spelling of text.ts.
import { Buffer } from 'node:buffer';
import { assertNever } from '../core/assert-never.ts';
import type { IpFamily, IpRange } from '../core/ip.ts';
import { type Expression, REGISTER_1, REGISTER_2, REGISTER32_01, REJECT_TCP_RESET } from './expression.ts';
import type { Match, Rule, Table, Verdict } from './model.ts';
import { type LoweredSet, lowerSet } from './set-elements.ts';

export interface LoweredTable {
  readonly name: string;
  readonly sets: readonly LoweredSet[];
  readonly chains: readonly LoweredChain[];
}

/** A chain of type nat at the output hook, policy accept. */
export interface LoweredChain {
  readonly name: string;
  readonly priority: number;
  readonly rules: readonly (readonly Expression[])[];
}

/** Lowers a whole table; sets are numbered from 1 in their order. */
export function lowerTable(table: Table): LoweredTable {
  return {
    name: table.name,
    sets: table.sets.map((set, index) => lowerSet(set, index + 1)),
    chains: table.chains.map((chain) => ({
      name: chain.name,
      priority: chain.priority,
      rules: chain.rules.map(lowerRule),
    })),
  };
}

/** NFPROTO_IPV4, NFPROTO_IPV6 (linux/netfilter.h). */
const NFPROTO = { 4: 2, 6: 10 } as const;
/** IPPROTO_TCP, IPPROTO_UDP. */
const L4PROTO = { tcp: 6, udp: 17 } as const;
/** Offset of the destination address in the network header, and its length. */
const DADDR = { 4: { offset: 16, length: 4 }, 6: { offset: 24, length: 16 } } as const;
/** Offset of the destination port in a TCP or UDP header. */
const DPORT_OFFSET = 2;

type L4 = 'tcp' | 'udp';

// What earlier matches of the rule have checked: nft does not ask twice.
interface Known {
  family?: IpFamily;
  l4?: L4;
}

/** The expressions of one rule, in the order in which the kernel runs them. */
export function lowerRule(rule: Rule): readonly Expression[] {
  const known: Known = {};
  return [...rule.matches.flatMap((match) => lowerMatch(match, known)), ...lowerVerdict(rule.verdict, known)];
}

function lowerMatch(match: Match, known: Known): readonly Expression[] {
  switch (match.kind) {
    case 'mark':
      // meta mark 0x0000ae7e
      return [{ kind: 'meta-load', key: 'mark', register: REGISTER_1 }, equals(hostWord(match.mark32))];
    case 'l4proto':
      // meta l4proto tcp: written out, so it is checked even where it is known
      known.l4 = match.protocol;
      return checkL4(match.protocol);
    case 'dport':
      // tcp dport 18081
      return [...implyL4(match.protocol, known), loadDport(REGISTER_1), equals(portBytes(match.port))];
    case 'dport-range':
      // tcp dport 18001-18004
      return [
        ...implyL4(match.protocol, known),
        loadDport(REGISTER_1),
        { kind: 'compare', operator: 'gte', register: REGISTER_1, value: portBytes(match.range.first) },
        { kind: 'compare', operator: 'lte', register: REGISTER_1, value: portBytes(match.range.last) },
      ];
    case 'daddr':
      // ip daddr 169.254.0.0/16
      return [...implyFamily(match.range.family, known), ...matchPrefix(match.range)];
    case 'dport-in':
      // tcp dport @exclude_ports
      return [...implyL4(match.protocol, known), loadDport(REGISTER_1), lookup(match.set)];
    case 'daddr-in':
      // ip daddr @mesh_vip4
      return [...implyFamily(match.family, known), loadDaddr(match.family), lookup(match.set)];
    case 'daddr-dport-in':
      // ip daddr . tcp dport @mesh_tcp4: address and port in adjacent registers are one key
      return [
        ...implyFamily(match.family, known),
        ...implyL4('tcp', known),
        loadDaddr(match.family),
        loadDport(match.family === 4 ? REGISTER32_01 : REGISTER_2),
        lookup(match.set),
      ];
    default:
      return assertNever(match);
  }
}

function lowerVerdict(verdict: Verdict, known: Known): readonly Expression[] {
  switch (verdict.kind) {
    case 'accept':
      return [{ kind: 'accept' }];
    case 'redirect':
      // redirect to :18001
      return [immediate(REGISTER_1, portBytes(verdict.port)), { kind: 'redirect', portRegister: REGISTER_1 }];
    case 'dnat':
      // dnat ip to 10.0.0.1:18054: no family check, the kernel's inet nat leaves packets of the other family alone
      return [
        immediate(REGISTER_1, verdict.address.bytes),
        immediate(REGISTER_2, portBytes(verdict.port)),
        { kind: 'dnat', family: verdict.address.family, addressRegister: REGISTER_1, portRegister: REGISTER_2 },
      ];
    case 'reset':
      // reject with tcp reset
      return [...implyL4('tcp', known), { kind: 'reject', type: REJECT_TCP_RESET, code: 0 }];
    default:
      return assertNever(verdict);
  }
}

// meta nfproto ipv4
function implyFamily(family: IpFamily, known: Known): readonly Expression[] {
  if (known.family === family) return [];
  known.family = family;
  return [{ kind: 'meta-load', key: 'nfproto', register: REGISTER_1 }, equals(Uint8Array.of(NFPROTO[family]))];
}

function implyL4(protocol: L4, known: Known): readonly Expression[] {
  if (known.l4 === protocol) return [];
  known.l4 = protocol;
  return checkL4(protocol);
}

// meta l4proto tcp
function checkL4(protocol: L4): readonly Expression[] {
  return [{ kind: 'meta-load', key: 'l4proto', register: REGISTER_1 }, equals(Uint8Array.of(L4PROTO[protocol]))];
}

// A prefix of whole bytes is a shorter load; any other needs a mask.
function matchPrefix(range: IpRange): readonly Expression[] {
  const { offset, length } = DADDR[range.family];
  const wholeBytes = range.prefixLength / 8;
  if (range.prefixLength > 0 && Number.isInteger(wholeBytes)) {
    return [loadNetwork(offset, wholeBytes), equals(range.bytes.slice(0, wholeBytes))];
  }
  const mask = range.bytes.map((_, i) => prefixMaskByte(range.prefixLength - i * 8));
  return [loadNetwork(offset, length), { kind: 'mask', register: REGISTER_1, mask }, equals(range.bytes)];
}

function prefixMaskByte(bitsLeft: number): number {
  return bitsLeft >= 8 ? 0xff : bitsLeft <= 0 ? 0 : (0xff << (8 - bitsLeft)) & 0xff;
}

function loadNetwork(offset: number, length: number): Expression {
  return { kind: 'payload-load', base: 'network', offset, length, register: REGISTER_1 };
}

function loadDaddr(family: IpFamily): Expression {
  return loadNetwork(DADDR[family].offset, DADDR[family].length);
}

function loadDport(register: number): Expression {
  return { kind: 'payload-load', base: 'transport', offset: DPORT_OFFSET, length: 2, register };
}

function lookup(set: string): Expression {
  return { kind: 'lookup', register: REGISTER_1, set };
}

function immediate(register: number, value: Uint8Array): Expression {
  return { kind: 'immediate', register, value };
}

function equals(value: Uint8Array): Expression {
  return { kind: 'compare', operator: 'eq', register: REGISTER_1, value };
}

function portBytes(port: number): Uint8Array {
  return Uint8Array.of(port >> 8, port & 0xff);
}

// The mark stands in the register as the host has it; x86-64 and arm64 Linux are little endian.
function hostWord(value32: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value32);
  return Uint8Array.from(bytes);
}
