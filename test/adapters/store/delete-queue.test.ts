// Removals on disk: made once, root's alone, read by the agent's end.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { deleteQueue } from '../../../src/adapters/store/delete-queue.ts';
import { FileRemovalQueue } from '../../../src/adapters/store/removal-queue.ts';
import { StoreError } from '../../../src/core/errors.ts';
import type { ContainerId } from '../../../src/core/identifiers.ts';

const base = mkdtempSync('/tmp/ae-queue-');
t.teardown(() => rmSync(base, { recursive: true, force: true }));
const entry = { containerId: 'c1' as ContainerId, name: 'shop-0', namespace: 'demo' };

t.test('enqueue() makes directory and file for root alone', async (t) => {
  const dir = join(base, 'a/b');
  await deleteQueue.enqueue({ dir, ...entry });
  t.equal(statSync(dir).mode & 0o777, 0o700);
  t.equal(statSync(join(base, 'a')).mode & 0o777, 0o755, 'what it stands in is for others too');
  t.equal(statSync(join(dir, 'c1.json')).mode & 0o777, 0o600);
  t.strictSame(JSON.parse(readFileSync(join(dir, 'c1.json'), 'utf8')), entry);
  t.strictSame(await new FileRemovalQueue(dir).list(), ['c1'], 'the agent reads it');
});

t.test('enqueue() leaves what is queued', async (t) => {
  const dir = join(base, 'twice');
  await deleteQueue.enqueue({ dir, ...entry });
  writeFileSync(join(dir, 'c1.json'), 'cut');
  await Promise.all([deleteQueue.enqueue({ dir, ...entry }), deleteQueue.enqueue({ dir, ...entry })]);
  t.equal(readFileSync(join(dir, 'c1.json'), 'utf8'), 'cut');
  t.strictSame(readdirSync(dir), ['c1.json']);
});

t.test('enqueue() of a removal that is not due yet hides it from the agent until then', async (t) => {
  const dir = join(base, 'later');
  await deleteQueue.enqueue({ dir, ...entry, notBefore: new Date(Date.now() + 60_000) });
  t.strictSame(await new FileRemovalQueue(dir).list(), []);
  const soon = { ...entry, containerId: 'c2' as ContainerId, notBefore: new Date(Date.now() - 1000) };
  await deleteQueue.enqueue({ dir, ...soon });
  t.strictSame(await new FileRemovalQueue(dir).list(), ['c2']);
  await deleteQueue.enqueue({ dir, ...entry, notBefore: new Date(0) });
  t.strictSame(await new FileRemovalQueue(dir).list(), ['c2'], 'what is queued keeps its time');
});

t.test('enqueue() never shows the agent a removal that is not due, nor leaves anything beside it', async (t) => {
  const dir = join(base, 'watched');
  const queue = new FileRemovalQueue(dir);
  let isOver = false;
  const due: string[] = [];
  const looking = (async () => {
    while (!isOver) due.push(...(await queue.list()));
  })();
  const notBefore = new Date(Date.now() + 60_000);
  for (let round = 0; round < 50; round++) {
    await deleteQueue.enqueue({ dir, ...entry, containerId: `c${round}` as ContainerId, notBefore });
  }
  isOver = true;
  await looking;
  t.strictSame(due, []);
  t.equal(readdirSync(dir).filter((name) => name.endsWith('.json')).length, 50);
  t.equal(readdirSync(dir).length, 50);
});

t.test('enqueue() needs no more than the name of a file on a full disk', async (t) => {
  const dir = join(base, 'full');
  mkdirSync(dir);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4096', 'tmpfs', dir]);
  t.teardown(() => execFileSync('umount', ['-l', dir]));
  writeFileSync(join(dir, 'filler'), 'x'.repeat(4096));
  await deleteQueue.enqueue({ dir, ...entry });
  await deleteQueue.enqueue({ dir, ...entry, containerId: 'c2' as ContainerId, notBefore: new Date(0) });
  t.strictSame([...(await new FileRemovalQueue(dir).list())].sort(), ['c1', 'c2']);
});

t.test('enqueue() names what it could not write', async (t) => {
  writeFileSync(join(base, 'file'), '');
  const error = await deleteQueue.enqueue({ dir: join(base, 'file'), ...entry }).catch((thrown: unknown) => thrown);
  t.type(error, StoreError);
  t.match(error, { message: /queueing the removal .*file/ });
});
