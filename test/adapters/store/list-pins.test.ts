// Root only: a pin is a mount.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { listOldPins, listPins } from '../../../src/adapters/store/list-pins.ts';
import { makeNetns } from '../../support/netns.ts';

t.test('listPins() lists pins and what a crash left of one, not what others put there (K014)', async (t) => {
  const dir = mkdtempSync('/tmp/ae-pins-');
  t.teardown(() => {
    execFileSync('umount', [join(dir, 'b')]);
    rmSync(dir, { recursive: true });
  });
  t.strictSame(await listPins(join(dir, 'none')), []);
  for (const name of ['b', 'a', '.lock']) writeFileSync(join(dir, name), '');
  execFileSync('mount', ['--bind', makeNetns(t, 'pins').path, join(dir, 'b')]);
  writeFileSync(join(dir, 'README'), 'not ours');
  mkdirSync(join(dir, 'folder'));
  symlinkSync('/nowhere/at/all', join(dir, 'link'));
  t.strictSame(await listPins(dir), ['a', 'b']);
});

t.test('listOldPins() lists those whose ADD began long ago', async (t) => {
  const base = mkdtempSync('/tmp/ae-pins-');
  t.teardown(() => rmSync(base, { recursive: true }));
  const dir = join(base, 'pins');
  for (const path of [dir, `${dir}.attachments`]) mkdirSync(path);
  for (const name of ['old', 'young', 'unnoted']) writeFileSync(join(dir, name), '');
  for (const name of ['old', 'young', 'unpinned']) writeFileSync(join(`${dir}.attachments`, name), '{}');
  for (const name of ['old', 'unpinned']) utimesSync(join(`${dir}.attachments`, name), 1, 1);
  t.strictSame(await listOldPins(dir, { olderThanMs: 60_000 }), ['old']);
  t.strictSame(await listOldPins(join(base, 'none'), { olderThanMs: 60_000 }), []);
});
