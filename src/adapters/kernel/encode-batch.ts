// Lowered rulesets and element changes as batches, through libnftnl. What is deleted is deleted so that its absence is
// no error: by the DESTROY messages of Linux 6.3, or (`legacy`) by adding before deleting.

import type { Expression } from '../../nft/expression.ts';
import { type LoweredChain, type LoweredTable, lowerTable } from '../../nft/lower.ts';
import type { ElementChange, NftSet, Table } from '../../nft/model.ts';
import { keyShape, type LoweredSet, packElements } from '../../nft/set-elements.ts';
import { formatRule } from '../../nft/text.ts';
import { ABI, NEWER_THAN_HEADERS } from './abi.ts';
import { type Batch, BatchWriter } from './batch-writer.ts';
import { encodeExpression } from './encode-expression.ts';
import { Handle } from './handle.ts';
import type { NativeLibrary } from './native-library.ts';

/**
 * How a table is put in place. `destroy`: DESTROYTABLE, then add; nothing to wait for where there was none. `create`:
 * only add, EEXIST at the message of a table that is there already. `replace`: add, delete, add; for kernels without DESTROY.
 */
export type TableMode = 'destroy' | 'create' | 'replace';

/** One transaction that puts the table in place. */
export function encodeTable(native: NativeLibrary, table: Table, mode: TableMode): Batch {
  return encodeTables(native, [table], mode);
}

/** One transaction that puts all of them in place. */
export function encodeTables(native: NativeLibrary, tables: readonly Table[], mode: TableMode): Batch {
  const writer = new BatchWriter(native);
  for (const table of tables) writeWholeTable(native, writer, { table, mode });
  return writer.finish({ mayDelete: mode !== 'create' });
}

function writeWholeTable(
  native: NativeLibrary,
  writer: BatchWriter,
  { table, mode }: { readonly table: Table; readonly mode: TableMode },
): void {
  const lowered = lowerTable(table);
  const { NLM_F_CREATE, NLM_F_EXCL } = ABI;
  if (mode === 'destroy')
    writeTable(native, writer, { name: table.name, type: NEWER_THAN_HEADERS.NFT_MSG_DESTROYTABLE });
  if (mode === 'replace') {
    writeTable(native, writer, { name: table.name, type: ABI.NFT_MSG_NEWTABLE, flags: NLM_F_CREATE });
    writeTable(native, writer, { name: table.name, type: ABI.NFT_MSG_DELTABLE });
  }
  const flags = mode === 'create' ? NLM_F_CREATE | NLM_F_EXCL : NLM_F_CREATE;
  writeTable(native, writer, { name: table.name, type: ABI.NFT_MSG_NEWTABLE, flags });
  for (const set of lowered.sets) writeSet(native, writer, { table: lowered, set });
  for (const [index, chain] of lowered.chains.entries()) {
    const texts = table.chains[index]?.rules.map(formatRule) ?? [];
    writeChain(native, writer, { table: lowered, chain, texts });
  }
}

/** One transaction that removes those of the tables that are there. */
export function encodeDestroyTables(
  native: NativeLibrary,
  names: readonly string[],
  options: { legacy: boolean },
): Batch {
  const writer = new BatchWriter(native);
  for (const name of names) {
    if (options.legacy) {
      writeTable(native, writer, { name, type: ABI.NFT_MSG_NEWTABLE, flags: ABI.NLM_F_CREATE });
      writeTable(native, writer, { name, type: ABI.NFT_MSG_DELTABLE });
    } else {
      writeTable(native, writer, { name, type: NEWER_THAN_HEADERS.NFT_MSG_DESTROYTABLE });
    }
  }
  return writer.finish({ mayDelete: true });
}

/** One transaction for the change. Legacy: what is to go is added first, so that deleting it cannot fail. */
export function encodeElementChange(native: NativeLibrary, change: ElementChange, options: { legacy: boolean }): Batch {
  const writer = new BatchWriter(native);
  const write = (sets: readonly NftSet[], verb: string, type: number, flags = 0) => {
    for (const set of sets) {
      const block = { table: change.table, set: set.name, keyLength: keyShape(set).keyLength, ...packElements(set) };
      const isNewer = type === NEWER_THAN_HEADERS.NFT_MSG_DESTROYSETELEM;
      writer.elements(type, { flags, label: { what: `${verb} elements of set "${set.name}"`, isNewer } }, block);
    }
  };
  write(change.add, 'add', ABI.NFT_MSG_NEWSETELEM, ABI.NLM_F_CREATE);
  if (options.legacy) {
    write(change.remove, 'add', ABI.NFT_MSG_NEWSETELEM, ABI.NLM_F_CREATE);
    write(change.remove, 'delete', ABI.NFT_MSG_DELSETELEM);
  } else {
    write(change.remove, 'destroy', NEWER_THAN_HEADERS.NFT_MSG_DESTROYSETELEM);
  }
  return writer.finish({ mayDelete: change.remove.length > 0 });
}

