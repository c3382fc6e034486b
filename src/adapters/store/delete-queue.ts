// The plugin's end of the removals that wait on disk for the agent: one file a container, `<container id>.json`, made only
// where there is none. The agent's end is removal-queue.ts.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf, StoreError } from '../../core/errors.ts';
import type { DeleteQueue } from '../../plugin/deps.ts';

export const deleteQueue: DeleteQueue = {
  async enqueue({ dir, ...entry }) {
    const path = join(dir, `${entry.containerId}.json`);
    try {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      await writeFile(path, `${JSON.stringify(entry)}\n`, { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return;
      throw new StoreError(`queueing the removal ${path}: ${messageOf(error)}`, { cause: error });
    }
  },
};
