// Where the lab finds what it runs: the repository, our executable, Envoy, the CNI plugins of the distribution.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');
export const EXECUTABLE = join(ROOT, 'dist/aether-cni');
export const RELAY = join(ROOT, 'dist/aether-cni-relay');
/** Directories with the executables of CNI plugins, as in CNI_PATH: ours, then containernetworking-plugins. */
export const PLUGIN_DIRS: readonly string[] = [join(ROOT, 'dist'), '/usr/lib/cni', '/opt/cni/bin'];

/** Envoy's own binary, as `npm run setup` noted it. Throws when setup did not run. */
export function envoyPath(): string {
  const note = join(ROOT, 'build/envoy-path');
  const path = existsSync(note) ? readFileSync(note, 'utf8').trim() : '';
  if (!existsSync(path)) throw new Error('finding Envoy: it is not installed; run npm run setup');
  return path;
}
