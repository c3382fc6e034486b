// Pod records on disk: `<container id>.json`, the canonical JSON of CNIPod, as the Go mesh writes and reads them.
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordStore } from '../../agent/deps.ts';
import { messageOf, StoreError } from '../../core/errors.ts';
import { parseContainerId } from '../../core/identifiers.ts';
import { formatPodRecordJson, parsePodRecordJson } from '../grpc/proto-pod.ts';
import { isTemporaryName, makePrivateDir, removeFileDurably, writeFileAtomically } from './atomic-file.ts';

type LoadedRecords = Awaited<ReturnType<RecordStore['load']>>;

/** One directory, one process: two agents never share it. */
export class FileRecordStore implements RecordStore {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Oldest first, by the time of the last write: of two records of one pod name the later one is the pod's. */
  async load(): Promise<LoadedRecords> {
    await makePrivateDir(this.#dir);
    const found: { readonly file: string; readonly mtimeMs: number; readonly text: string }[] = [];
    const broken: { readonly file: string; readonly reason: string }[] = [];
    for (const file of await this.#list()) {
      const path = join(this.#dir, file);
      try {
        found.push({ file, mtimeMs: (await stat(path)).mtimeMs, text: await readFile(path, 'utf8') });
      } catch (error) {
        broken.push({ file, reason: messageOf(error) });
      }
    }
    found.sort((a, b) => a.mtimeMs - b.mtimeMs || (a.file < b.file ? -1 : 1));
    const records = found.flatMap(({ file, text }) => {
      try {
        const record = parsePodRecordJson(text);
        if (`${record.containerId}.json` === file) return [record];
        broken.push({ file, reason: `holds the record of another container, ${record.containerId}` });
      } catch (error) {
        broken.push({ file, reason: messageOf(error) });
      }
      return [];
    });
    return { records, broken };
  }

  async put(record: Parameters<RecordStore['put']>[0]): Promise<void> {
    await writeFileAtomically(this.#path(record.containerId), formatPodRecordJson(record));
  }

  async destroy(containerId: string): Promise<void> {
    await removeFileDurably(this.#path(containerId));
  }

  // Other things may lie here (the Go mesh keeps a folder of DNS records): only `*.json` files are records.
  async #list(): Promise<readonly string[]> {
    try {
      const entries = await readdir(this.#dir, { withFileTypes: true });
      for (const entry of entries)
        if (isTemporaryName(entry.name)) await rm(join(this.#dir, entry.name), { force: true });
      return entries
        .filter((entry) => !entry.isDirectory() && entry.name.endsWith('.json') && !entry.name.startsWith('.'))
        .map((entry) => entry.name)
        .sort();
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
