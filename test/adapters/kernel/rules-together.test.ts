// Both tables in one transaction, and a new pod's namespace, where nothing has to be removed first.
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createNamespaces } from '../../../src/adapters/kernel/namespaces.ts';
import { createRules, type Rules } from '../../../src/adapters/kernel/rules.ts';
import { createSmallFiles } from '../../../src/adapters/kernel/small-files.ts';
import { createThreshold } from '../../../src/adapters/kernel/threshold.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { ContainerId, NetnsPath } from '../../../src/core/identifiers.ts';
import { EXCLUDING, MESH, SCOPED } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { makeNetns, nftIn } from '../../support/netns.ts';

const native = openNative();
const namespaces = createNamespaces(native);
const WAYS: readonly (readonly [name: string, make: () => Rules])[] = [
  ['with DESTROY', () => createRules(native)],
  ['as before Linux 6.3', () => createRules(native, { legacy: true })],
];
const BOTH = [planMeshTable(EXCLUDING, MESH), planPluginTable(EXCLUDING)];

for (const [way, make] of WAYS) {
  t.test(`replaceTogether() ${way} puts in place what replaceTable() does`, async (t) => {
    const [one, other] = [makeNetns(t, 'tog'), makeNetns(t, 'tog')];
    const rules = make();
    await rules.replaceTogether(one.path, BOTH, { isNew: true, settleFlows: true });
    for (const table of BOTH) await rules.replaceTable(other.path, table);
    const wanted = nftIn(other, '-s', 'list', 'ruleset');
    const sorted = (text: string): readonly string[] => text.split('\n').sort();
    t.strictSame(sorted(nftIn(one, '-s', 'list', 'ruleset')), sorted(wanted));
    for (const isNew of [true, false]) {
      await rules.replaceTogether(one.path, [planMeshTable(SCOPED, MESH), planPluginTable(SCOPED)], { isNew });
      await rules.replaceTogether(one.path, BOTH, { isNew });
      t.strictSame(sorted(nftIn(one, '-s', 'list', 'ruleset')), sorted(wanted), `over what is there, isNew ${isNew}`);
    }
  });

  t.test(`replaceTable() ${way} of a new one, where only the other table is there`, async (t) => {
    const netns = makeNetns(t, 'tog');
    const rules = make();
    const [mesh = planMeshTable(SCOPED, MESH)] = BOTH;
    await rules.replaceTable(netns.path, mesh);
    await rules.replaceTogether(netns.path, BOTH, { isNew: true });
    t.strictSame(nftIn(netns, 'list', 'tables').trim().split('\n').sort(), [
      'table inet aether',
      'table inet aether_mesh',
    ]);
  });

  t.test(`leave() ${way} takes both tables away, and the pin`, async (t) => {
    const netns = makeNetns(t, 'tog');
    const rules = make();
    const threshold = createThreshold(native, rules);
    const dir = mkdtempSync('/tmp/ae-tog-');
    t.teardown(() => rmSync(dir, { recursive: true, force: true }));
    const containerId = 'c1' as ContainerId;
    const pinDir = join(dir, 'pins');
    const note = { containerId, ifname: 'eth0', network: 'n' };
    const leave = (...paths: readonly NetnsPath[]) =>
      threshold.leave(paths, { tables: ['aether', 'aether_mesh'], noteDir: dir, pinDir, containerId });
    const entry = { noteDir: dir, note, pinDir, tables: BOTH };
    const identity = await namespaces.identify(netns.path);
    t.strictSame(await threshold.enter(netns.path, entry), { identity, hasRules: true, isSettled: true });
    t.equal(await namespaces.identify(join(pinDir, 'c1') as NetnsPath), identity);
    const before = nftIn(netns, 'list', 'ruleset');
    t.equal(await threshold.enter(netns.path, entry), undefined, 'there is a note already');
    rmSync(join(dir, 'c1'));
    t.match(await threshold.enter(netns.path, entry), { hasRules: false }, 'there are tables already');
    t.equal(nftIn(netns, 'list', 'ruleset'), before);
    const none = ['/run/netns/ae-none', '/etc/hostname'] as NetnsPath[];
    t.equal(await leave(...none, netns.path, '/proc/self/ns/net' as NetnsPath), true);
    t.equal(nftIn(netns, 'list', 'tables'), '');
    t.strictSame(readdirSync(dir), ['pins']);
    t.strictSame(readdirSync(pinDir), []);
    t.equal(await leave(), true, 'without a path');
    t.equal(await leave(...none), true, 'without a namespace');
  });
}

