// Memory given back by this very process, which goes on to work; and when it is done.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { trimAfterWork, trimMemory } from '../../../src/adapters/kernel/trim-memory.ts';
import { openNative } from '../../support/native.ts';

const native = openNative();

/** KiB of file pages that this process holds. */
function fileKib(): number {
  return Number(/^RssFile:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]);
}

t.test('trimMemory() lets go of file pages, and everything goes on', async (t) => {
  const before = fileKib();
  const bytes = await trimMemory(native);
  const after = fileKib();
  t.ok(bytes > 10 * 1024 ** 2, `${bytes} bytes`);
  t.ok(after < before * 0.8, `${before} KiB before, ${after} after`);
  // Code and constants that were let go are read again: relocated data and patched pages were not.
  for (let round = 0; round < 20; round++) {
    await trimMemory(native);
    t.equal(JSON.parse(JSON.stringify({ round })).round, round);
    t.equal('ÄÖ'.normalize('NFD').toLocaleLowerCase('de').length, 4);
    t.throws(() => JSON.parse('{'), SyntaxError);
  }
});

t.test('trimAfterWork() trims once when the work is over, and again only after more', async (t) => {
  let trims = 0;
  using work = trimAfterWork(() => trims++, { quietMs: 600 });
  await sleep(800);
  t.equal(trims, 0, 'nothing was done');
  const end = performance.now() + 1400;
  while (performance.now() < end) {
    work.touch();
    await sleep(5);
  }
  t.equal(trims, 0, 'not while there is work');
  const timeOut = performance.now() + 20_000;
  while (trims === 0 && performance.now() < timeOut) await sleep(10);
  await sleep(1200);
  t.equal(trims, 1);
  work.touch();
  while (trims === 1 && performance.now() < timeOut) await sleep(10);
  t.equal(trims, 2);
});

t.test('trimAfterWork() does nothing any more when it was disposed of', async (t) => {
  let trims = 0;
  const work = trimAfterWork(() => trims++, { quietMs: 50 });
  work.touch();
  work[Symbol.dispose]();
  await sleep(200);
  t.equal(trims, 0);
});
