// Root only: a pin is a mount.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { listPins } from '../../../src/adapters/store/list-pins.ts';
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
