// The probe asks the real kernel, which lacks nothing, and leaves nothing there. A kernel that lacks a module is played by
// rewriting what the native library answers.
import { readlinkSync } from 'node:fs';
import t from 'tap';
import { ABI } from '../../../src/adapters/kernel/abi.ts';
import type { NativeLibrary } from '../../../src/adapters/kernel/native-library.ts';
import { createKernelProbe } from '../../../src/adapters/kernel/probe-kernel.ts';
import type { Arguments } from '../../../src/adapters/kernel/symbols.ts';
import { openNative } from '../../support/native.ts';
import { listOwnTables } from '../../support/netns.ts';

const native = openNative();

/** Counts the questions; `refuse`: as a kernel without the module of the last message but one. */
function watch(options: { refuse: boolean }): NativeLibrary & { asked: number } {
  const watched = {
    asked: 0,
    call: native.call,
    callOffThread: (async (name: 'ae_transact', ...args: Arguments<'ae_transact'>) => {
      watched.asked++;
      const status = await native.callOffThread(name, ...args);
      if (!options.refuse) return status;
      const outcome = args.at(-1) as Buffer;
      outcome.writeInt32LE(2, 0);
      outcome.writeInt32LE(ABI.AE_STAGE_KERNEL, ABI.OFFSET_AE_OUTCOME_STAGE);
      outcome.writeInt32LE(lastMessage(args[2] as Buffer) - 1, ABI.OFFSET_AE_OUTCOME_MESSAGE);
      return 1;
    }) as NativeLibrary['callOffThread'],
  };
  return watched;
}

function lastMessage(batch: Buffer): number {
  let count = 0;
  for (let at = 0; at < batch.length; at += batch.readUInt32LE(at)) count++;
  return count - 1;
}

t.test('createKernelProbe() finds nothing to miss on this kernel, leaves nothing, and asks no more', async (t) => {
  const before = listOwnTables();
  const own = readlinkSync('/proc/self/ns/net');
  const library = watch({ refuse: false });
  const probe = createKernelProbe(library);
  const start = performance.now();
  t.strictSame(await probe(), []);
  t.comment(`${(performance.now() - start).toFixed(1)} ms`);
  t.equal(library.asked, 2);
  t.strictSame(await probe(), []);
  t.equal(library.asked, 2);
  t.strictSame(listOwnTables(), before);
  t.equal(readlinkSync('/proc/self/ns/net'), own);
});

t.test('K083 createKernelProbe() names the module that the kernel lacks, and asks again', async (t) => {
  const library = watch({ refuse: true });
  const probe = createKernelProbe(library);
  const problems = await probe();
  t.equal(problems.length, 2);
  t.match(problems[0], /try table inet aether .*: kernel lacks nft_redir \(ENOENT\)$/);
  t.match(problems[1], /try table inet aether_mesh .*: kernel lacks nft_redir \(ENOENT\)$/);
  await probe();
  t.equal(library.asked, 4);
});
