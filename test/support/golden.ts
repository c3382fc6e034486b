// Golden files: what a printer must print, to read and to feed to the real tools. UPDATE_GOLDEN=1 rewrites them.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The text of test/golden/<name>; with UPDATE_GOLDEN=1 it is first set to `actual`. */
export function readGolden(name: string, actual: string): string {
  const path = join(import.meta.dirname, '../golden', name);
  if (process.env['UPDATE_GOLDEN'] === '1') {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, actual);
  }
  return readFileSync(path, 'utf8');
}
