// The host as it is: files, sockets and mounts that this test makes, or that proc_pid_mountinfo(5) describes.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { listEnvoys } from '../../../src/adapters/host/envoy-processes.ts';
import { createNodeProbe, findMount } from '../../../src/adapters/host/node-probe.ts';

const probe = createNodeProbe({ probeKernel: async () => [] });
const dir = mkdtempSync('/tmp/ae-probe-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

const MOUNTS = [
  '22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda1 rw',
  '25 22 0:22 / /run rw,nosuid shared:5 master:2 - tmpfs tmpfs rw',
  '90 25 0:22 /aether/netns /run/aether/netns rw - tmpfs tmpfs rw',
  '91 25 0:4 net:[4026532] /run/aether/netns/c1 rw shared:9 - nsfs nsfs rw',
  '92 22 0:50 / /mnt/a\\040b rw - tmpfs tmpfs rw',
].join('\n');

const mounts: readonly (readonly [path: string, mountPoint: string, isMount: boolean, isShared: boolean])[] = [
  ['/var/lib/x', '/', false, true],
  ['/run/aether', '/run', false, true],
  ['/run/aether/netns', '/run/aether/netns', true, false],
  ['/runner', '/', false, true],
  ['/mnt/a b/c', '/mnt/a b', false, false],
];
for (const [path, mountPoint, isMount, isShared] of mounts) {
  t.test(`findMount() of ${path}`, async (t) => {
    t.strictSame(findMount(MOUNTS, path), { mountPoint, isMount, isShared });
  });
}

t.test('readSocket() tells an answering socket from a dead one, a file and nothing', async (t) => {
  const path = join(dir, 's.sock');
  const server = createServer().listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  chmodSync(path, 0o640);
  t.strictSame(await probe.readSocket(path), { kind: 'socket', mode: 0o640, uid: 0, isAnswered: true });
  const { rename } = await import('node:fs/promises');
  const dead = join(dir, 'dead.sock');
  await rename(path, dead);
  await new Promise((resolve) => server.close(resolve));
  t.match(await probe.readSocket(dead), { kind: 'socket', isAnswered: false });
  writeFileSync(join(dir, 'file'), '');
  t.match(await probe.readSocket(join(dir, 'file')), { kind: 'other' });
  t.match(await probe.readSocket(join(dir, 'none')), { kind: 'absent' });
});

t.test('readConfFiles() reads what the runtime would, and no folder', async (t) => {
  const conf = join(dir, 'net.d');
  mkdirSync(join(conf, '00-folder.conflist'), { recursive: true });
  writeFileSync(join(conf, '10-a.conflist'), '{}');
  writeFileSync(join(conf, '10-a.conflist.bak'), '{}');
  t.strictSame(
    (await probe.readConfFiles(conf))?.map(({ name }) => name),
    ['10-a.conflist'],
  );
  t.equal(await probe.readConfFiles(join(dir, 'nowhere')), undefined);
});

t.test('readRecords(), listRemovals(), readFile() and readPinDir() of what is not there are empty', async (t) => {
  const none = join(dir, 'nowhere');
  t.strictSame(await probe.readRecords(none), { records: [], broken: [] });
  t.strictSame(await probe.listRemovals(none), []);
  t.match(await probe.readFile(none), { isThere: false });
  t.match(await probe.readPinDir(none), { isThere: false });
});

t.test('readRecords() changes nothing', async (t) => {
  const records = join(dir, 'records');
  mkdirSync(records, { mode: 0o755 });
  writeFileSync(join(records, 'c1.json'), '{"name":');
  writeFileSync(join(records, '.c1.json-01234567-0123-0123-0123-0123456789ab.tmp'), 'half');
  t.match(await probe.readRecords(records), { records: [], broken: [{ file: 'c1.json' }] });
  const { readdir, stat } = await import('node:fs/promises');
  t.equal((await readdir(records)).length, 2);
  t.equal((await stat(records)).mode & 0o777, 0o755);
});

t.test('listEnvoys() leaves out a process that has ended and that nobody waited for', async (t) => {
  const proc = mkdtempSync('/tmp/ae-proc-');
  t.teardown(() => rmSync(proc, { recursive: true, force: true }));
  for (const [pid, cmdline] of [
    ['7', 'envoy\0-c\0/none\0'],
    ['8', ''],
  ] as const) {
    mkdirSync(join(proc, pid));
    writeFileSync(join(proc, pid, 'comm'), 'envoy\n');
    writeFileSync(join(proc, pid, 'cmdline'), cmdline);
  }
  const found = await listEnvoys('/run/x.sock', proc);
  t.strictSame(
    found.map(({ pid }) => pid),
    [7],
  );
});

t.test('listEnvoys() of a host without any is empty or names processes', async (t) => {
  for (const { pid, workers } of await probe.listEnvoys('/run/nowhere.sock')) {
    t.ok(pid > 0);
    t.ok(workers >= 0);
  }
  t.pass();
});
