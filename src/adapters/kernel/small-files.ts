// Small files by one native call each: by Node's own, putting one in place is eight, each with a way to another thread and back.
import { Buffer } from 'node:buffer';
import { StoreError } from '../../core/errors.ts';
import type { SmallFiles } from '../store/record-store.ts';
import { errnoName } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';

/** The directory of a new file must be there. Nothing is flushed to the disk. */
export function createSmallFiles(native: NativeLibrary): SmallFiles {
  return {
    async replace({ dir, name, text }) {
      const bytes = Buffer.from(text);
      const status = await native.callOffThread('ae_replace_file', dir, name, bytes, bytes.length);
      if (status < 0) throw new StoreError(`writing ${dir}/${name}: ${errnoName(-status)}`);
    },

    async remove({ dir, name }) {
      const status = await native.callOffThread('ae_remove_file', dir, name);
      if (status < 0) throw new StoreError(`removing ${dir}/${name}: ${errnoName(-status)}`);
    },
  };
}
