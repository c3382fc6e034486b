// Which test files are quick enough to run before each commit: none that starts an Envoy or a container runtime, and none of
// kills by the dozen.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const LONG = ['test/e2e/', 'test/hostile/', 'test/runtimes/'];

/** `file`: relative to the working directory, as its imports are followed from there. */
export function isQuickTest(file: string): boolean {
  return !LONG.some((folder) => file.startsWith(folder)) && !startsEnvoy(file, new Set());
}

function startsEnvoy(file: string, seen: Set<string>): boolean {
  if (seen.has(file)) return false;
  seen.add(file);
  const source = readFileSync(file, 'utf8');
  if (/(?<!function )\benvoyPath\(\)/.test(source)) return true;
  const imports = [...source.matchAll(/ from '(\.[^']+\.ts)'/g)].map(([, path = '']) => join(dirname(file), path));
  return imports.some((path) => /^(test|scripts)\//.test(path) && startsEnvoy(path, seen));
}
