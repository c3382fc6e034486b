// The kernel of pods for the tool's commands: native libraries, namespaces and rules.
import { loadFfi } from '../adapters/host/load-ffi.ts';
import { locateNativeLibraries } from '../adapters/host/native-assets.ts';
import { createNamespaces } from '../adapters/kernel/namespaces.ts';
import { type NativeLibrary, openNativeLibrary } from '../adapters/kernel/native-library.ts';
import { createRules, type Rules } from '../adapters/kernel/rules.ts';
import type { Namespaces } from '../plugin/deps.ts';

export interface ToolKernel {
  readonly native: NativeLibrary;
  readonly namespaces: Namespaces;
  readonly rules: Rules;
}

/** Throws NativeError. */
export function openKernel(): ToolKernel {
  const native = openNativeLibrary(locateNativeLibraries(), loadFfi());
  return { native, namespaces: createNamespaces(native), rules: createRules(native) };
}
