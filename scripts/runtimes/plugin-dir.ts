// A directory of plugin executables (CNI_PATH of the tests): the distribution's, the no-op plugin, the recorder, and ours in
// the two forms it is installed in.
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EXECUTABLE, RELAY } from '../lab/places.ts';
import { NOOP } from './places.ts';
import type { RecordedCall } from './recorder.ts';

/** `full`: the whole plugin in one file. `relay`: the small front, with the full file beside it, as `install` does it. */
export type PluginForm = 'full' | 'relay';

const DISTRIBUTION = '/usr/lib/cni';
const DISTRIBUTION_PLUGINS = ['bridge', 'firewall', 'host-local', 'loopback', 'portmap', 'tuning'];

/** Makes `dir` with all of them; our plugin is `aether-cni`. */
export function makePluginDir(dir: string, form: PluginForm): void {
  mkdirSync(dir, { recursive: true });
  for (const name of DISTRIBUTION_PLUGINS) symlinkSync(join(DISTRIBUTION, name), join(dir, name));
  symlinkSync(NOOP, join(dir, 'noop'));
  const recorder = join(dir, 'recorder');
  writeFileSync(recorder, `#!/bin/sh\nexec '${process.execPath}' '${join(import.meta.dirname, 'recorder.ts')}'\n`);
  chmodSync(recorder, 0o755);
  if (form === 'full') {
    symlinkSync(EXECUTABLE, join(dir, 'aether-cni'));
  } else {
    copyFileSync(RELAY, join(dir, 'aether-cni'));
    symlinkSync(EXECUTABLE, join(dir, 'aether-cni-standalone'));
  }
}

/** What the recorder wrote, in order; nothing when it was never called. */
export function readRecord(file: string): readonly RecordedCall[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as RecordedCall); // recorder.ts wrote them
}
