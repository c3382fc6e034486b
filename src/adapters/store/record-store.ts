// Pod records on disk: `<container id>.json`, the canonical JSON of CNIPod, as the Go mesh writes and reads them. They outlive
// this process, not the machine: when that goes, the pods go too. So nothing is flushed to the disk, and nobody waits for it.
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordStore } from '../../agent/deps.ts';
import { messageOf, StoreError } from '../../core/errors.ts';
import { parseContainerId } from '../../core/identifiers.ts';
import { formatPodRecordJson } from '../grpc/proto-pod.ts';
import { makePrivateDir, removeTemporaries, writeFileAtomically } from './atomic-file.ts';
import { type LoadedRecords, readRecords } from './read-records.ts';

/** Some other way to change files than Node's own. */
export interface SmallFiles {
  /** Puts a file in place in one step, mode 0600; whoever looks sees the old text or the new. Throws StoreError. */
  replace(file: { readonly dir: string; readonly name: string; readonly text: string }): Promise<void>;
  /** Fine when there is none. Throws StoreError. */
  remove(file: { readonly dir: string; readonly name: string }): Promise<void>;
}

const NODE_FILES: SmallFiles = {
  replace: ({ dir, name, text }) => writeFileAtomically(join(dir, name), text),
  remove: async ({ dir, name }) => {
    const path = join(dir, name);
    await rm(path, { force: true }).catch((error: unknown) => {
      throw new StoreError(`removing ${path}: ${messageOf(error)}`, { cause: error });
    });
  },
};

/** One directory, one process: two agents never share it. */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;
  readonly #files: SmallFiles;

  constructor(dir: string, files = NODE_FILES) {
    this.#dir = dir;
    this.#files = files;
  }

  async load(): Promise<LoadedRecords> {
    await makePrivateDir(this.#dir);
    await removeTemporaries(this.#dir);
    await this.#removeEmpty();
    return readRecords(this.#dir);
  }

  async put(record: Parameters<RecordStore['put']>[0]): Promise<void> {
    const name = fileNameOf(record.containerId);
    await this.#files.replace({ dir: this.#dir, name, text: formatPodRecordJson(record) });
  }

  async destroy(containerId: string): Promise<void> {
    await this.#files.remove({ dir: this.#dir, name: fileNameOf(containerId) });
  }

  // A name without content is what a machine leaves that lost its power meanwhile.
  async #removeEmpty(): Promise<void> {
    for (const name of await readdir(this.#dir)) {
      const path = join(this.#dir, name);
      if (!name.endsWith('.json')) continue;
      const stats = await lstat(path);
      if (stats.isFile() && stats.size === 0) await rm(path, { force: true });
    }
  }
}

function fileNameOf(containerId: string): string {
  const checked = parseContainerId(containerId);
  if (typeof checked === 'object') throw new StoreError(`naming a record: the container id ${checked.problem}`);
  return `${checked}.json`;
}
