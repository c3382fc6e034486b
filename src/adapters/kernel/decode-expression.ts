// One expression as the kernel reports it, as plain data. Whatever we would not have programmed in exactly this way
// becomes `foreign`: a comparison must never take it for ours.
import type { Expression } from '../../nft/expression.ts';
import { ABI } from './abi.ts';
import type { Attributes } from './netlink.ts';

const META_KEYS: ReadonlyMap<number | undefined, 'mark' | 'nfproto' | 'l4proto'> = new Map([
  [ABI.NFT_META_MARK, 'mark'],
  [ABI.NFT_META_NFPROTO, 'nfproto'],
  [ABI.NFT_META_L4PROTO, 'l4proto'],
]);
const PAYLOAD_BASES: ReadonlyMap<number | undefined, 'network' | 'transport'> = new Map([
  [ABI.NFT_PAYLOAD_NETWORK_HEADER, 'network'],
  [ABI.NFT_PAYLOAD_TRANSPORT_HEADER, 'transport'],
]);
const OPERATORS: ReadonlyMap<number | undefined, 'eq' | 'gte' | 'lte'> = new Map([
  [ABI.NFT_CMP_EQ, 'eq'],
  [ABI.NFT_CMP_GTE, 'gte'],
  [ABI.NFT_CMP_LTE, 'lte'],
]);
/** Flags that the kernel sets by itself when it knows the registers. */
const DERIVED_FLAGS = ABI.NF_NAT_RANGE_MAP_IPS | ABI.NF_NAT_RANGE_PROTO_SPECIFIED;

/** `item`: an element of NFTA_RULE_EXPRESSIONS. */
export function decodeExpression(item: Attributes): Expression {
  const name = item.text(ABI.NFTA_EXPR_NAME) ?? '';
  const data = item.nested(ABI.NFTA_EXPR_DATA);
  const detail = (item.bytes(ABI.NFTA_EXPR_DATA) ?? new Uint8Array()).toString('hex');
  return DECODERS[name]?.(data) ?? { kind: 'foreign', name, detail: name === 'counter' ? '' : `0x${detail}` };
}

type Decoder = (data: Attributes) => Expression | undefined;

const DECODERS: Readonly<Record<string, Decoder | undefined>> = {
  meta: (data) => {
    const key = META_KEYS.get(data.u32(ABI.NFTA_META_KEY));
    const register = data.u32(ABI.NFTA_META_DREG);
    return key === undefined || register === undefined ? undefined : { kind: 'meta-load', key, register };
  },
  payload: (data) => {
    const base = PAYLOAD_BASES.get(data.u32(ABI.NFTA_PAYLOAD_BASE));
    const register = data.u32(ABI.NFTA_PAYLOAD_DREG);
    const offset = data.u32(ABI.NFTA_PAYLOAD_OFFSET);
    const length = data.u32(ABI.NFTA_PAYLOAD_LEN);
    if (base === undefined || register === undefined || offset === undefined || length === undefined) return undefined;
    return { kind: 'payload-load', base, offset, length, register };
  },
  cmp: (data) => {
    const operator = OPERATORS.get(data.u32(ABI.NFTA_CMP_OP));
    const register = data.u32(ABI.NFTA_CMP_SREG);
    const value = dataValue(data, ABI.NFTA_CMP_DATA);
    if (operator === undefined || register === undefined || value === undefined) return undefined;
    return { kind: 'compare', operator, register, value };
  },
  bitwise: decodeMask,
  lookup: (data) => {
    const register = data.u32(ABI.NFTA_LOOKUP_SREG);
    const set = data.text(ABI.NFTA_LOOKUP_SET);
    const isPlain = (data.u32(ABI.NFTA_LOOKUP_FLAGS) ?? 0) === 0 && data.u32(ABI.NFTA_LOOKUP_DREG) === undefined;
    return register === undefined || set === undefined || !isPlain ? undefined : { kind: 'lookup', register, set };
  },
  immediate: decodeImmediate,
  redir: (data) => {
    const portRegister = data.u32(ABI.NFTA_REDIR_REG_PROTO_MIN);
    const last = data.u32(ABI.NFTA_REDIR_REG_PROTO_MAX) ?? portRegister;
    const flags = (data.u32(ABI.NFTA_REDIR_FLAGS) ?? 0) & ~DERIVED_FLAGS;
    if (portRegister === undefined || last !== portRegister || flags !== 0) return undefined;
    return { kind: 'redirect', portRegister };
  },
  nat: decodeNat,
  reject: (data) => {
    const type = data.u32(ABI.NFTA_REJECT_TYPE);
    // The kernel reports no code for a TCP reset.
    return type === undefined ? undefined : { kind: 'reject', type, code: data.u8(ABI.NFTA_REJECT_ICMP_CODE) ?? 0 };
  },
};

function dataValue(data: Attributes, type: number): Uint8Array | undefined {
  return data.nested(type).bytes(ABI.NFTA_DATA_VALUE);
}

function decodeMask(data: Attributes): Expression | undefined {
  const register = data.u32(ABI.NFTA_BITWISE_SREG);
  const mask = dataValue(data, ABI.NFTA_BITWISE_MASK);
  const xor = dataValue(data, ABI.NFTA_BITWISE_XOR);
  // Operation 0 is mask and xor; a kernel that knows no other reports none.
  const isPlain =
    (data.u32(ABI.NFTA_BITWISE_OP) ?? 0) === 0 &&
    data.u32(ABI.NFTA_BITWISE_DREG) === register &&
    xor?.every((byte) => byte === 0) === true;
  return register === undefined || mask === undefined || !isPlain ? undefined : { kind: 'mask', register, mask };
}

function decodeImmediate(data: Attributes): Expression | undefined {
  const register = data.u32(ABI.NFTA_IMMEDIATE_DREG);
  if (register === undefined) return undefined;
  if (register !== ABI.NFT_REG_VERDICT) {
    const value = dataValue(data, ABI.NFTA_IMMEDIATE_DATA);
    return value === undefined ? undefined : { kind: 'immediate', register, value };
  }
  const code = data.nested(ABI.NFTA_IMMEDIATE_DATA).nested(ABI.NFTA_DATA_VERDICT).u32(ABI.NFTA_VERDICT_CODE);
  if (code === ABI.NF_ACCEPT) return { kind: 'accept' };
  return code === ABI.NF_DROP ? { kind: 'foreign', name: 'drop', detail: '' } : undefined;
}

function decodeNat(data: Attributes): Expression | undefined {
  const family = data.u32(ABI.NFTA_NAT_FAMILY);
  const addressRegister = data.u32(ABI.NFTA_NAT_REG_ADDR_MIN);
  const portRegister = data.u32(ABI.NFTA_NAT_REG_PROTO_MIN);
  if (addressRegister === undefined || portRegister === undefined) return undefined;
  const isPlain =
    data.u32(ABI.NFTA_NAT_TYPE) === ABI.NFT_NAT_DNAT &&
    (family === ABI.NFPROTO_IPV4 || family === ABI.NFPROTO_IPV6) &&
    (data.u32(ABI.NFTA_NAT_REG_ADDR_MAX) ?? addressRegister) === addressRegister &&
    (data.u32(ABI.NFTA_NAT_REG_PROTO_MAX) ?? portRegister) === portRegister &&
    ((data.u32(ABI.NFTA_NAT_FLAGS) ?? 0) & ~DERIVED_FLAGS) === 0;
  if (!isPlain) return undefined;
  return { kind: 'dnat', family: family === ABI.NFPROTO_IPV4 ? 4 : 6, addressRegister, portRegister };
}
