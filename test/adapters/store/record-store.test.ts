// Pods' records on a real disk, root's alone. A file that is no record is named, and keeps no other from being read.
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { FileRecordStore } from '../../../src/adapters/store/record-store.ts';
import type { PodRecord } from '../../../src/mesh/workload.ts';

const RECORD: PodRecord = {
  name: 'shop-0',
  namespace: 'demo',
  networkNamespace: '/run/aether/netns/c1',
  containerId: 'c1',
  ips: ['10.1.2.3', 'fd00::3'],
  labels: {},
  annotations: { 'endpoint.aether.io/port': '8080' },
  serviceAccount: 'shop',
  terminating: false,
  uid: 'u1',
};

async function makeStore(t: Test): Promise<{ dir: string; store: FileRecordStore }> {
  const base = await mkdtemp('/tmp/ae-records-');
  t.teardown(() => rm(base, { recursive: true, force: true }));
  const dir = join(base, 'registry');
  const store = new FileRecordStore(dir);
  await store.load();
  return { dir, store };
}

t.test('FileRecordStore keeps a record over a restart, root-only', async (t) => {
  const { dir, store } = await makeStore(t);
  await store.put(RECORD);
  t.match((await new FileRecordStore(dir).load()).records, [RECORD]);
  t.equal((await stat(dir)).mode & 0o777, 0o700);
  t.equal((await stat(join(dir, 'c1.json'))).mode & 0o777, 0o600);
  t.strictSame(await readdir(dir), ['c1.json'], 'nothing else is left');
  t.match(JSON.parse(await readFile(join(dir, 'c1.json'), 'utf8')), { containerId: 'c1', serviceAccount: 'shop' });
});

t.test(
  'FileRecordStore.load() leaves the mode of a directory that is in use, unless others may write to it',
  async (t) => {
    const { dir, store } = await makeStore(t);
    await chmod(dir, 0o755);
    await store.load();
    t.equal((await stat(dir)).mode & 0o777, 0o700, 'an empty one is taken');
    await store.put(RECORD);
    await chmod(dir, 0o755);
    await store.load();
    t.equal((await stat(dir)).mode & 0o777, 0o755);
    await chmod(dir, 0o1777);
    await t.rejects(store.load(), { code: 'E_STORE', message: /others may write to it \(mode 1777\)/ });
    t.equal((await stat(dir)).mode & 0o7777, 0o1777);
  },
);

t.test('FileRecordStore.put() replaces; destroy() is fine when absent', async (t) => {
  const { store } = await makeStore(t);
  await store.put(RECORD);
  await store.put({ ...RECORD, ips: ['10.1.2.4'] });
  t.strictSame(
    (await store.load()).records.map((record) => record.ips),
    [['10.1.2.4']],
  );
  await store.destroy('c1');
  await store.destroy('c1');
  t.strictSame((await store.load()).records, []);
});

t.test('FileRecordStore.load() names what is no record and reads the rest (K014)', async (t) => {
  const { dir, store } = await makeStore(t);
  await store.put(RECORD);
  await writeFile(join(dir, 'cut.json'), '{"name":"x", "contai');
  // What a machine leaves that lost its power: it goes.
  await writeFile(join(dir, 'empty.json'), '');
  await writeFile(join(dir, 'other.json'), await readFile(join(dir, 'c1.json')));
  await writeFile(join(dir, '.c2.json-0a1b2c3d-0000-4000-8000-000000000000.tmp'), 'half');
  await writeFile(join(dir, '.lock'), '');
  await mkdir(join(dir, 'mesh-dns'));
  await mkdir(join(dir, 'folder.json'));
  await symlink('/nowhere/at/all', join(dir, 'link.json'));
  execFileSync('mkfifo', [join(dir, 'pipe.json')]);
  const loaded = await store.load();
  t.strictSame(
    loaded.records.map((record) => record.containerId),
    ['c1'],
  );
  t.strictSame(loaded.broken.map(({ file }) => file).sort(), ['cut.json', 'link.json', 'other.json', 'pipe.json']);
  t.match(loaded.broken.find(({ file }) => file === 'other.json')?.reason, /another container, c1/);
  const kept = ['.lock', 'c1.json', 'cut.json', 'folder.json', 'link.json', 'mesh-dns', 'other.json', 'pipe.json'];
  t.strictSame((await readdir(dir)).sort(), kept);
});

t.test('FileRecordStore.load() gives the oldest first', async (t) => {
  const { dir, store } = await makeStore(t);
  for (const [containerId, seconds] of [
    ['a', 300],
    ['b', 100],
    ['c', 200],
  ] as const) {
    await store.put({ ...RECORD, containerId });
    await utimes(join(dir, `${containerId}.json`), seconds, seconds);
  }
  t.strictSame(
    (await store.load()).records.map((record) => record.containerId),
    ['b', 'c', 'a'],
  );
});

t.test('FileRecordStore refuses a container id that is a path', async (t) => {
  const { store } = await makeStore(t);
  for (const containerId of ['../c1', '', 'a/b', '.hidden']) {
    await t.rejects(store.put({ ...RECORD, containerId }), { code: 'E_STORE' }, containerId);
    await t.rejects(store.destroy(containerId), { code: 'E_STORE' }, containerId);
  }
});
