// Reads one table of a namespace as the kernel has it: attributes, chains, rules in order, sets and their elements. One
// native call; asked again when somebody changed something meanwhile.
import type { NetnsPath } from '../../core/identifiers.ts';
import type { KernelChain, KernelSet, KernelTable } from '../../nft/kernel-table.ts';
import { ABI } from './abi.ts';
import { collectReplies } from './collect-replies.ts';
import { decodeExpression } from './decode-expression.ts';
import { errnoName, kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';
import { type Message, type Request, readMessages } from './netlink.ts';
import { missingModule } from './netns-error.ts';
import { plainPath } from './peer-view.ts';
import { readSetElements } from './read-set-elements.ts';

export interface DumpOptions {
  readonly table: string;
  /** Sets whose elements are wanted; one that does not exist is fine. */
  readonly sets: readonly string[];
  /**
   * Waits for the transaction that is under way. The kernel counts the generation up first and shows the new ruleset a moment
   * later, the old table still before the new one meanwhile, without its rules: what is missing then must not be believed
   * without it. Under many writers it may take several attempts.
   */
  readonly isSettled?: boolean;
}

const MAX_ATTEMPTS = 50;

/** Undefined when there is no such table. Throws NetnsError, KernelError. */
export async function dumpTable(
  native: NativeLibrary,
  netns: NetnsPath,
  options: DumpOptions,
): Promise<KernelTable | undefined> {
  const what = `read table inet ${options.table}`;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const { bytes, isInterrupted } = await collectReplies(native, netns, { what, requests: planRequests(options) });
    const messages = [...readMessages(bytes)];
    if (isInterrupted || !isConsistent(messages)) continue;
    const failed = messages.find(({ errno }) => errno !== 0 && errnoName(errno) !== 'ENOENT');
    if (failed !== undefined) {
      throw kernelError(
        `${what} in network namespace "${plainPath(netns)}"`,
        failed.errno,
        missingModule(failed.errno, 'nf_tables'),
      );
    }
    return readTable(messages, options.table);
  }
  throw kernelError(`${what} in network namespace "${plainPath(netns)}": it kept changing`, EAGAIN);
}

/** errno.h */
const EAGAIN = 11;

function planRequests({ table, sets, isSettled = false }: DumpOptions): readonly Request[] {
  const generation = { type: ABI.NFT_MSG_GETGEN, flags: 0 };
  const dump = ABI.NLM_F_DUMP;
  const requests: readonly Omit<Request, 'seq'>[] = [
    generation,
    ...(isSettled ? [{ subsystem: 0, type: ABI.NLMSG_NOOP, flags: 0 }] : []),
    { type: ABI.NFT_MSG_GETTABLE, flags: 0, texts: [[ABI.NFTA_TABLE_NAME, table]] },
    { type: ABI.NFT_MSG_GETCHAIN, flags: dump },
    { type: ABI.NFT_MSG_GETSET, flags: dump, texts: [[ABI.NFTA_SET_TABLE, table]] },
    { type: ABI.NFT_MSG_GETRULE, flags: dump, texts: [[ABI.NFTA_RULE_TABLE, table]] },
    ...sets.map((set) => ({
      type: ABI.NFT_MSG_GETSETELEM,
      flags: dump,
      texts: [
        [ABI.NFTA_SET_ELEM_LIST_TABLE, table],
        [ABI.NFTA_SET_ELEM_LIST_SET, set],
      ] as const,
    })),
    generation,
  ];
  return requests.map((request, index) => ({ ...request, seq: index + 1 }));
}

/** The ruleset's generation was the same before and after. */
function isConsistent(messages: readonly Message[]): boolean {
  const generations = messages
    .filter(({ type }) => type === ABI.NFT_MSG_NEWGEN)
    .map(({ attributes }) => attributes.u32(ABI.NFTA_GEN_ID));
  return generations.length === 2 && generations[0] === generations[1];
}

function readTable(messages: readonly Message[], name: string): KernelTable | undefined {
  const ofType = (type: number, tableAttribute: number) =>
    messages
      .filter((message) => message.type === type && message.attributes.text(tableAttribute) === name)
      .map(({ attributes }) => attributes);
  const [table] = ofType(ABI.NFT_MSG_NEWTABLE, ABI.NFTA_TABLE_NAME);
  if (table === undefined) return undefined;
  const rules = ofType(ABI.NFT_MSG_NEWRULE, ABI.NFTA_RULE_TABLE);
  const elements = ofType(ABI.NFT_MSG_NEWSETELEM, ABI.NFTA_SET_ELEM_LIST_TABLE);
  return {
    name,
    isDormant: ((table.u32(ABI.NFTA_TABLE_FLAGS) ?? 0) & ABI.NFT_TABLE_F_DORMANT) !== 0,
    chains: ofType(ABI.NFT_MSG_NEWCHAIN, ABI.NFTA_CHAIN_TABLE).map((chain) => readChain(chain, rules)),
    // Anonymous sets belong to their rule, which is shown.
    sets: ofType(ABI.NFT_MSG_NEWSET, ABI.NFTA_SET_TABLE)
      .map((set) => readSet(set, elements))
      .filter((set) => (set.flags & NFT_SET_ANONYMOUS) === 0),
  };
}

/** linux/netfilter/nf_tables.h, enum nft_set_flags */
const NFT_SET_ANONYMOUS = 0x1;

type Attributes = Message['attributes'];

function readChain(chain: Attributes, rules: readonly Attributes[]): KernelChain {
  const name = chain.text(ABI.NFTA_CHAIN_NAME) ?? '';
  const hook = chain.nested(ABI.NFTA_CHAIN_HOOK);
  const number = hook.u32(ABI.NFTA_HOOK_HOOKNUM);
  const decoded = rules
    .filter((rule) => rule.text(ABI.NFTA_RULE_CHAIN) === name)
    .map((rule) => rule.list(ABI.NFTA_RULE_EXPRESSIONS).map(decodeExpression));
  if (number === undefined) return { name, rules: decoded };
  const base = {
    type: chain.text(ABI.NFTA_CHAIN_TYPE) ?? '',
    hook: number === ABI.NF_INET_LOCAL_OUT ? 'output' : `hook ${number}`,
    priority: (hook.u32(ABI.NFTA_HOOK_PRIORITY) ?? 0) | 0,
    policy: chain.u32(ABI.NFTA_CHAIN_POLICY) === ABI.NF_ACCEPT ? ('accept' as const) : ('drop' as const),
  };
  return { name, base, rules: decoded };
}

function readSet(set: Attributes, lists: readonly Attributes[]): KernelSet {
  const name = set.text(ABI.NFTA_SET_NAME) ?? '';
  return {
    name,
    keyType: set.u32(ABI.NFTA_SET_KEY_TYPE) ?? 0,
    keyLength: set.u32(ABI.NFTA_SET_KEY_LEN) ?? 0,
    flags: set.u32(ABI.NFTA_SET_FLAGS) ?? 0,
    elements: lists
      .filter((list) => list.text(ABI.NFTA_SET_ELEM_LIST_SET) === name)
      .flatMap((list) => readSetElements(list.bytes(ABI.NFTA_SET_ELEM_LIST_ELEMENTS))),
  };
}
