// Which containers have a pin: names in the pin directory, without what others put there.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerId } from '../../core/identifiers.ts';
import { attachmentDirOf } from '../../plugin/call-context.ts';
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

/** Those whose note (plugin/call-context.ts) is older than this: no ADD is at work with them any more. Throws StoreError. */
export async function listOldPins(
  pinDir: string,
  { olderThanMs }: { readonly olderThanMs: number },
): Promise<readonly ContainerId[]> {
  const old: ContainerId[] = [];
  for (const id of await listPins(pinDir)) {
    const note = await lstat(join(attachmentDirOf({ pinDir }), id)).catch(() => undefined);
    if (note !== undefined && Date.now() - note.mtimeMs > olderThanMs) old.push(id);
  }
  return old;
}
