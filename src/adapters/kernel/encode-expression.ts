// One expression as a libnftnl object. The nft line that each means stands in nft/lower.ts, where rules are made.
import { Buffer } from 'node:buffer';
import { InternalError } from '../../core/errors.ts';
import type { Expression } from '../../nft/expression.ts';
import { ABI } from './abi.ts';
import { Handle } from './handle.ts';
import type { NativeLibrary } from './native-library.ts';

const META_KEYS = {
  mark: ABI.NFT_META_MARK,
  nfproto: ABI.NFT_META_NFPROTO,
  l4proto: ABI.NFT_META_L4PROTO,
} as const;
const PAYLOAD_BASES = {
  network: ABI.NFT_PAYLOAD_NETWORK_HEADER,
  transport: ABI.NFT_PAYLOAD_TRANSPORT_HEADER,
} as const;
const OPERATORS = { eq: ABI.NFT_CMP_EQ, gte: ABI.NFT_CMP_GTE, lte: ABI.NFT_CMP_LTE } as const;
const NFPROTO = { 4: ABI.NFPROTO_IPV4, 6: ABI.NFPROTO_IPV6 } as const;

type Attribute =
  | { readonly type: 'u8' | 'u32'; readonly id: number; readonly value: number }
  | { readonly type: 'text'; readonly id: number; readonly value: string }
  | { readonly type: 'bytes'; readonly id: number; readonly value: Uint8Array };

interface Encoded {
  readonly name: string;
  readonly attributes: readonly Attribute[];
}

/** The caller owns the handle. Throws NativeError. */
export function encodeExpression(native: NativeLibrary, expression: Expression): Handle {
  const { name, attributes } = describe(expression);
  const handle = Handle.allocateExpression(native, name);
  try {
    for (const attribute of attributes) setAttribute(native, handle, attribute);
    return handle;
  } catch (error) {
    handle[Symbol.dispose]();
    throw error;
  }
}

function setAttribute(native: NativeLibrary, handle: Handle, attribute: Attribute): void {
  const { id } = attribute;
  let status = 0;
  switch (attribute.type) {
    case 'u8':
      native.call('nftnl_expr_set_u8', handle.pointer, id, attribute.value);
      break;
    case 'u32':
      native.call('nftnl_expr_set_u32', handle.pointer, id, attribute.value);
      break;
    case 'text':
      status = native.call('nftnl_expr_set_str', handle.pointer, id, attribute.value);
      break;
    case 'bytes':
      status = native.call('nftnl_expr_set', handle.pointer, id, attribute.value, attribute.value.length);
      break;
  }
  if (status < 0) throw new InternalError(`set attribute ${id} of an expression: libnftnl refused`);
}

const u32 = (id: number, value: number): Attribute => ({ type: 'u32', id, value });
const bytes = (id: number, value: Uint8Array): Attribute => ({ type: 'bytes', id, value });

function describe(expression: Expression): Encoded {
  switch (expression.kind) {
    case 'meta-load':
      return {
        name: 'meta',
        attributes: [
          u32(ABI.NFTNL_EXPR_META_KEY, META_KEYS[expression.key]),
          u32(ABI.NFTNL_EXPR_META_DREG, expression.register),
        ],
      };
    case 'payload-load':
      return {
        name: 'payload',
        attributes: [
          u32(ABI.NFTNL_EXPR_PAYLOAD_DREG, expression.register),
          u32(ABI.NFTNL_EXPR_PAYLOAD_BASE, PAYLOAD_BASES[expression.base]),
          u32(ABI.NFTNL_EXPR_PAYLOAD_OFFSET, expression.offset),
          u32(ABI.NFTNL_EXPR_PAYLOAD_LEN, expression.length),
        ],
      };
    case 'mask':
      return { name: 'bitwise', attributes: describeMask(expression.register, expression.mask) };
    case 'compare':
      return {
        name: 'cmp',
        attributes: [
          u32(ABI.NFTNL_EXPR_CMP_SREG, expression.register),
          u32(ABI.NFTNL_EXPR_CMP_OP, OPERATORS[expression.operator]),
          bytes(ABI.NFTNL_EXPR_CMP_DATA, expression.value),
        ],
      };
    case 'lookup':
      return {
        name: 'lookup',
        attributes: [
          u32(ABI.NFTNL_EXPR_LOOKUP_SREG, expression.register),
          { type: 'text', id: ABI.NFTNL_EXPR_LOOKUP_SET, value: expression.set },
        ],
      };
    default:
      return describeVerdict(expression);
  }
}

function describeVerdict(
  expression: Exclude<Expression, { kind: 'meta-load' | 'payload-load' | 'mask' | 'compare' | 'lookup' }>,
): Encoded {
  switch (expression.kind) {
    case 'immediate':
      return {
        name: 'immediate',
        attributes: [
          u32(ABI.NFTNL_EXPR_IMM_DREG, expression.register),
          bytes(ABI.NFTNL_EXPR_IMM_DATA, expression.value),
        ],
      };
    case 'accept':
      return {
        name: 'immediate',
        attributes: [u32(ABI.NFTNL_EXPR_IMM_DREG, ABI.NFT_REG_VERDICT), u32(ABI.NFTNL_EXPR_IMM_VERDICT, ABI.NF_ACCEPT)],
      };
    case 'redirect':
      return {
        name: 'redir',
        attributes: [
          u32(ABI.NFTNL_EXPR_REDIR_REG_PROTO_MIN, expression.portRegister),
          u32(ABI.NFTNL_EXPR_REDIR_FLAGS, ABI.NF_NAT_RANGE_PROTO_SPECIFIED),
        ],
      };
    case 'dnat':
      return {
        name: 'nat',
        attributes: [
          u32(ABI.NFTNL_EXPR_NAT_TYPE, ABI.NFT_NAT_DNAT),
          u32(ABI.NFTNL_EXPR_NAT_FAMILY, NFPROTO[expression.family]),
          u32(ABI.NFTNL_EXPR_NAT_REG_ADDR_MIN, expression.addressRegister),
          u32(ABI.NFTNL_EXPR_NAT_REG_PROTO_MIN, expression.portRegister),
          u32(ABI.NFTNL_EXPR_NAT_FLAGS, ABI.NF_NAT_RANGE_PROTO_SPECIFIED),
        ],
      };
    case 'reject':
      return {
        name: 'reject',
        attributes: [
          u32(ABI.NFTNL_EXPR_REJECT_TYPE, expression.type),
          { type: 'u8', id: ABI.NFTNL_EXPR_REJECT_CODE, value: expression.code },
        ],
      };
    case 'foreign':
      throw new InternalError(`encode expression "${expression.name}": only the kernel reports such`);
  }
}

function describeMask(register: number, mask: Uint8Array): readonly Attribute[] {
  return [
    u32(ABI.NFTNL_EXPR_BITWISE_SREG, register),
    u32(ABI.NFTNL_EXPR_BITWISE_DREG, register),
    u32(ABI.NFTNL_EXPR_BITWISE_LEN, mask.length),
    bytes(ABI.NFTNL_EXPR_BITWISE_MASK, mask),
    bytes(ABI.NFTNL_EXPR_BITWISE_XOR, Buffer.alloc(mask.length)),
  ];
}
