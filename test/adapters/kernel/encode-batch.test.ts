// The batches themselves against the running kernel: which messages it knows, which it refuses, and that nothing leaks.
import t from 'tap';
import { NEWER_THAN_HEADERS } from '../../../src/adapters/kernel/abi.ts';
import { BatchWriter } from '../../../src/adapters/kernel/batch-writer.ts';
import { encodeDestroyTables, encodeElementChange, encodeTable } from '../../../src/adapters/kernel/encode-batch.ts';
import { Handle } from '../../../src/adapters/kernel/handle.ts';
import { transact } from '../../../src/adapters/kernel/transact.ts';
import { planMeshChange, planMeshTable } from '../../../src/capture/mesh-table.ts';
import { NativeError } from '../../../src/core/errors.ts';
import { MESH, SCOPED, TABLES } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { makeNetns, nftIn } from '../../support/netns.ts';

const native = openNative();
const table = planMeshTable(SCOPED, MESH);

t.test('NFT_MSG_DESTROYTABLE removes a table, and does not mind its absence', async (t) => {
  const netns = makeNetns(t, 'batch');
  const destroy = encodeDestroyTables(native, [table.name], { legacy: false });
  t.strictSame(await transact(native, [netns.path], { batch: destroy }), [{ netns: netns.path }], 'fresh namespace');
  t.strictSame(await transact(native, [netns.path], { batch: encodeTable(native, table, 'create') }), [
    { netns: netns.path },
  ]);
  t.strictSame(await transact(native, [netns.path], { batch: destroy }), [{ netns: netns.path }], 'existing table');
  t.equal(nftIn(netns, 'list', 'ruleset'), '');
});

t.test('NFT_MSG_DESTROYSETELEM removes elements, and does not mind their absence', async (t) => {
  const netns = makeNetns(t, 'batch');
  const change = planMeshChange(MESH, { tcp: [], vip: [], shim: [] });
  if (change === undefined) throw new Error('nothing changes');
  await transact(native, [netns.path], { batch: encodeTable(native, table, 'create') });
  const destroy = encodeElementChange(native, change, { legacy: false });
  for (const when of ['present', 'absent']) {
    t.strictSame(await transact(native, [netns.path], { batch: destroy }), [{ netns: netns.path }], when);
    t.notMatch(nftIn(netns, 'list', 'ruleset'), 'elements');
  }
});

t.test('transact() tells a message type that the kernel does not know from other refusals', async (t) => {
  const netns = makeNetns(t, 'batch');
  const writer = new BatchWriter(native);
  writer.message(200, { label: { what: 'a message of the future', isNewer: true } }, () => undefined);
  const [unknown] = await transact(native, [netns.path], { batch: writer.finish({ mayDelete: false }) });
  t.match(unknown?.failure, { isUnknownMessage: true, message: 1 });
  await transact(native, [netns.path], { batch: encodeTable(native, table, 'create') });
  const [exists] = await transact(native, [netns.path], { batch: encodeTable(native, table, 'create') });
  t.match(exists?.failure, { isUnknownMessage: false, message: 1, errnoName: 'EEXIST' });
});

t.test('encodeTable() labels every message of the batch', (t) => {
  const { labels, bytes } = encodeTable(native, table, 'destroy');
  const types: number[] = [];
  for (let at = 0; at < bytes.length; at += bytes.readUInt32LE(at)) types.push(bytes.readUInt16LE(at + 4) & 0xff);
  t.equal(types.length, labels.length);
  t.equal(types[1], NEWER_THAN_HEADERS.NFT_MSG_DESTROYTABLE);
  t.strictSame(labels.filter(({ what }) => what.startsWith('rule')).length, table.chains[0]?.rules.length);
  t.end();
});

t.test('encodeTable() of one table gives the same bytes every time, and frees what it makes', (t) => {
  const [sample] = Object.values(TABLES);
  if (sample === undefined) throw new Error('no table');
  const first = encodeTable(native, sample, 'destroy').bytes;
  const same = Array.from({ length: 300 }, () => encodeTable(native, sample, 'destroy').bytes.equals(first));
  t.notOk(same.includes(false));
  const before = process.memoryUsage.rss();
  for (let i = 0; i < 300; i++) encodeTable(native, sample, 'destroy');
  const grownMb = (process.memoryUsage.rss() - before) / 1e6;
  t.ok(grownMb < 60, `grew by ${grownMb.toFixed(1)} MB`);
  t.end();
});

t.test('Handle is freed once, refuses use afterwards, and leaves what was taken alone', (t) => {
  const handle = Handle.allocate(native, 'rule');
  handle[Symbol.dispose]();
  handle[Symbol.dispose]();
  t.throws(() => handle.pointer, NativeError);
  using rule = Handle.allocate(native, 'rule');
  {
    using expression = Handle.allocateExpression(native, 'meta');
    native.call('nftnl_rule_add_expr', rule.pointer, expression.take());
    t.throws(() => expression.pointer, NativeError);
  }
  t.throws(() => Handle.allocateExpression(native, 'no such expression'), NativeError);
  t.end();
});
