// Pod records on disk: `<container id>.json`, the canonical JSON of CNIPod, as the Go mesh writes and reads them.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordStore } from '../../agent/deps.ts';
import { messageOf, StoreError } from '../../core/errors.ts';
import { parseContainerId } from '../../core/identifiers.ts';
import { formatPodRecordJson } from '../grpc/proto-pod.ts';
import { isTemporaryName, makePrivateDir, removeFileDurably, writeFileAtomically } from './atomic-file.ts';
import { type LoadedRecords, readRecords } from './read-records.ts';

/** One directory, one process: two agents never share it. */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async load(): Promise<LoadedRecords> {
    await makePrivateDir(this.#dir);
    await this.#tidy();
    return readRecords(this.#dir);
  }

  async put(record: Parameters<RecordStore['put']>[0]): Promise<void> {
    await writeFileAtomically(this.#path(record.containerId), formatPodRecordJson(record));
  }

  async destroy(containerId: string): Promise<void> {
    await removeFileDurably(this.#path(containerId));
  }

  // What a crash left half written.
  async #tidy(): Promise<void> {
    try {
      for (const name of await readdir(this.#dir))
        if (isTemporaryName(name)) await rm(join(this.#dir, name), { force: true });
    } catch (error) {
      throw new StoreError(`reading the records in ${this.#dir}: ${messageOf(error)}`, { cause: error });
    }
  }

  #path(containerId: string): string {
    const checked = parseContainerId(containerId);
    if (typeof checked === 'object') throw new StoreError(`naming a record: the container id ${checked.problem}`);
    return join(this.#dir, `${checked}.json`);
  }
}
