// When a build step may be skipped: its stamp follows contents and facts of what it reads, here in a temporary directory.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { hashInputs, isStamped, listFiles, writeStamp } from '../../scripts/stamp.ts';

const dir = mkdtempSync('/tmp/ae-stamp-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
mkdirSync(join(dir, 'b'));
const [first, second] = [join(dir, 'a.txt'), join(dir, 'b/c.txt')];
writeFileSync(first, 'one');
writeFileSync(second, 'two');

t.test('listFiles() lists a tree sorted, a file as itself, and nothing for a missing path', async (t) => {
  t.same(listFiles(dir), [first, second]);
  t.same(listFiles(first), [first]);
  t.same(listFiles(join(dir, 'missing')), []);
});

t.test('hashInputs() changes with a content, a name and a fact', async (t) => {
  const before = hashInputs([first], ['v1']);
  t.equal(hashInputs([first], ['v1']), before);
  copyFileSync(first, join(dir, 'copy'));
  t.not(hashInputs([join(dir, 'copy')], ['v1']), before);
  t.not(hashInputs([first], ['v2']), before);
  writeFileSync(first, 'three');
  t.not(hashInputs([first], ['v1']), before);
});

t.test('isStamped() holds for the hash that was written, and for no other', async (t) => {
  const stamp = join(dir, 'stamp');
  t.notOk(isStamped(stamp, 'x'));
  writeStamp(stamp, 'x');
  t.ok(isStamped(stamp, 'x'));
  t.notOk(isStamped(stamp, 'y'));
});
