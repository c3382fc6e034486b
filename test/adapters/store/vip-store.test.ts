// Leases of addresses on a real disk: they outlive a restart, and a file that cannot be read is moved aside, not lost.
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { FileVipStore } from '../../../src/adapters/store/vip-store.ts';
import { makeIp } from '../../support/services.ts';

async function makePath(t: Test): Promise<string> {
  const dir = await mkdtemp('/tmp/ae-vips-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return join(dir, 'state', 'vips.json');
}

t.test('FileVipStore keeps leases over a restart', async (t) => {
  const path = await makePath(t);
  const store = new FileVipStore(path);
  t.strictSame(await store.load(), { leases: [] });
  const leases = [
    { address: makeIp('10.254.3.7'), service: 'demo/shop' },
    { address: makeIp('fd0a:e7e0::9'), service: 'demo/db', releasedAtMs: 1_700_000_000_123 },
  ];
  await store.save(leases);
  t.strictSame(await new FileVipStore(path).load(), { leases });
  t.equal((await stat(path)).mode & 0o777, 0o600);
});

t.test('FileVipStore writes each list as a new store would, whatever came before it', async (t) => {
  const path = await makePath(t);
  const store = new FileVipStore(path);
  await store.load();
  const lease = (last: number, service = `demo/s${last}`) => ({ address: makeIp(`10.254.0.${last}`), service });
  const all = Array.from({ length: 9 }, (_, index) => lease(index + 1));
  const lists = [
    all.filter((_, index) => index % 2 === 0),
    all,
    all.slice(3),
    [lease(2, 'demo/other'), ...all.slice(3, 5), { ...lease(6), releasedAtMs: 1_700_000_000_000 }, ...all.slice(7)],
    [],
    all.toReversed().slice(4).reverse(),
  ];
  for (const leases of lists) {
    await store.save(leases);
    t.strictSame(await new FileVipStore(path).load(), { leases });
  }
});

t.test('FileVipStore removes what a crash left half written, and nothing of others', async (t) => {
  const path = await makePath(t);
  await new FileVipStore(path).load();
  const left = '.vips.json-ef2e8ba5-3509-4b3f-a7c8-ea093f0c2080.tmp';
  const others = ['.other.json-ef2e8ba5-3509-4b3f-a7c8-ea093f0c2080.tmp', 'vips.json.bak'];
  for (const name of [left, ...others]) await writeFile(join(dirname(path), name), '{');
  await new FileVipStore(path).load();
  t.strictSame(await readdir(dirname(path)), others);
});

t.test('FileVipStore moves aside what it cannot read', async (t) => {
  const cases = [
    '{"leases":',
    '[]',
    '{"leases":[{"address":"x","service":"a/b"}]}',
    '{"leases":[{"address":"10.0.0.1","service":"ab"}]}',
    '{"leases":[{"address":"10.0.0.1","service":"a/b","releasedAt":"soon"}]}',
  ];
  for (const text of cases) {
    const path = await makePath(t);
    const store = new FileVipStore(path);
    await store.load();
    await writeFile(path, text);
    const loaded = await store.load();
    t.strictSame(loaded.leases, [], text);
    t.match(loaded.broken, /vips\.json \(moved to .*\.broken\): /, text);
    t.strictSame(await readdir(join(path, '..')), ['vips.json.broken'], text);
    t.strictSame(await store.load(), { leases: [] }, text);
  }
});
