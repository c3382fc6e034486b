// Notes of attachments: the first stands, a cut one is replaced, foreign files are left out.
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { attachmentBook, listContainerIds } from '../../../src/adapters/store/attachment-book.ts';
import { StoreError } from '../../../src/core/errors.ts';
import type { ContainerId, NetnsPath } from '../../../src/core/identifiers.ts';

const base = mkdtempSync('/tmp/ae-book-');
t.teardown(() => rmSync(base, { recursive: true, force: true }));
const id = 'c1' as ContainerId;
const note = { containerId: id, ifname: 'eth0', network: 'net' };

t.test('claim() writes a note that stands', async (t) => {
  const dir = join(base, 'x/claims');
  t.strictSame(await attachmentBook.claim(dir, note), note);
  t.equal(statSync(join(dir, 'c1')).mode & 0o777, 0o600);
  t.strictSame(await attachmentBook.claim(dir, { ...note, ifname: 'net1', network: 'other' }), note);
  t.strictSame(await attachmentBook.find(dir, id), note);
  t.strictSame(await attachmentBook.list(dir), [note]);
});

t.test('claim() keeps the path of a container without a pin; what is no path is left out', async (t) => {
  const dir = join(base, 'paths');
  const pinless = { ...note, netns: '/run/netns/a' as NetnsPath };
  await attachmentBook.claim(dir, pinless);
  t.strictSame(await attachmentBook.find(dir, id), pinless);
  writeFileSync(join(dir, 'c1'), JSON.stringify({ ifname: 'eth0', network: 'net', netns: 'x' }));
  t.strictSame(await attachmentBook.find(dir, id), note);
});

t.test('claim() lets one of many win', async (t) => {
  const dir = join(base, 'race');
  const claims = ['a', 'b', 'c', 'd'].map((ifname) => attachmentBook.claim(dir, { ...note, ifname }));
  const standing = new Set((await Promise.all(claims)).map(({ ifname }) => ifname));
  t.equal(standing.size, 1);
});

t.test('claim() writes through no link', async (t) => {
  const dir = join(base, 'link');
  const target = join(base, 'target');
  mkdirSync(dir);
  writeFileSync(target, 'theirs');
  symlinkSync(target, join(dir, 'c1'));
  await t.rejects(attachmentBook.claim(dir, note), StoreError);
  t.equal(readFileSync(target, 'utf8'), 'theirs');
  await attachmentBook.release(dir, id);
  t.strictSame([readdirSync(dir), readFileSync(target, 'utf8')], [[], 'theirs']);
});

t.test('claim() replaces a note that a crash cut', async (t) => {
  const dir = join(base, 'cut');
  mkdirSync(dir);
  for (const text of ['', '{"ifname":"eth', 'null', '{"ifname":1,"network":"x"}']) {
    writeFileSync(join(dir, 'c1'), text);
    t.equal(await attachmentBook.find(dir, id), undefined);
    t.strictSame(await attachmentBook.claim(dir, note), note);
    t.strictSame(await attachmentBook.find(dir, id), note);
  }
});

t.test('release() is fine when there is none', async (t) => {
  const dir = join(base, 'release');
  await attachmentBook.release(dir, id);
  await attachmentBook.claim(dir, note);
  await attachmentBook.release(dir, id);
  t.equal(await attachmentBook.find(dir, id), undefined);
});

t.test('listContainerIds() leaves foreign files out (K014)', async (t) => {
  const dir = join(base, 'foreign');
  t.strictSame(await listContainerIds(dir), []);
  mkdirSync(dir);
  for (const name of ['.lock', '.x.tmp', 'b', 'a', 'x y']) writeFileSync(join(dir, name), 'not ours');
  t.strictSame(await listContainerIds(dir), ['a', 'b']);
  t.strictSame(await attachmentBook.list(dir), []);
});

t.test('claim() and find() do not wait for a pipe that others put there (K014)', async (t) => {
  const dir = join(base, 'pipes');
  mkdirSync(dir);
  execFileSync('mkfifo', [join(dir, id)]);
  t.equal(await attachmentBook.find(dir, id), undefined);
  await t.rejects(attachmentBook.claim(dir, note), { message: /writing .*pipes/ });
});

t.test('claim() leaves nothing where there is no room for a note', async (t) => {
  const dir = join(base, 'full');
  mkdirSync(dir);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4096', 'tmpfs', dir]);
  t.teardown(() => execFileSync('umount', ['-l', dir]));
  writeFileSync(join(dir, 'filler'), 'x'.repeat(4096));
  for (const cut of [false, true]) {
    if (cut) writeFileSync(join(dir, id), '');
    await t.rejects(attachmentBook.claim(dir, note), { code: 'E_STORE', message: /ENOSPC/ });
    t.strictSame(readdirSync(dir), ['filler']);
  }
});

t.test('list() has notes that a crash kept from being written', async (t) => {
  const dir = join(base, 'unwritten');
  await attachmentBook.claim(dir, note);
  writeFileSync(join(dir, 'c2'), '');
  t.match(await attachmentBook.list(dir), [note, { containerId: 'c2', network: '' }]);
});

t.test('a directory that is a file is a StoreError', async (t) => {
  const dir = join(base, 'file');
  writeFileSync(dir, '');
  await t.rejects(attachmentBook.claim(dir, note), StoreError);
  await t.rejects(listContainerIds(dir), StoreError);
  t.equal(await attachmentBook.find(dir, id), undefined);
});
