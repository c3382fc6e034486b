// The directory of pins in mount namespaces of the test's own: what another one sees of a pin made later.
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { openNative } from '../../support/native.ts';
import { makeNetns } from '../../support/netns.ts';
import { STEPS_FILE } from '../../support/share-pins-steps.ts';

openNative();

/** Runs in a mount namespace of its own, on a tmpfs at /mnt with the given propagation; one line of output a step. */
function run(propagation: string, script: string): readonly string[] {
  const step = `${process.execPath} ${STEPS_FILE}`;
  const setup = `mount -t tmpfs pins /mnt; mount --make-${propagation} /mnt; cd /; step="${step}"`;
  const command = ['--mount', '--propagation', 'private', 'sh', '-ec', `${setup}; ${script}`];
  return execFileSync('unshare', command, { encoding: 'utf8', cwd: '/', timeout: 60_000 }).trim().split('\n');
}

/** A mount namespace that has what it has from outside, as a container does; LOOK says what it sees at the pin. */
const CONTAINER = `unshare --mount --propagation slave sleep 20 >&- 2>&- & container=$!
  until test "$(cat /proc/$container/comm)" = sleep; do sleep 0.02; done`;
const LOOK = 'nsenter --mount=/proc/$container/ns/mnt stat -f -c %T /mnt/a/pins/c1; kill $container';

t.test('sharePins() leaves a shared mount as it is, and pins arrive elsewhere', (t) => {
  const { path } = makeNetns(t, 'share');
  t.strictSame(
    run(
      'shared',
      `$step share; ${CONTAINER}; $step pin ${path}; ${LOOK}; $step share; grep -c /mnt/a /proc/self/mountinfo`,
    ),
    ['shared', 'pinned', 'nsfs', 'shared', '1'],
  );
  t.end();
});

t.test('sharePins() makes a private place shared, once', (t) => {
  const { path } = makeNetns(t, 'share');
  const script = `$step share; stat -c %a /mnt/a/pins; $step share; ${CONTAINER}; $step pin ${path}; ${LOOK}`;
  t.strictSame(run('private', script), ['made-shared', '700', 'shared', 'pinned', 'nsfs']);
  t.end();
});

t.test('without sharePins() a pin on a private place does not arrive', (t) => {
  const { path } = makeNetns(t, 'share');
  const script = `mkdir -p /mnt/a/pins; ${CONTAINER}; $step pin ${path}; ${LOOK}`;
  t.strictSame(run('private', script), ['pinned', 'tmpfs']);
  t.end();
});

t.test('sharePins() takes pins along that are there, and keeps no second hold on their namespaces', (t) => {
  const { path } = makeNetns(t, 'share');
  // Mounts of this namespace alone: others come and go meanwhile.
  const count = `grep -c "net:\\[$(stat -L -c %i ${path})\\]" /proc/self/mountinfo`;
  const script = `$step pin ${path}; $step share; stat -f -c %T /mnt/a/pins/c1; ${count}
    $step unpin; test ! -e /mnt/a/pins/c1; umount -l /mnt/a/pins; ls /mnt/a/pins | wc -l; stat -f -c %T /mnt/a/pins`;
  const before = run('private', `${count} || true`);
  const nsfs = String(Number(before[0]) + 1);
  t.strictSame(run('private', script), ['pinned', 'made-shared', 'nsfs', nsfs, 'unpinned', '0', 'tmpfs']);
  t.end();
});

t.test('sharePins() says when a mount only follows another', (t) => {
  const script = 'mkdir -p /mnt/a/pins; unshare --mount --propagation slave $step share';
  t.strictSame(run('shared', script), ['hidden']);
  t.end();
});

t.test('sharePins() refuses a link in place of the directory', (t) => {
  t.strictSame(run('private', 'mkdir /mnt/a /mnt/x; ln -s /mnt/x /mnt/a/pins; $step share'), ['ENOTDIR']);
  t.end();
});
