// A namespace by its path, held while the path changes: afterwards no path may lead there any more.
import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { NetnsPath } from '../../core/identifiers.ts';
import type { HeldPin, PluginDeps } from '../../plugin/deps.ts';

/** Asks the pin alone, never the runtime's path. Whatever cannot be opened is no pin. */
export const holdPin: PluginDeps['holdPin'] = async ({ pinDir, containerId }) =>
  holdNetns(join(pinDir, containerId) as NetnsPath);

/** Undefined: it cannot be opened. */
export function holdNetns(path: NetnsPath): HeldPin | undefined {
  try {
    // A pipe that somebody put there is not waited for.
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return {
      netns: `/proc/self/fd/${fd}` as NetnsPath, // absolute and without NUL
      isReplaced: () => {
        const [held, now] = [fstatSync(fd), statSync(path, { throwIfNoEntry: false })];
        return held.ino !== now?.ino || held.dev !== now.dev;
      },
      [Symbol.dispose]: () => closeSync(fd),
    };
  } catch {
    return undefined;
  }
}
