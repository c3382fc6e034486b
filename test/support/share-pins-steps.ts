// One step of test/adapters/kernel/share-pins.test.ts, inside a mount namespace of the test's: share, pin PATH, unpin.
import { fileURLToPath } from 'node:url';
import { createNamespaces } from '../../src/adapters/kernel/namespaces.ts';
import { sharePins } from '../../src/adapters/kernel/share-pins.ts';
import { KernelError } from '../../src/core/errors.ts';
import type { ContainerId, NetnsPath } from '../../src/core/identifiers.ts';
import { openNative } from './native.ts';

const options = { pinDir: '/mnt/a/pins', containerId: 'c1' as ContainerId };

async function step([name, path = '']: readonly string[]): Promise<string> {
  const native = openNative();
  const namespaces = createNamespaces(native);
  switch (name) {
    case 'share':
      return sharePins(native, options.pinDir);
    case 'pin':
      await namespaces.pin(path as NetnsPath, options);
      return 'pinned';
    default:
      await namespaces.unpin(options);
      return 'unpinned';
  }
}

/** This file: run with `share`, `pin PATH` or `unpin`, it prints what came of it. */
export const STEPS_FILE = fileURLToPath(import.meta.url);

if (process.argv[1] === STEPS_FILE) {
  const answer = step(process.argv.slice(2)).catch((error: unknown) => {
    if (error instanceof KernelError) return error.errnoName;
    throw error;
  });
  console.log(await answer);
}
