// What is said of a kernel from its lists of modules.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { listMissingModules } from '../../../src/adapters/host/kernel-modules.ts';

const base = mkdtempSync('/tmp/ae-modules-');
t.teardown(() => rmSync(base, { recursive: true, force: true }));
const NAMES = ['nf_tables', 'nft_chain_nat', 'nft_redir', 'nft_nat'];

function make(
  name: string,
  modules: {
    readonly dep?: readonly string[];
    readonly builtin?: readonly string[];
    readonly loaded?: readonly string[];
  },
) {
  const modulesDir = join(base, name, 'lib');
  const loadedDir = join(base, name, 'sys');
  mkdirSync(loadedDir, { recursive: true });
  for (const module of modules.loaded ?? []) mkdirSync(join(loadedDir, module));
  if (modules.dep !== undefined) {
    mkdirSync(modulesDir);
    const lines = (names: readonly string[] = []) =>
      names.map((one) => `kernel/net/netfilter/${one}.ko.xz:\n`).join('');
    writeFileSync(join(modulesDir, 'modules.dep'), lines(modules.dep));
    writeFileSync(join(modulesDir, 'modules.builtin'), lines(modules.builtin));
  }
  return { modulesDir, loadedDir };
}

const CASES = [
  { name: 'all loaded', modules: { loaded: NAMES }, missing: [] },
  { name: 'all to be loaded', modules: { dep: NAMES }, missing: [] },
  { name: 'all built in', modules: { dep: [], builtin: NAMES }, missing: [] },
  { name: 'no lists to be seen', modules: {}, missing: [] },
  {
    name: 'no redirect',
    modules: { dep: ['nf_tables', 'nft_nat'], builtin: ['nft_chain_nat'] },
    missing: ['nft_redir'],
  },
  {
    name: 'a name that only begins alike',
    modules: { dep: [...NAMES.slice(0, 3), 'nft_nat_x'] },
    missing: ['nft_nat'],
  },
];
for (const { name, modules, missing } of CASES) {
  t.test(`listMissingModules() with ${name}`, async (t) => {
    const found = listMissingModules(make(name.replaceAll(' ', '-'), modules));
    t.match(
      found,
      missing.map((module) => new RegExp(`lacks the module ${module} `)),
    );
    t.equal(found.length, missing.length);
  });
}

t.test('listMissingModules() finds nothing missing here', async (t) => {
  t.strictSame(listMissingModules(), []);
});
