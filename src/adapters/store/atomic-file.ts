// Files of ours that must be whole at every instant: written aside, flushed, renamed into place.
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';

const TEMPORARY = /^\.(.*)-[0-9a-f-]{36}\.tmp$/;

/** What a file is called while it is being written: `.<name>-<random>.tmp` beside it. */
export function temporaryPathOf(path: string): string {
  return join(dirname(path), `.${basename(path)}-${randomUUID()}.tmp`);
}

/**
 * Removes what a crash left half written in a directory. `of`: of this file alone; `olderThanMs`: where others may be
 * writing at this moment. Throws StoreError.
 */
export async function removeTemporaries(
  dir: string,
  { of, olderThanMs = 0 }: { readonly of?: string; readonly olderThanMs?: number } = {},
): Promise<void> {
  try {
    for (const name of await readdir(dir)) {
      const written = TEMPORARY.exec(name)?.[1];
      if (written === undefined || (of !== undefined && written !== of)) continue;
      const path = join(dir, name);
      // Absent: whoever wrote it is done.
      const found = await stat(path).catch(() => undefined);
      if (found !== undefined && Date.now() - found.mtimeMs >= olderThanMs) await rm(path, { force: true });
    }
  } catch (error) {
    throw new StoreError(`tidying ${dir}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Makes the directory 0700, also an empty one that was there. The mode of one in use (/var/lib, by a slip) is not ours to change,
 * but it must not be open to write for others. Throws StoreError.
 */
export async function makePrivateDir(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    const mode = (await stat(path)).mode & 0o7777;
    if ((mode & 0o077) === 0) return;
    if ((await readdir(path)).length === 0) await chmod(path, 0o700);
    else if ((mode & 0o022) !== 0) throw new Error(`others may write to it (mode ${mode.toString(8)})`);
  } catch (error) {
    throw new StoreError(`making the directory ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** Replaces the file, mode 0600: after a crash it has the old text or the new one. Its directory must exist. Throws StoreError. */
export async function writeFileAtomically(path: string, text: string): Promise<void> {
  const temporary = temporaryPathOf(path);
  try {
    await writeNewFile(temporary, text);
    await rename(temporary, path);
    await syncDirectory(dirname(path));
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {});
    throw new StoreError(`writing ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** Writes a file that must not be there yet, mode 0600, down to the disk. */
export async function writeNewFile(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Removes the file for good; fine when absent. Throws StoreError. */
export async function removeFileDurably(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
    await syncDirectory(dirname(path));
  } catch (error) {
    if (isAbsent(error)) return;
    throw new StoreError(`removing ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** ENOENT of a file system call. */
export function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

// A rename is on disk only when its directory is.
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
