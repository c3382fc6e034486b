// The native libraries for tests, built first where they are missing or out of date. Test files run side by side, so
// the building is done under a lock.
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { loadFfi } from '../../src/adapters/host/load-ffi.ts';
import { locateNativeLibraries } from '../../src/adapters/host/native-assets.ts';
import { openNativeLibrary, type ResidentLibrary } from '../../src/adapters/kernel/native-library.ts';

const ROOT = join(import.meta.dirname, '../..');

/** Runs `make` in native/; returns build/native. */
export function buildNative(): string {
  const build = join(ROOT, 'build');
  mkdirSync(build, { recursive: true });
  execFileSync('flock', [join(build, '.native.lock'), 'make', '-s', '-C', join(ROOT, 'native')], { stdio: 'ignore' });
  return join(build, 'native');
}

let opened: ResidentLibrary | undefined;

/** The same at every call. */
export function openNative(): ResidentLibrary {
  if (opened === undefined) {
    buildNative();
    opened = openNativeLibrary(locateNativeLibraries(), loadFfi());
  }
  return opened;
}