t.test('enter() leaves nothing where it fails', async (t) => {
  const netns = makeNetns(t, 'tog');
  const threshold = createThreshold(native, createRules(native));
  const dir = mkdtempSync('/tmp/ae-tog-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const note = { containerId: 'c1' as ContainerId, ifname: 'eth0', network: 'n' };
  const tables = BOTH;
  await t.rejects(threshold.enter(netns.path, { noteDir: dir, note, pinDir: '/proc/none', tables }), {
    code: 'E_KERNEL',
    message: /pin network namespace/,
  });
  t.strictSame(readdirSync(dir), []);
  const noNetns = threshold.enter('/etc/hostname' as NetnsPath, { noteDir: dir, note, pinDir: undefined, tables });
  await t.rejects(noNetns, { code: 'E_NETNS' });
  t.strictSame(readdirSync(dir), []);
  t.equal(nftIn(netns, 'list', 'tables'), '');
  const noDir = { noteDir: join(dir, 'none'), note, pinDir: undefined, tables };
  t.equal(await threshold.enter(netns.path, noDir), undefined, 'no directory yet: by single steps');
  t.equal(nftIn(netns, 'list', 'tables'), '');
  const bare = await threshold.enter(netns.path, { noteDir: dir, note, pinDir: undefined, tables: [] });
  t.match(bare, { hasRules: false, identity: String });
});

t.test('no thread of the process stays in a namespace that it worked in', async (t) => {
  const rules = createRules(native);
  const pods = Array.from({ length: 12 }, () => makeNetns(t, 'tog'));
  const own = readlinkSync('/proc/self/ns/net');
  const isAway = (task: string): boolean => {
    try {
      return readlinkSync(`/proc/self/task/${task}/ns/net`) !== own;
    } catch {
      return false; // ended meanwhile
    }
  };
  const listStrangers = () => readdirSync('/proc/self/task').filter(isAway);
  for (let round = 0; round < 5; round++) {
    const replace = pods.map(({ path }) => rules.replaceTogether(path, BOTH, { isNew: round === 0 }));
    const gone = rules.replaceTable('/run/netns/ae-none' as NetnsPath, planPluginTable(SCOPED)).catch(() => {});
    await Promise.all([...replace, gone]);
    t.strictSame(listStrangers(), []);
  }
});

t.test('a replaced file is whole, root’s alone, and leaves nothing aside, nor when it is removed', async (t) => {
  const files = createSmallFiles(native);
  const dir = mkdtempSync('/tmp/ae-file-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  for (const text of ['one', 'another, longer', '']) {
    await files.replace({ dir, name: 'c1.json', text });
    t.equal(readFileSync(join(dir, 'c1.json'), 'utf8'), text);
  }
  t.equal(statSync(join(dir, 'c1.json')).mode & 0o777, 0o600);
  t.strictSame(readdirSync(dir), ['c1.json']);
  for (const [name, at] of [
    ['../x', dir],
    ['x', join(dir, 'none')],
  ] as const) {
    await t.rejects(files.replace({ dir: at, name, text: 'x' }), { code: 'E_STORE' });
  }
  t.notOk(existsSync(join(dir, '../x')));
  for (const name of ['c1.json', 'c1.json']) await files.remove({ dir, name });
  t.strictSame(readdirSync(dir), []);
  await t.rejects(files.remove({ dir, name: '../x' }), { code: 'E_STORE' });
  await t.rejects(files.remove({ dir: '/proc/1', name: 'stat' }), { code: 'E_STORE' });
});
