// The namespace behind a pin, held while the pin is replaced: afterwards no path leads there any more.
import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { NetnsPath } from '../../core/identifiers.ts';
import type { HeldPin, PluginDeps } from '../../plugin/deps.ts';

/** Asks the pin alone, never the runtime's path. Whatever cannot be opened is no pin. */
export const holdPin: PluginDeps['holdPin'] = async ({ pinDir, containerId }): Promise<HeldPin | undefined> => {
  const path = join(pinDir, containerId);
  try {
    const fd = openSync(path, 'r');
    return {
      netns: `/proc/self/fd/${fd}` as NetnsPath, // absolute and without NUL
      isReplaced: () => fstatSync(fd).ino !== statSync(path).ino,
      [Symbol.dispose]: () => closeSync(fd),
    };
  } catch {
    return undefined;
  }
};
