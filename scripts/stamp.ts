// Content stamps: a build step is skipped when the hash of everything that it reads is the one of its last success.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** All files under a path, sorted; a file is its own list, a missing path is empty. */
export function listFiles(path: string): string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return [];
  if (!stat.isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => listFiles(join(path, name)));
}

/** Hex SHA-256 over names and contents of the files, and over `facts` (versions, options). Order matters. */
export function hashInputs(files: readonly string[], facts: readonly string[] = []): string {
  const hash = createHash('sha256');
  for (const fact of facts) hash.update(`${fact}\0`);
  for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update('\0');
  return hash.digest('hex');
}

/** Whether the stamp file holds this hash. */
export function isStamped(stampFile: string, hash: string): boolean {
  try {
    return readFileSync(stampFile, 'utf8').trim() === hash;
  } catch {
    return false;
  }
}

/** Written last, after the step has succeeded. */
export function writeStamp(stampFile: string, hash: string): void {
  writeFileSync(stampFile, `${hash}\n`);
}
