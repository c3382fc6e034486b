// The C functions that this program calls, all of them: libnftnl (libnftnl/*.h, 1.2.4) for objects and expressions,
// libaether (native/libaether.h) for namespaces, sending and bulk work. One line a function: where it lies, what it
// takes, what it gives. Ownership is stated where an object changes hands.

/**
 * `pointer`: an address, 0n is NULL. `text`: a NUL-terminated copy for the time of the call. `bytes`: the Buffer's own
 * memory, in place. `int`: a C int; `u32` serves uint16_t and uint32_t; `long` is int64_t.
 */
export type CType = 'pointer' | 'text' | 'bytes' | 'int' | 'u32' | 'long' | 'void';

export interface CFunction {
  readonly library: 'libnftnl' | 'libaether';
  readonly gives: CType;
  readonly takes: readonly CType[];
}

const nftnl = <G extends CType, const T extends readonly CType[]>(gives: G, takes: T) =>
  ({ library: 'libnftnl', gives, takes }) as const;
const aether = <G extends CType, const T extends readonly CType[]>(gives: G, takes: T) =>
  ({ library: 'libaether', gives, takes }) as const;

export const SYMBOLS = {
  // common.h: write a message header at the buffer's start and give its address (in that buffer, owned by nobody)
  nftnl_batch_begin: nftnl('pointer', ['bytes', 'u32']),
  nftnl_batch_end: nftnl('pointer', ['bytes', 'u32']),
  nftnl_nlmsg_build_hdr: nftnl('pointer', ['bytes', 'u32', 'u32', 'u32', 'u32']),

  // table.h, chain.h, set.h, rule.h: alloc gives an object that the caller frees; set copies; build_payload only reads
  nftnl_table_alloc: nftnl('pointer', []),
  nftnl_table_free: nftnl('void', ['pointer']),
  nftnl_table_set_str: nftnl('int', ['pointer', 'u32', 'text']),
  nftnl_table_nlmsg_build_payload: nftnl('void', ['pointer', 'pointer']),
  nftnl_chain_alloc: nftnl('pointer', []),
  nftnl_chain_free: nftnl('void', ['pointer']),
  nftnl_chain_set_str: nftnl('int', ['pointer', 'u32', 'text']),
  nftnl_chain_set_u32: nftnl('void', ['pointer', 'u32', 'u32']),
  nftnl_chain_set_s32: nftnl('void', ['pointer', 'u32', 'int']),
  nftnl_chain_nlmsg_build_payload: nftnl('void', ['pointer', 'pointer']),
  nftnl_set_alloc: nftnl('pointer', []),
  nftnl_set_free: nftnl('void', ['pointer']),
  nftnl_set_set_str: nftnl('int', ['pointer', 'u32', 'text']),
  nftnl_set_set_u32: nftnl('void', ['pointer', 'u32', 'u32']),
  nftnl_set_nlmsg_build_payload: nftnl('void', ['pointer', 'pointer']),
  nftnl_rule_alloc: nftnl('pointer', []),
  nftnl_rule_free: nftnl('void', ['pointer']),
  nftnl_rule_set_str: nftnl('int', ['pointer', 'u32', 'text']),
  /** Takes the expression; do not free it afterwards. */
  nftnl_rule_add_expr: nftnl('void', ['pointer', 'pointer']),
  nftnl_rule_nlmsg_build_payload: nftnl('void', ['pointer', 'pointer']),

  // expr.h: NULL for a name that libnftnl does not know; set copies the bytes
  nftnl_expr_alloc: nftnl('pointer', ['text']),
  nftnl_expr_free: nftnl('void', ['pointer']),
  nftnl_expr_set: nftnl('int', ['pointer', 'u32', 'bytes', 'u32']),
  nftnl_expr_set_u8: nftnl('void', ['pointer', 'u32', 'u32']),
  nftnl_expr_set_u32: nftnl('void', ['pointer', 'u32', 'u32']),
  nftnl_expr_set_str: nftnl('int', ['pointer', 'u32', 'text']),

  // libaether.h: -errno on failure; buffers stay the caller's and must live until the call is over
  ae_netns_check: aether('int', ['text', 'bytes']),
  ae_netns_identify: aether('int', ['text', 'bytes', 'bytes']),
  ae_transact: aether('int', ['bytes', 'u32', 'bytes', 'u32', 'u32', 'bytes']),
  ae_dump_collect: aether('int', ['text', 'u32', 'bytes', 'u32', 'bytes']),
  /** Frees the handle's memory; once a handle. */
  ae_dump_take: aether('int', ['long', 'bytes', 'long']),
  ae_pin: aether('int', ['text', 'text', 'text', 'bytes']),
  ae_unpin: aether('int', ['text', 'text']),
  ae_enter: aether('int', ['text', 'text', 'text', 'text', 'bytes', 'u32', 'bytes', 'u32', 'bytes']),
  ae_leave: aether('int', ['bytes', 'u32', 'text', 'text', 'text', 'bytes', 'u32']),
  ae_replace_file: aether('int', ['text', 'text', 'bytes', 'u32']),
  ae_remove_file: aether('int', ['text', 'text']),
  ae_share_pins: aether('int', ['text']),
  /** Gives a descriptor, the caller's. */
  ae_peer_pidfd: aether('int', ['int']),
  ae_trim_memory: aether('long', []),
  ae_encode_elements: aether('long', [
    'text',
    'text',
    'u32',
    'u32',
    'u32',
    'bytes',
    'u32',
    'bytes',
    'u32',
    'u32',
    'bytes',
    'u32',
  ]),
} as const satisfies Readonly<Record<string, CFunction>>;

export type SymbolName = keyof typeof SYMBOLS;

type JsType<T extends CType> = T extends 'pointer' | 'long'
  ? bigint
  : T extends 'text'
    ? string
    : T extends 'bytes'
      ? Uint8Array
      : T extends 'void'
        ? undefined
        : number;

type JsTypes<T extends readonly CType[]> = { -readonly [I in keyof T]: JsType<T[I]> };

/** What JavaScript passes for a function's parameters. */
export type Arguments<N extends SymbolName> = JsTypes<(typeof SYMBOLS)[N]['takes']>;

/** What JavaScript gets back. */
export type Result<N extends SymbolName> = JsType<(typeof SYMBOLS)[N]['gives']>;
