// The plugin's end of the removals that wait on disk for the agent: one file a container, `<container id>.json`, made only
// where there is none. The agent's end is removal-queue.ts.
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';
import type { DeleteQueue } from '../../plugin/deps.ts';

export const deleteQueue: DeleteQueue = {
  async enqueue({ dir, ...entry }) {
    const path = join(dir, `${entry.containerId}.json`);
    try {
      await makePluginDir(dir);
      await writeFile(path, `${JSON.stringify(entry)}\n`, { flag: 'wx', mode: 0o600 }).catch(acceptExisting);
    } catch (error) {
      throw new StoreError(`queueing the removal ${path}: ${messageOf(error)}`, { cause: error });
    }
  },
};

/** Makes a directory of the plugin's, root's alone; what it stands in is open to look into, as others put sockets there. */
export async function makePluginDir(dir: string): Promise<void> {
  await mkdir(dirname(dir), { recursive: true, mode: 0o755 });
  await mkdir(dir, { mode: 0o700 }).catch(acceptExisting);
}

function acceptExisting(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
}
