// Which containers have a pin: names in the pin directory, without what others put there.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerId } from '../../core/identifiers.ts';
import { listContainerIds } from './attachment-book.ts';

/**
 * Sorted; no directory is an empty list. A pin is a namespace mounted on a file, or the empty file of one that a crash kept
 * from being mounted. Throws StoreError.
 */
export async function listPins(pinDir: string): Promise<readonly ContainerId[]> {
  const pins: ContainerId[] = [];
  for (const id of await listContainerIds(pinDir)) {
    const found = await lstat(join(pinDir, id)).catch(() => undefined);
    // A namespace is a file without a size, too.
    if (found?.isFile() === true && found.size === 0) pins.push(id);
  }
  return pins;
}
