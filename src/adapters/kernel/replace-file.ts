// Small files put in place by one native call: by Node's own it is eight, each with a way to another thread and back.
import { Buffer } from 'node:buffer';
import { StoreError } from '../../core/errors.ts';
import type { ReplaceFile } from '../store/record-store.ts';
import { errnoName } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';

/** The directory must be there. Nothing is flushed to the disk. */
export function createFileReplacer(native: NativeLibrary): ReplaceFile {
  return async ({ dir, name, text }) => {
    const bytes = Buffer.from(text);
    const status = await native.callOffThread('ae_replace_file', dir, name, bytes, bytes.length);
    if (status < 0) throw new StoreError(`writing ${dir}/${name}: ${errnoName(-status)}`);
  };
}
