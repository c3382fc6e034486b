// Whether this kernel can have what the rules need: loaded, built in, or there to be loaded. Where the modules' directory is
// not to be seen (a container) nothing is claimed: the kernel's own refusal will say it.
import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';

/** Kernel module and what it is needed for. `nft_redir` and `nft_nat` need the nat chain type, which loads with them. */
const NEEDED: readonly (readonly [string, string])[] = [
  ['nf_tables', 'the rules themselves'],
  ['nft_chain_nat', 'chains of type nat'],
  ['nft_redir', 'redirecting to the proxy'],
  ['nft_nat', 'sending DNS to the node'],
];

/** A sentence for each module that is missing; empty where all is well or nothing can be known. */
export function listMissingModules({
  modulesDir = join('/lib/modules', release()),
  loadedDir = '/sys/module',
}: {
  readonly modulesDir?: string;
  readonly loadedDir?: string;
} = {}): readonly string[] {
  const missing = NEEDED.filter(([name]) => !existsSync(join(loadedDir, name)));
  if (missing.length === 0) return [];
  const known = readLists(modulesDir);
  if (known === undefined) return [];
  return missing
    .filter(([name]) => !known.includes(`/${name}.ko`))
    .map(([name, purpose]) => `the kernel lacks the module ${name} (${purpose})`);
}

// kmod: a line `kernel/net/netfilter/nft_redir.ko[.xz]` for each module, with what it depends on.
function readLists(modulesDir: string): string | undefined {
  try {
    return ['modules.dep', 'modules.builtin'].map((name) => readFileSync(join(modulesDir, name), 'utf8')).join('\n');
  } catch {
    return undefined;
  }
}