function writeTable(
  native: NativeLibrary,
  writer: BatchWriter,
  { name, type, flags = 0 }: { readonly name: string; readonly type: number; readonly flags?: number },
): void {
  using table = Handle.allocate(native, 'table');
  native.call('nftnl_table_set_str', table.pointer, ABI.NFTNL_TABLE_NAME, name);
  const isNewer = type === NEWER_THAN_HEADERS.NFT_MSG_DESTROYTABLE;
  const label = { what: `table inet ${name}`, module: 'nf_tables', isNewer };
  writer.message(type, { flags, label }, (header) => {
    native.call('nftnl_table_nlmsg_build_payload', header, table.pointer);
  });
}

function writeSet(
  native: NativeLibrary,
  writer: BatchWriter,
  { table, set: lowered }: { readonly table: LoweredTable; readonly set: LoweredSet },
): void {
  using set = Handle.allocate(native, 'set');
  native.call('nftnl_set_set_str', set.pointer, ABI.NFTNL_SET_TABLE, table.name);
  native.call('nftnl_set_set_str', set.pointer, ABI.NFTNL_SET_NAME, lowered.name);
  const numbers: readonly (readonly [number, number])[] = [
    [ABI.NFTNL_SET_FLAGS, lowered.isInterval ? ABI.NFT_SET_INTERVAL : 0],
    [ABI.NFTNL_SET_KEY_TYPE, lowered.keyType],
    [ABI.NFTNL_SET_KEY_LEN, lowered.keyLength],
    [ABI.NFTNL_SET_ID, lowered.id],
  ];
  for (const [attribute, value] of numbers) native.call('nftnl_set_set_u32', set.pointer, attribute, value);
  const label = { what: `set "${lowered.name}"` };
  writer.message(ABI.NFT_MSG_NEWSET, { flags: ABI.NLM_F_CREATE, label }, (header) => {
    native.call('nftnl_set_nlmsg_build_payload', header, set.pointer);
  });
  writer.elements(
    ABI.NFT_MSG_NEWSETELEM,
    { flags: ABI.NLM_F_CREATE, label: { what: `elements of set "${lowered.name}"` } },
    { table: table.name, set: lowered.name, keyLength: lowered.keyLength, ...lowered.elements },
  );
}

function writeChain(
  native: NativeLibrary,
  writer: BatchWriter,
  options: { readonly table: LoweredTable; readonly chain: LoweredChain; readonly texts: readonly string[] },
): void {
  const { table, chain: lowered, texts } = options;
  using chain = Handle.allocate(native, 'chain');
  native.call('nftnl_chain_set_str', chain.pointer, ABI.NFTNL_CHAIN_TABLE, table.name);
  native.call('nftnl_chain_set_str', chain.pointer, ABI.NFTNL_CHAIN_NAME, lowered.name);
  native.call('nftnl_chain_set_str', chain.pointer, ABI.NFTNL_CHAIN_TYPE, 'nat');
  native.call('nftnl_chain_set_u32', chain.pointer, ABI.NFTNL_CHAIN_HOOKNUM, ABI.NF_INET_LOCAL_OUT);
  native.call('nftnl_chain_set_s32', chain.pointer, ABI.NFTNL_CHAIN_PRIO, lowered.priority);
  native.call('nftnl_chain_set_u32', chain.pointer, ABI.NFTNL_CHAIN_POLICY, ABI.NF_ACCEPT);
  const label = { what: `chain "${lowered.name}"`, module: 'nft_chain_nat' };
  writer.message(ABI.NFT_MSG_NEWCHAIN, { flags: ABI.NLM_F_CREATE, label }, (header) => {
    native.call('nftnl_chain_nlmsg_build_payload', header, chain.pointer);
  });
  for (const [index, expressions] of lowered.rules.entries()) {
    writeRule(native, writer, { table: table.name, chain: lowered.name, expressions, text: texts[index] ?? '' });
  }
}

interface RuleToWrite {
  readonly table: string;
  readonly chain: string;
  readonly expressions: readonly Expression[];
  readonly text: string;
}

function writeRule(native: NativeLibrary, writer: BatchWriter, options: RuleToWrite): void {
  using rule = Handle.allocate(native, 'rule');
  native.call('nftnl_rule_set_str', rule.pointer, ABI.NFTNL_RULE_TABLE, options.table);
  native.call('nftnl_rule_set_str', rule.pointer, ABI.NFTNL_RULE_CHAIN, options.chain);
  for (const expression of options.expressions) {
    using handle = encodeExpression(native, expression);
    native.call('nftnl_rule_add_expr', rule.pointer, handle.take());
  }
  const module = moduleOf(options.expressions);
  const label = { what: `rule "${options.text}"`, ...(module === undefined ? {} : { module }) };
  const flags = ABI.NLM_F_CREATE | ABI.NLM_F_APPEND;
  writer.message(ABI.NFT_MSG_NEWRULE, { flags, label }, (header) => {
    native.call('nftnl_rule_nlmsg_build_payload', header, rule.pointer);
  });
}

/** The modules that are not part of nf_tables itself. */
function moduleOf(expressions: readonly Expression[]): string | undefined {
  switch (expressions.at(-1)?.kind) {
    case 'redirect':
      return 'nft_redir';
    case 'dnat':
      return 'nft_nat';
    case 'reject':
      return 'nft_reject_inet';
    default:
      return undefined;
  }
}
