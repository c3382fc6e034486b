// Prints what assertUsable() says of the path given: a program of its own, for tests that need it in another pid or
// network namespace than theirs.
import { fileURLToPath } from 'node:url';
import { createNamespaces } from '../../src/adapters/kernel/namespaces.ts';
import type { NetnsPath } from '../../src/core/identifiers.ts';
import { openNative } from './native.ts';

/** This file: run with a path, it prints `usable` or the problem. */
export const NETNS_CHECK_FILE = fileURLToPath(import.meta.url);

if (process.argv[1] === NETNS_CHECK_FILE) {
  const [path = ''] = process.argv.slice(2);
  try {
    await createNamespaces(openNative()).assertUsable(path as NetnsPath);
    console.log('usable');
  } catch (error) {
    console.log((error as { problem?: string }).problem ?? String(error));
  }
}
