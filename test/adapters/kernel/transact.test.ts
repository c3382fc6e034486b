// What becomes of a kernel's refusal: which message it is pinned on, and what people read. The kernel that lacks a module is
// played by a library that answers as such a kernel does; the order of answers is the real kernel's.
import t from 'tap';
import { ABI } from '../../../src/adapters/kernel/abi.ts';
import { BatchWriter } from '../../../src/adapters/kernel/batch-writer.ts';
import { encodeTable } from '../../../src/adapters/kernel/encode-batch.ts';
import type { NativeLibrary } from '../../../src/adapters/kernel/native-library.ts';
import { transact } from '../../../src/adapters/kernel/transact.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { NetnsPath } from '../../../src/core/identifiers.ts';
import type { Table } from '../../../src/nft/model.ts';
import { ip, MESH, REDIRECT_ALL, SCOPED } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { makeNetns, nftIn } from '../../support/netns.ts';

const native = openNative();
const NETNS = '/run/netns/ae-none' as NetnsPath;

/** A kernel that refuses this message. */
function refusing(answer: { readonly message: number; readonly errno: number }): NativeLibrary {
  return {
    call: native.call,
    callOffThread: (async (_name: string, ...args: readonly unknown[]) => {
      const outcome = args.at(-1) as Buffer;
      outcome.writeInt32LE(answer.errno, 0);
      outcome.writeInt32LE(ABI.AE_STAGE_KERNEL, ABI.OFFSET_AE_OUTCOME_STAGE);
      outcome.writeInt32LE(answer.message, ABI.OFFSET_AE_OUTCOME_MESSAGE);
      return 1;
    }) as unknown as NativeLibrary['callOffThread'],
  };
}

const plugin = planPluginTable({ ...REDIRECT_ALL, dns: { address: ip('192.0.2.1'), port: 18054 } });
const mesh = planMeshTable(SCOPED, MESH);
const [ENOENT, EINVAL, EPERM, EOPNOTSUPP] = [2, 22, 1, 95];

const REFUSALS: readonly (readonly [table: Table, what: string, errno: number, want: string])[] = [
  [plugin, 'begin of the batch', EOPNOTSUPP, 'begin of the batch: kernel lacks nf_tables (EOPNOTSUPP)'],
  [plugin, 'table inet aether', EOPNOTSUPP, 'table inet aether: kernel lacks nf_tables (EOPNOTSUPP)'],
  [plugin, 'table inet aether', EPERM, 'table inet aether: EPERM'],
  [plugin, 'chain "output"', ENOENT, 'chain "output": kernel lacks nft_chain_nat (ENOENT)'],
  [plugin, 'chain "output"', EOPNOTSUPP, 'chain "output": kernel lacks nft_chain_nat (EOPNOTSUPP)'],
  [plugin, 'rule "udp dport 18081', ENOENT, 'redirect to :18001": kernel lacks nft_redir (ENOENT)'],
  [plugin, 'rule "udp dport 53', ENOENT, 'dnat ip to 192.0.2.1:18054": kernel lacks nft_nat (ENOENT)'],
  [mesh, 'rule "tcp dport 18082 ip daddr @mesh_vip4', ENOENT, 'tcp reset": kernel lacks nft_reject_inet (ENOENT)'],
  [plugin, 'rule "tcp dport 18081', EINVAL, 'rule "tcp dport 18081 redirect to :18001": EINVAL'],
  [plugin, 'rule "meta mark', ENOENT, 'rule "meta mark 0x0000ae7e accept": ENOENT'],
];

for (const [table, what, errno, want] of REFUSALS) {
  t.test(`K083 transact() says of errno ${errno} for ${what}: ${want}`, async (t) => {
    const batch = encodeTable(native, table, 'create');
    const message = batch.labels.findIndex((label) => label.what.startsWith(what));
    t.not(message, -1);
    const [outcome] = await transact(refusing({ message, errno }), [NETNS], { batch });
    t.match(outcome?.failure, { message });
    const error = outcome?.failure?.toError('replace table inet aether');
    t.match(error, { code: 'E_KERNEL', errno });
    t.ok(error?.message.endsWith(want), `${error?.message}`);
    t.notMatch(error?.message, /no such file/i);
  });
}

t.test('K086 transact() pins a refusal on the first message refused, by its number', async (t) => {
  const netns = makeNetns(t, 'act');
  const [firstSet, ...otherSets] = mesh.sets;
  t.ok(firstSet);
  // Without two of its sets: the rules that look there are refused, one after another.
  const broken: Table = { ...mesh, sets: otherSets.slice(0, -1) };
  const batch = encodeTable(native, broken, 'create');
  const [outcome] = await transact(native, [netns.path], { batch });
  const wanted = batch.labels.findIndex(({ what }) => what.includes('@mesh_tcp4'));
  t.equal(outcome?.failure?.message, wanted, `${batch.labels[wanted]?.what}`);
  t.equal(nftIn(netns, 'list', 'ruleset'), '');
});

t.test('K086 transact() of a good batch after and beside a bad one has its own answer', async (t) => {
  const netns = makeNetns(t, 'act');
  const good = encodeTable(native, plugin, 'create');
  const bad = encodeTable(native, { ...mesh, sets: [] }, 'create');
  for (let round = 0; round < 20; round++) {
    const pairs = await Promise.all([bad, good, bad].map((batch) => transact(native, [netns.path], { batch })));
    const names = pairs.map(([outcome]) => outcome?.failure?.errnoName ?? 'done');
    t.strictSame(names, ['ENOENT', round === 0 ? 'done' : 'EEXIST', 'ENOENT']);
  }
});

t.test('K086 transact() names the message of a batch with two refusals of different kinds', async (t) => {
  const netns = makeNetns(t, 'act');
  await transact(native, [netns.path], { batch: encodeTable(native, plugin, 'create') });
  const writer = new BatchWriter(native);
  writer.message(ABI.NFT_MSG_NEWTABLE, { flags: ABI.NLM_F_CREATE, label: { what: 'nothing in it' } }, () => undefined);
  writer.message(200, { label: { what: 'of the future', isNewer: true } }, () => undefined);
  const [outcome] = await transact(native, [netns.path], { batch: writer.finish({ mayDelete: false }) });
  t.match(outcome?.failure, { message: 1, errnoName: 'EINVAL', isUnknownMessage: false });
});
