// The files that a plugin leaves for an agent that was away: their names count even where their contents are cut, and what
// others put there stays.
import { mkdir, mkdtemp, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import t from 'tap';
import { temporaryPathOf } from '../../../src/adapters/store/atomic-file.ts';
import { FileRemovalQueue } from '../../../src/adapters/store/removal-queue.ts';
import type { ContainerId } from '../../../src/core/identifiers.ts';

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

t.test('FileRemovalQueue postpones a removal whose pin may not go yet', async (t) => {
  const dir = await mkdtemp('/tmp/ae-queue-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const queue = new FileRemovalQueue(dir);
  const soon = new Date(Date.now() + 600_000);
  const contents = [
    '',
    '{"unpinNot',
    'null',
    '{}',
    '{"unpinNotBefore":"soon"}',
    '{"unpinNotBefore":"2001-01-01T00:00:00Z"}',
  ];
  for (const content of contents) {
    await writeFile(join(dir, 'c1.json'), content);
    t.equal(await queue.postpone('c1' as ContainerId), false, content);
  }
  t.strictSame(await queue.list(), ['c1']);
  await writeFile(join(dir, 'c1.json'), JSON.stringify({ containerId: 'c1', unpinNotBefore: soon }));
  t.equal(await queue.postpone('c1' as ContainerId), true);
  t.strictSame(await queue.list(), []);
  t.equal((await stat(join(dir, 'c1.json'))).mtimeMs, soon.getTime());
  t.equal(await queue.postpone('absent' as ContainerId), false);
});

t.test('FileRemovalQueue knows the path of the runtime, where one was given', async (t) => {
  const dir = await mkdtemp('/tmp/ae-queue-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const queue = new FileRemovalQueue(dir);
  const id = 'c1' as ContainerId;
  t.equal(await queue.findNetns(id), undefined);
  for (const content of ['', '{"netns":"/run/net', '[]', '{}', '{"netns":7}', '{"netns":"run/netns/a"}']) {
    await writeFile(join(dir, 'c1.json'), content);
    t.equal(await queue.findNetns(id), undefined, content);
  }
  await writeFile(join(dir, 'c1.json'), '{"containerId":"c1","netns":"/run/netns/a"}');
  t.equal(await queue.findNetns(id), '/run/netns/a');
});

t.test('FileRemovalQueue leaves out what others put there, and goes on (K014)', async (t) => {
  const dir = await mkdtemp('/tmp/ae-queue-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  await mkdir(join(dir, 'folder.json'));
  await symlink('/nowhere/at/all', join(dir, 'link.json'));
  await writeFile(join(dir, 'c1.json'), '');
  const queue = new FileRemovalQueue(dir);
  t.strictSame(await queue.list(), ['c1']);
  for (const name of ['c1', 'folder', 'link']) await queue.destroy(name as ContainerId);
  t.strictSame((await readdir(dir)).sort(), ['folder.json', 'link.json'], 'nor are they removed');
});

t.test('FileRemovalQueue removes what a killed plugin left half written long ago', async (t) => {
  const dir = await mkdtemp('/tmp/ae-queue-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const [old, fresh] = [temporaryPathOf(join(dir, 'c1.json')), temporaryPathOf(join(dir, 'c2.json'))];
  for (const path of [old, fresh]) await writeFile(path, '');
  await utimes(old, 1, 1);
  t.strictSame(await new FileRemovalQueue(dir).list(), []);
  t.strictSame(await readdir(dir), [basename(fresh)]);
});
