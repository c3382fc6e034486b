// The plugin's end of the removals that wait on disk for the agent: one file a container, `<container id>.json`, made only
// where there is none. A file's time says when it is due. The agent's end is removal-queue.ts.
import { type FileHandle, link, mkdir, open, rm, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';
import type { DeleteQueue } from '../../plugin/deps.ts';
import { temporaryPathOf } from './atomic-file.ts';

export const deleteQueue: DeleteQueue = {
  async enqueue({ dir, notBefore, ...entry }) {
    const path = join(dir, `${entry.containerId}.json`);
    try {
      await makePluginDir(dir);
      const text = `${JSON.stringify(entry)}\n`;
      await (notBefore === undefined ? writeNew(path, text) : writeNewDated(path, text, notBefore));
    } catch (error) {
      throw new StoreError(`queueing the removal ${path}: ${messageOf(error)}`, { cause: error });
    }
  },
};

/** Makes a directory of the plugin's, root's alone; what it stands in is open to look into, as others put sockets there. */
export async function makePluginDir(dir: string): Promise<void> {
  await mkdir(dirname(dir), { recursive: true, mode: 0o755 });
  await mkdir(dir, { mode: 0o700 }).catch((error: unknown) => {
    if (!isExisting(error)) throw error;
  });
}

// One that is there stays as it is. Its name is enough: a disk too full for the rest does not matter.
async function writeNew(path: string, text: string): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, 'wx', 0o600);
  } catch (error) {
    if (isExisting(error)) return;
    throw error;
  }
  await file.writeFile(text).catch(() => {});
  await file.close();
}

// Aside first: the agent may look at any moment, and a file without its time would be due.
async function writeNewDated(path: string, text: string, time: Date): Promise<void> {
  const temporary = temporaryPathOf(path);
  try {
    await writeNew(temporary, text);
    await utimes(temporary, time, time);
    await link(temporary, path).catch((error: unknown) => {
      if (!isExisting(error)) throw error;
    });
  } finally {
    await rm(temporary, { force: true });
  }
}

function isExisting(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST';
}
