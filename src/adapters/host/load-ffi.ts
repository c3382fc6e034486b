// Loads ffi-rs: its JavaScript part from the bundle or from node_modules, its addon from native-assets. Lazily, because it
// costs milliseconds that most commands need not pay.
import { createRequire } from 'node:module';
import { NativeError } from '../../core/errors.ts';

export type Ffi = typeof import('ffi-rs');

let loaded: Ffi | undefined;

/** The same module at every call. Throws NativeError, on a host where the addon cannot be loaded (no glibc, say). */
export function loadFfi(): Ffi {
  loaded ??= requireFfi();
  return loaded;
}

function requireFfi(): Ffi {
  try {
    // The bundle is CommonJS: there the bundler has put ffi-rs behind the literal `require`, with its addon taken from the
    // assets (scripts/executable.ts). In the source tree, an ES module has no `require`.
    return typeof require === 'undefined' ? createRequire(import.meta.url)('ffi-rs') : require('ffi-rs');
  } catch (cause) {
    throw new NativeError(`load ffi-rs: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
