// All tables of a namespace by name, with how many rules each has: to say what else is there besides ours.
import type { NetnsPath } from '../../core/identifiers.ts';
import { ABI } from './abi.ts';
import { collectReplies } from './collect-replies.ts';
import { errnoName, kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';
import { type Request, readMessages } from './netlink.ts';
import { missingModule } from './netns-error.ts';

export interface TableSummary {
  /** As nft names it: `inet`, `ip`; `family 12` for one that it does not know. */
  readonly family: string;
  readonly name: string;
  readonly ruleCount: number;
}

/** linux/netfilter.h, NFPROTO_* */
const FAMILIES: ReadonlyMap<number, string> = new Map([
  [1, 'inet'],
  [2, 'ip'],
  [3, 'arp'],
  [5, 'netdev'],
  [7, 'bridge'],
  [10, 'ip6'],
]);
/** Every family. */
const NFPROTO_UNSPEC = 0;

/** Sorted by family and name as the kernel gives them. Throws NetnsError, KernelError. */
export async function listTables(native: NativeLibrary, netns: NetnsPath): Promise<readonly TableSummary[]> {
  const what = 'list tables';
  const dump = { flags: ABI.NLM_F_DUMP, family: NFPROTO_UNSPEC };
  const requests: readonly Request[] = [
    { ...dump, type: ABI.NFT_MSG_GETTABLE, seq: 1 },
    { ...dump, type: ABI.NFT_MSG_GETRULE, seq: 2 },
  ];
  const messages = [...readMessages((await collectReplies(native, netns, { what, requests })).bytes)];
  const failed = messages.find(({ errno }) => errno !== 0 && errnoName(errno) !== 'ENOENT');
  if (failed !== undefined) {
    const why = missingModule(failed.errno, 'nf_tables');
    throw kernelError(`${what} in network namespace "${netns}"`, failed.errno, why);
  }
  const rules = messages
    .filter(({ type }) => type === ABI.NFT_MSG_NEWRULE)
    .map(({ family, attributes }) => `${family} ${attributes.text(ABI.NFTA_RULE_TABLE)}`);
  return messages
    .filter(({ type }) => type === ABI.NFT_MSG_NEWTABLE)
    .map(({ family, attributes }) => {
      const name = attributes.text(ABI.NFTA_TABLE_NAME) ?? '';
      const ruleCount = rules.filter((rule) => rule === `${family} ${name}`).length;
      return { family: FAMILIES.get(family) ?? `family ${family}`, name, ruleCount };
    });
}
