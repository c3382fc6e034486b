// Reading a directory of pod records, and nothing else: `check` looks at another process's files with it.
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { RecordStore } from '../../agent/deps.ts';
import { messageOf, StoreError } from '../../core/errors.ts';
import { parsePodRecordJson } from '../grpc/proto-pod.ts';

export type LoadedRecords = Awaited<ReturnType<RecordStore['load']>>;

/**
 * Oldest first, by the time of the last write: of two records of one pod name the later one is the pod's. Other things may
 * lie here (the Go mesh keeps a folder of DNS records): only `*.json` files are records. Throws StoreError.
 */
export async function readRecords(dir: string): Promise<LoadedRecords> {
  const found: { readonly file: string; readonly mtimeMs: number; readonly text: string }[] = [];
  const broken: { readonly file: string; readonly reason: string }[] = [];
  for (const file of await listRecordFiles(dir)) {
    const path = join(dir, file);
    try {
      // One that is a pipe, say, would be waited for.
      const stats = await stat(path);
      if (!stats.isFile()) throw new Error('it is not a regular file');
      found.push({ file, mtimeMs: stats.mtimeMs, text: await readFile(path, 'utf8') });
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

async function listRecordFiles(dir: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true });
    return entries
      .filter((entry) => !entry.isDirectory() && entry.name.endsWith('.json') && !entry.name.startsWith('.'))
      .map((entry) => entry.name)
      .sort();
  } catch (error) {
    throw new StoreError(`reading the records in ${dir}: ${messageOf(error)}`, { cause: error });
  }
}
