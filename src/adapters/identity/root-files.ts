// Root key and certificate on disk: made once, by whoever comes first, and never written again.
import { chmod, link, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { IdentityError } from '../../core/errors.ts';
import { isAbsent, makePrivateDir, removeTemporaries, temporaryPathOf, writeNewFile } from '../store/atomic-file.ts';

export interface RootFiles {
  readonly keyPem: string;
  readonly certificatePem: string;
  readonly certificatePath: string;
}

export interface RootMakers {
  makeKeyPem(): Promise<string>;
  /** Self-signed with the given key. */
  makeCertificatePem(keyPem: string): Promise<string>;
}

/** Longer than making a root takes. */
const TEMPORARY_MS = 60_000;

/**
 * Reads `root.key` and `root.crt` (0600) of a directory (0700), making what is missing. The key comes first: a
 * process that ends between the two leaves a key that has signed nothing yet, and the next one goes on with it.
 * Throws IdentityError for a certificate without its key, StoreError for a directory that is no place for keys.
 */
export async function openRoot(directory: string, makers: RootMakers): Promise<RootFiles> {
  await makePrivateDir(directory);
  // A key among them; another agent may be making the same root at this moment.
  await removeTemporaries(directory, { olderThanMs: TEMPORARY_MS });
  const keyPath = join(directory, 'root.key');
  const certificatePath = join(directory, 'root.crt');
  if ((await readIfThere(keyPath)) === undefined) {
    if ((await readIfThere(certificatePath)) !== undefined) {
      throw new IdentityError(`reading ${keyPath}: missing, though its certificate ${certificatePath} is there`);
    }
    await createOnce(keyPath, await makers.makeKeyPem());
  }
  const keyPem = await readFile(keyPath, 'utf8');
  if ((await readIfThere(certificatePath)) === undefined) {
    await createOnce(certificatePath, await makers.makeCertificatePem(keyPem));
  }
  await Promise.all([chmod(keyPath, 0o600), chmod(certificatePath, 0o600)]);
  return { keyPem, certificatePem: await readFile(certificatePath, 'utf8'), certificatePath };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

// A link never replaces what is there: of two that start at the same time one makes the file, both read it.
async function createOnce(path: string, text: string): Promise<void> {
  const temporary = temporaryPathOf(path);
  try {
    await writeNewFile(temporary, text);
    await link(temporary, path);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  } finally {
    await rm(temporary, { force: true });
  }
}
