// What the kernel executes for a rule: a list of expressions over registers, as plain data. `nft --debug=netlink`
// prints the same things; the names follow linux/netfilter/nf_tables.h.

/** NFT_REG_1 (16 bytes): where nft loads what is compared next. */
export const REGISTER_1 = 1;
/** NFT_REG_2 (16 bytes). */
export const REGISTER_2 = 2;
/** NFT_REG32_01: the second 4 bytes of register 1; a port after an IPv4 address is loaded here. */
export const REGISTER32_01 = 9;

/** `reject with tcp reset`: NFT_REJECT_TCP_RST. */
export const REJECT_TCP_RESET = 1;

/** Values are the bytes of the register: network order, but for the mark, which is in the host's (little endian). */
export type Expression =
  | { readonly kind: 'meta-load'; readonly key: 'mark' | 'nfproto' | 'l4proto'; readonly register: number }
  | {
      readonly kind: 'payload-load';
      readonly base: 'network' | 'transport';
      readonly offset: number;
      readonly length: number;
      readonly register: number;
    }
  | { readonly kind: 'mask'; readonly register: number; readonly mask: Uint8Array }
  | {
      readonly kind: 'compare';
      readonly operator: 'eq' | 'gte' | 'lte';
      readonly register: number;
      readonly value: Uint8Array;
    }
  | { readonly kind: 'lookup'; readonly register: number; readonly set: string }
  | { readonly kind: 'immediate'; readonly register: number; readonly value: Uint8Array }
  | { readonly kind: 'accept' }
  | { readonly kind: 'redirect'; readonly portRegister: number }
  | {
      readonly kind: 'dnat';
      readonly family: 4 | 6;
      readonly addressRegister: number;
      readonly portRegister: number;
    }
  | { readonly kind: 'reject'; readonly type: number; readonly code: number }
  /** What a kernel reports and we never program; `detail` is for people. */
  | { readonly kind: 'foreign'; readonly name: string; readonly detail: string };

/** A rule as nft's debug output shows it, on one line: `[ meta load mark => reg 1 ] [ cmp eq reg 1 0x7eae0000 ] …`. */
export function formatExpressions(expressions: readonly Expression[]): string {
  return expressions.map((expression) => `[ ${formatExpression(expression)} ]`).join(' ');
}

function formatExpression(expression: Expression): string {
  switch (expression.kind) {
    case 'meta-load':
      return `meta load ${expression.key} => reg ${expression.register}`;
    case 'payload-load':
      return `payload load ${expression.length}b @ ${expression.base} header + ${expression.offset} => reg ${expression.register}`;
    case 'mask':
      return `bitwise reg ${expression.register} = ( reg ${expression.register} & ${formatWords(expression.mask)} )`;
    case 'compare':
      return `cmp ${expression.operator} reg ${expression.register} ${formatWords(expression.value)}`;
    case 'lookup':
      return `lookup reg ${expression.register} set ${expression.set}`;
    case 'immediate':
      return `immediate reg ${expression.register} ${formatWords(expression.value)}`;
    case 'accept':
      return 'immediate reg 0 accept';
    case 'redirect':
      return `redir proto_min reg ${expression.portRegister}`;
    case 'dnat':
      return `nat dnat ${expression.family === 4 ? 'ip' : 'ip6'} addr_min reg ${expression.addressRegister} proto_min reg ${expression.portRegister}`;
    case 'reject':
      return `reject type ${expression.type} code ${expression.code}`;
    case 'foreign':
      return expression.detail === '' ? expression.name : `${expression.name} ${expression.detail}`;
  }
}

// Bytes in memory order; nft's own print-out groups them into host-order words, which nobody can read.
function formatWords(bytes: Uint8Array): string {
  return `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
