import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
