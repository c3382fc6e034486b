import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { FileRemovalQueue } from '../../../src/adapters/store/removal-queue.ts';

t.test('FileRemovalQueue lists container ids by the names of files, oldest first', async (t) => {
  const base = await mkdtemp('/tmp/ae-queue-');
  t.teardown(() => rm(base, { recursive: true, force: true }));
  const dir = join(base, 'delete-queue');
  const queue = new FileRemovalQueue(dir);
  t.strictSame(await queue.list(), [], 'a directory that is not there');
  await mkdir(dir);
  for (const [name, seconds] of [
    ['b.json', 20],
    ['a.json', 30],
    ['c.json', 10],
    ['.d.json', 1],
    ['x y.json', 1],
    ['e.tmp', 1],
  ] as const) {
    await writeFile(join(dir, name), name === 'a.json' ? '{' : '{}');
    await utimes(join(dir, name), seconds, seconds);
  }
  const ids = await queue.list();
  t.strictSame(ids, ['c', 'b', 'a']);
  for (const id of ids) await queue.destroy(id);
  for (const id of ids) await queue.destroy(id);
  t.strictSame((await readdir(dir)).sort(), ['.d.json', 'e.tmp', 'x y.json']);
});

t.test('FileRemovalQueue leaves out what others put there, and goes on (K014)', async (t) => {
  const dir = await mkdtemp('/tmp/ae-queue-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  await mkdir(join(dir, 'folder.json'));
  await symlink('/nowhere/at/all', join(dir, 'link.json'));
  await writeFile(join(dir, 'c1.json'), '');
  t.strictSame(await new FileRemovalQueue(dir).list(), ['c1']);
});
