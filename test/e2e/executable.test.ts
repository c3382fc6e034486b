// The single file's native code: loaded from inside the executable, on hosts that lack everything but glibc, leaving nothing.
// A small executable is made the same way as dist/aether-cni, from test/support/native-probe.ts.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bundle, makeExecutable } from '../../scripts/executable.ts';

const ROOT = join(import.meta.dirname, '../..');
// Not under /tmp, which some cases hide; the source tree itself may be there.
const dir = mkdtempSync('/var/tmp/ae-executable-');
const probe = join(dir, 'probe');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

await bundle({ entry: join(ROOT, 'test/support/native-probe.ts'), output: join(dir, 'probe.cjs') });
await makeExecutable(join(dir, 'probe.cjs'), probe);
const before = readdirSync(dir);

interface Answer {
  readonly paths: Readonly<Record<string, string>>;
  readonly mapped: readonly string[];
}

/** Runs the probe in a mount namespace of its own, prepared by shell lines, without environment, stdin or a writable cwd. */
function runProbe(
  prepare: string,
  wrapper = '',
): {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
} {
  const script = `set -e\n${prepare}\ncd /proc\nexec ${wrapper} env -i '${probe}' <&-`;
  return spawnSync('unshare', ['--mount', 'bash', '-c', script], { encoding: 'utf8' });
}

/** Shell lines that make the directories of a list which exist unfit in one way: `noexec` or `ro`. */
function spoil(option: string, directories: string): string {
  return `for spoilt in ${directories}; do [ ! -d $spoilt ] || mount -t tmpfs -o ${option} tmpfs $spoilt; done`;
}

const FREEZE_DIR = `mount --bind '${dir}' '${dir}'; mount -o remount,bind,ro '${dir}'`;
const PIECES = ['ffi', 'netlink', 'libmnl', 'libnftnl', 'libaether'];

const hosts = [
  { name: 'with an ordinary /dev/shm', prepare: '', holder: '/dev/shm/' },
  { name: 'with a noexec /dev/shm, as in a container', prepare: spoil('noexec', '/dev/shm'), holder: `${dir}/` },
  {
    name: 'without libnftnl, libmnl, node and gcc',
    prepare: `for file in /usr/lib/x86_64-linux-gnu/lib{nftnl,mnl}.so* '${ROOT}'/build/native/*.so* $(type -ap node gcc); do
      mount --bind /dev/null "$file"; done`,
    holder: '/dev/shm/',
  },
  {
    name: 'with only /tmp writable',
    prepare: `${FREEZE_DIR}; ${spoil('ro', '/dev/shm /run/aether /var/lib/aether')}`,
    holder: '/tmp/',
  },
  {
    name: 'on a file system that has no unnamed files',
    prepare: '',
    wrapper: 'strace -f -o /dev/null -P /dev/shm -e trace=openat -e inject=openat:error=EOPNOTSUPP',
    holder: '/dev/shm/.aether-cni-',
  },
];

for (const { name, prepare, wrapper, holder } of hosts) {
  t.test(`the executable loads its native code ${name}`, async (t) => {
    const { status, stdout, stderr } = runProbe(prepare, wrapper);
    t.equal(status, 0, stderr);
    const { paths, mapped, ...results }: Answer = JSON.parse(stdout);
    t.same(
      results,
      { ownNamespace: -1, stage: 3, headerSize: 16, table: true },
      'the calls answer as in the source tree',
    );
    t.same(Object.keys(paths), PIECES);
    for (const path of Object.values(paths)) t.match(path, /^\/proc\/self\/fd\/\d+$/);
    const nameless = mapped.filter((path) => path.endsWith(' (deleted)'));
    t.equal(nameless.length, PIECES.length, 'each is mapped from a file without a name');
    for (const path of nameless) t.ok(path.startsWith(holder), `${path} lies in ${holder}`);
    t.same(readdirSync(dir), before, 'nothing is left beside the executable');
    t.notOk(
      readdirSync('/dev/shm').some((file) => file.startsWith('.aether-cni-')),
      'nor in memory',
    );
  });
}

t.test('the executable says where it tried when no directory can hold code', async (t) => {
  const { status, stderr } = runProbe(`${FREEZE_DIR}; ${spoil('noexec', '/dev/shm /run/aether /var/lib/aether /tmp')}`);
  t.not(status, 0);
  t.match(
    stderr,
    /NativeError: load ffi-rs: extract native asset "ffi-rs.node": no directory can hold code: \/dev\/shm: EACCES/,
  );
  t.match(stderr, new RegExp(`${dir}: EROFS`));
});
