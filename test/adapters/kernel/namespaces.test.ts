// Root only: real namespaces, and pins, which are mounts. What passes for a pod's namespace, and that no link, foreign
// directory or strange name leads a pin elsewhere.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createNamespaces } from '../../../src/adapters/kernel/namespaces.ts';
import { type ContainerId, type NetnsPath, parseContainerId } from '../../../src/core/identifiers.ts';
import { openNative } from '../../support/native.ts';
import { makeNetns } from '../../support/netns.ts';
import { NETNS_CHECK_FILE } from '../../support/netns-check.ts';

const namespaces = createNamespaces(openNative());

function id(text: string): ContainerId {
  const parsed = parseContainerId(text);
  if (typeof parsed !== 'string') throw new Error(parsed.problem);
  return parsed;
}

/** A directory of its own whose mounts are gone at the end. */
function makeDirectory(t: Tap): string {
  const directory = mkdtempSync('/tmp/ae-pin-');
  t.teardown(() => {
    for (const entry of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
      try {
        execFileSync('umount', ['-l', join(directory, entry)], { stdio: 'ignore' });
      } catch {
        // No mount.
      }
    }
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}
type Tap = { teardown(fn: () => unknown): unknown };

const inodeOf = (path: string) => statSync(path).ino;
const problemOf = (error: unknown) => (error as { problem?: string }).problem;

t.test('assertUsable() takes a pod’s namespace and its pin', async (t) => {
  const { path } = makeNetns(t, 'ns');
  await namespaces.assertUsable(path);
  const pin = await namespaces.pin(path, { pinDir: makeDirectory(t), containerId: id('c1') });
  await namespaces.assertUsable(pin);
});

t.test('identify() says the same of each path to a namespace, and nothing of what is none', async (t) => {
  const [{ path }, other] = [makeNetns(t, 'ns'), makeNetns(t, 'ns')];
  const pinDir = makeDirectory(t);
  const pin = await namespaces.pin(path, { pinDir, containerId: id('c1') });
  const { dev, ino } = statSync(path);
  t.equal(await namespaces.identify(path), `${dev}:${ino}`);
  t.equal(await namespaces.identify(pin), `${dev}:${ino}`);
  t.not(await namespaces.identify(other.path), `${dev}:${ino}`);
  await namespaces.unpin({ pinDir, containerId: id('c1') });
  writeFileSync(join(pinDir, 'c1'), '');
  for (const none of [pin, `${pinDir}/absent`, '/proc/self/ns/net'] as NetnsPath[]) {
    t.equal(await namespaces.identify(none), undefined, none);
  }
});

const REFUSED: readonly (readonly [title: string, path: string, problem: string])[] = [
  ['this process’s own', '/proc/self/ns/net', 'forbidden'],
  ['one of another type', '/proc/self/ns/uts', 'not-a-namespace'],
  ['a file', '/etc/hostname', 'not-a-namespace'],
  ['a directory', '/tmp', 'not-a-namespace'],
  ['a device', '/dev/null', 'not-a-namespace'],
  ['nothing', '/run/netns/ae-none', 'missing'],
  ['something below a file', '/etc/hostname/x', 'missing'],
];

for (const [title, path, problem] of REFUSED) {
  t.test(`assertUsable() refuses ${title}`, async (t) => {
    t.equal(problemOf(await namespaces.assertUsable(path as NetnsPath).catch((e: unknown) => e)), problem);
    const refused = await namespaces
      .pin(path as NetnsPath, { pinDir: join(makeDirectory(t), 'pins'), containerId: id('c1') })
      .catch((e: unknown) => e);
    t.equal(problemOf(refused), problem, 'and so does pin()');
  });
}

t.test('assertUsable() refuses the namespace of pid 1, by whatever path', (t) => {
  // In a pid namespace of its own the shell is pid 1, in the host's network; the program asks from within a pod's.
  const own = makeNetns(t, 'ns');
  const other = makeNetns(t, 'ns');
  const host = join(makeDirectory(t), 'host');
  writeFileSync(host, '');
  execFileSync('mount', ['--bind', '/proc/self/ns/net', host]);
  const check = `ip netns exec ${own.name} '${process.execPath}' ${NETNS_CHECK_FILE}`;
  const script = `for path in /proc/1/ns/net ${host} ${other.path}; do ${check} $path; done; true`;
  const output = execFileSync('unshare', ['--pid', '--fork', '--mount-proc', 'sh', '-c', script], {
    encoding: 'utf8',
    cwd: join(import.meta.dirname, '../../..'),
  });
  t.strictSame(output.trim().split('\n'), ['forbidden', 'forbidden', 'usable']);
  t.end();
});

t.test('assertUsable() does not block on a FIFO', async (t) => {
  const fifo = join(makeDirectory(t), 'fifo');
  execFileSync('mkfifo', [fifo]);
  t.equal(problemOf(await namespaces.assertUsable(fifo as NetnsPath).catch((e: unknown) => e)), 'not-a-namespace');
});

t.test('pin() makes the directories, root’s alone, and keeps the namespace alive', async (t) => {
  const netns = makeNetns(t, 'ns');
  const pinDir = join(makeDirectory(t), 'a/b/pins');
  const inode = inodeOf(netns.path);
  const pin = await namespaces.pin(netns.path, { pinDir, containerId: id('c1') });
  t.equal(pin, join(pinDir, 'c1'));
  t.equal(statSync(pinDir).mode & 0o777, 0o700);
  execFileSync('ip', ['netns', 'del', netns.name]);
  t.equal(inodeOf(pin), inode);
  await namespaces.assertUsable(pin);
  await namespaces.unpin({ pinDir, containerId: id('c1') });
});

t.test('pin() leaves the mode of a directory that is in use, and refuses one that others may write to', async (t) => {
  const pinDir = join(makeDirectory(t), 'pins');
  const netns = makeNetns(t, 'ns');
  mkdirSync(pinDir, { mode: 0o755 });
  writeFileSync(join(pinDir, 'other'), '');
  const options = { pinDir, containerId: id('c1') };
  await namespaces.pin(netns.path, options);
  t.equal(statSync(pinDir).mode & 0o777, 0o755, 'as a slip in the configuration may name /run');
  await namespaces.unpin(options);
  chmodSync(pinDir, 0o1777);
  await t.rejects(namespaces.pin(netns.path, options), {
    errnoName: 'EPERM',
    message: /others must not be able to write/,
  });
  t.equal(statSync(pinDir).mode & 0o7777, 0o1777);
  t.notOk(existsSync(join(pinDir, 'c1')));
});

t.test('pin() takes the rights of others off an empty directory', async (t) => {
  const pinDir = join(makeDirectory(t), 'pins');
  mkdirSync(pinDir, { mode: 0o755 });
  await namespaces.pin(makeNetns(t, 'ns').path, { pinDir, containerId: id('c1') });
  t.equal(statSync(pinDir).mode & 0o777, 0o700);
});

t.test('pin() replaces an older pin, also stacked ones, and unpin() is fine twice', async (t) => {
  const [one, two] = [makeNetns(t, 'ns'), makeNetns(t, 'ns')];
  const options = { pinDir: makeDirectory(t), containerId: id('c1') };
  const pin = await namespaces.pin(one.path, options);
  execFileSync('mount', ['--bind', one.path, pin]);
  await namespaces.pin(two.path, options);
  t.equal(inodeOf(pin), inodeOf(two.path));
  await namespaces.pin(two.path, options);
  await namespaces.unpin(options);
  t.notOk(existsSync(pin));
  await namespaces.unpin(options);
  await namespaces.unpin({ ...options, pinDir: join(options.pinDir, 'none') });
  const mounts = execFileSync('cat', ['/proc/self/mountinfo'], { encoding: 'utf8' });
  t.notMatch(mounts, options.pinDir);
});

t.test('pin() replaces a file or a link in its place, and never follows the link', async (t) => {
  const netns = makeNetns(t, 'ns');
  const pinDir = makeDirectory(t);
  const victim = join(makeDirectory(t), 'victim');
  writeFileSync(victim, 'untouched');
  symlinkSync(victim, join(pinDir, 'c1'));
  const pin = await namespaces.pin(netns.path, { pinDir, containerId: id('c1') });
  t.notOk(lstatSync(pin).isSymbolicLink());
  t.equal(inodeOf(pin), inodeOf(netns.path));
  t.equal(statSync(victim).size, 'untouched'.length);
  writeFileSync(join(pinDir, 'c2'), '');
  t.equal(inodeOf(await namespaces.pin(netns.path, { pinDir, containerId: id('c2') })), inodeOf(netns.path));
});

t.test('pin() refuses a link in place of the directory, and somebody else’s directory', async (t) => {
  const netns = makeNetns(t, 'ns');
  const directory = makeDirectory(t);
  const link = join(directory, 'link');
  symlinkSync(makeDirectory(t), link);
  t.match(await namespaces.pin(netns.path, { pinDir: link, containerId: id('c1') }).catch((e: unknown) => e), {
    code: 'E_KERNEL',
    errnoName: 'ENOTDIR',
  });
  const foreign = join(directory, 'foreign');
  mkdirSync(foreign);
  execFileSync('chown', ['65534', foreign]);
  t.match(await namespaces.pin(netns.path, { pinDir: foreign, containerId: id('c1') }).catch((e: unknown) => e), {
    code: 'E_KERNEL',
    errnoName: 'EPERM',
  });
});

t.test('unpin() reports a directory in place of the pin', async (t) => {
  const pinDir = makeDirectory(t);
  mkdirSync(join(pinDir, 'c1'));
  t.match(await namespaces.unpin({ pinDir, containerId: id('c1') }).catch((e: unknown) => e), { errnoName: 'EISDIR' });
});

t.test('K069 pin() and unpin() refuse a name that is more than a name, even past the type', async (t) => {
  const { path } = makeNetns(t, 'ns');
  const pinDir = makeDirectory(t);
  for (const name of ['', '.', '..', '../x', 'a/b', '/etc/x', 'x'.repeat(256)]) {
    const options = { pinDir, containerId: name as ContainerId };
    t.match(await namespaces.pin(path, options).catch((e: unknown) => e), { errnoName: 'EINVAL' }, `pin ${name}`);
    t.match(await namespaces.unpin(options).catch((e: unknown) => e), { errnoName: 'EINVAL' }, `unpin ${name}`);
  }
  t.strictSame(readdirSync(pinDir), []);
  // Odd, but a name: it stays one.
  const odd = 'a" accept "\n; flush ruleset';
  const pin = await namespaces.pin(path, { pinDir, containerId: odd as ContainerId });
  t.strictSame(readdirSync(pinDir), [odd]);
  t.equal(inodeOf(pin), inodeOf(path));
  await namespaces.unpin({ pinDir, containerId: odd as ContainerId });
});
