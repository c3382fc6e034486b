// Pod records on disk: `<container id>.json`, the canonical JSON of CNIPod, as the Go mesh writes and reads them.
import { join } from 'node:path';
import type { RecordStore } from '../../agent/deps.ts';
import { StoreError } from '../../core/errors.ts';
import { parseContainerId } from '../../core/identifiers.ts';
import { formatPodRecordJson } from '../grpc/proto-pod.ts';
import { makePrivateDir, removeFileDurably, removeTemporaries, writeFileAtomically } from './atomic-file.ts';
import { type LoadedRecords, readRecords } from './read-records.ts';

/** One directory, one process: two agents never share it. */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async load(): Promise<LoadedRecords> {
    await makePrivateDir(this.#dir);
    await removeTemporaries(this.#dir);
    return readRecords(this.#dir);
  }

  async put(record: Parameters<RecordStore['put']>[0]): Promise<void> {
    await writeFileAtomically(this.#path(record.containerId), formatPodRecordJson(record));
  }

  async destroy(containerId: string): Promise<void> {
    await removeFileDurably(this.#path(containerId));
  }

  #path(containerId: string): string {
    const checked = parseContainerId(containerId);
    if (typeof checked === 'object') throw new StoreError(`naming a record: the container id ${checked.problem}`);
    return join(this.#dir, `${checked}.json`);
  }
}
