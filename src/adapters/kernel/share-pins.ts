// The pins' directory as other mount namespaces see it: an Envoy in a container sees a pin only through a shared mount.
import { ABI } from './abi.ts';
import { kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';

/**
 * `shared`: pins arrive in every mount namespace that has the directory with propagation. `made-shared`: from now on, in
 * those that begin from now on. `hidden`: they do not leave this mount namespace, because its mount only follows another
 * (a container whose volume has HostToContainer where it needs Bidirectional).
 */
export type PinSharing = 'shared' | 'made-shared' | 'hidden';

const SHARINGS: ReadonlyMap<number, PinSharing> = new Map([
  [ABI.AE_SHARING_SHARED, 'shared'],
  [ABI.AE_SHARING_MADE, 'made-shared'],
  [ABI.AE_SHARING_SLAVE, 'hidden'],
]);

/** Makes the directory, root's alone, and the mount it lies on shared. Pins that are there stay. Throws KernelError. */
export async function sharePins(native: NativeLibrary, pinDir: string): Promise<PinSharing> {
  const status = await native.callOffThread('ae_share_pins', pinDir);
  const sharing = SHARINGS.get(status);
  if (sharing === undefined) throw kernelError(`share the directory of pins "${pinDir}"`, -status);
  return sharing;
}
