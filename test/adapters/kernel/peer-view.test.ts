// Namespaces that only the caller of the relay can see.
import { closeSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createNamespaces } from '../../../src/adapters/kernel/namespaces.ts';
import { openPeerView, PeerView, plainPath } from '../../../src/adapters/kernel/peer-view.ts';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { createThreshold } from '../../../src/adapters/kernel/threshold.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { ContainerId, NetnsPath } from '../../../src/core/identifiers.ts';
import { SCOPED } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { startViewPeer } from '../../support/view-peer.ts';

const native = openNative();
const namespaces = createNamespaces(native);
const rules = createRules(native);
const threshold = createThreshold(native, rules);

async function start(t: Test, options: { readonly ownNetns?: boolean } = {}) {
  const peer = await startViewPeer(t, options);
  const view = openPeerView(native, { ...peer, close: closeSync });
  t.teardown(() => view[Symbol.dispose]());
  return { peer, view, see: (path: NetnsPath): NetnsPath => view.resolve(path) };
}

const problemOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: { readonly problem?: string }) => error.problem ?? 'other',
  );

t.test('a path is opened as the peer sees it', async (t) => {
  const { peer, see } = await start(t);
  for (const name of ['pod', 'link', 'process'] as const) {
    await namespaces.assertUsable(see(peer[name]));
    if (name !== 'process')
      t.equal(await problemOf(namespaces.assertUsable(peer[name])), 'missing', 'not as we see it');
  }
  await rules.replaceTable(see(peer.pod), planPluginTable(SCOPED), { isNew: true });
  t.ok(await rules.readTable(see(peer.link), planPluginTable(SCOPED)), 'the link leads to the same namespace');
  await rules.destroyTable(see(peer.pod), 'aether');
  t.equal(await rules.readTable(see(peer.process), planPluginTable(SCOPED)), undefined);
});

t.test('enter() pins what only the peer sees, and leave() takes it away', async (t) => {
  const { peer, see } = await start(t);
  const dir = mkdtempSync('/tmp/ae-pins-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const containerId = 'c1' as ContainerId;
  const note = { containerId, ifname: 'eth0', network: 'k8s' };
  const pinDir = join(dir, 'pins');
  const pin = join(pinDir, 'c1');
  const entered = await threshold.enter(see(peer.pod), { noteDir: dir, note, pinDir, tables: [] });
  t.equal(entered?.identity, await namespaces.identify(pin as NetnsPath));
  t.strictSame(JSON.parse(readFileSync(join(dir, 'c1'), 'utf8')), { ifname: 'eth0', network: 'k8s' });
  await namespaces.assertUsable(pin as NetnsPath);
  const options = { tables: ['aether'], noteDir: dir, pinDir, containerId };
  t.equal(await threshold.leave([see(peer.pod)], options), true);
  t.notOk(existsSync(join(pinDir, 'c1')));
  t.notOk(existsSync(join(dir, 'c1')));
});

t.test('what must not be touched is refused in the view, too', async (t) => {
  const { peer, see } = await start(t, { ownNetns: true });
  t.not(statSync(`/proc/${peer.pid}/ns/net`).ino, statSync('/proc/self/ns/net').ino);
  t.equal(await problemOf(namespaces.assertUsable(see(peer.own))), 'forbidden', "the peer's own");
  t.equal(await problemOf(namespaces.assertUsable(see('/proc/self/ns/net' as NetnsPath))), 'forbidden', 'our own');
  t.equal(await problemOf(namespaces.assertUsable(see('/etc/hostname' as NetnsPath))), 'not-a-namespace');
  t.equal(await problemOf(namespaces.assertUsable(see('/run/netns/ae-none' as NetnsPath))), 'missing');
});

t.test('a peer that has ended has no view', async (t) => {
  const { peer, see } = await start(t);
  await namespaces.assertUsable(see(peer.pod));
  await peer.end();
  const error = await namespaces.assertUsable(see(peer.pod)).catch((error: unknown) => error);
  t.match(error, { code: 'E_KERNEL', message: /the program that asked for it has ended/ });
  t.notMatch((error as Error).message, '@', 'the path is named as the peer wrote it');
});

t.test('plainPath() gives the path as its owner wrote it', (t) => {
  t.equal(plainPath(new PeerView({ pid: 12, pidfd: 3, close: () => {} }).resolve('/run/netns/a')), '/run/netns/a');
  t.equal(plainPath('/run/netns/a'), '/run/netns/a');
  t.end();
});
