// Network namespaces by path and their pins. What a path is gets decided natively, on the descriptor that is then used:
// nobody can swap the file in between.
import { Buffer } from 'node:buffer';
import type { KernelError } from '../../core/errors.ts';
import { type ContainerId, type NetnsPath, withoutEndSlash } from '../../core/identifiers.ts';
import type { Namespaces } from '../../plugin/deps.ts';
import { errnoName, kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';
import { netnsStageError } from './netns-error.ts';
import { plainPath } from './peer-view.ts';

/** Off the event loop, all of it; holds nothing between calls. */
export function createNamespaces(native: NativeLibrary): Namespaces {
  return {
    async assertUsable(path) {
      const stage = Buffer.alloc(4);
      const status = await native.callOffThread('ae_netns_check', path, stage);
      if (status < 0) throw netnsStageError('work', path, { stage: stage.readInt32LE(0), errno: -status });
    },

    // On this thread: some microseconds, and an ADD may ask for every pod of the node.
    async identify(path) {
      // uint64_t: a place of their own in memory, aligned.
      const identity = new BigUint64Array(2);
      const bytes = new Uint8Array(identity.buffer);
      return native.call('ae_netns_identify', path, bytes, Buffer.alloc(4)) < 0 ? undefined : identity.join(':');
    },

    async pin(path, { pinDir, containerId }) {
      const stage = Buffer.alloc(4);
      const status = await native.callOffThread('ae_pin', path, pinDir, containerId, stage);
      const at = { stage: stage.readInt32LE(0), errno: -status };
      if (status < 0 && at.stage !== 0) throw netnsStageError('pin', path, at);
      if (status < 0) throw pinError(path, { pinDir, containerId, errno: -status });
      return pinPath(pinDir, containerId);
    },

    async unpin({ pinDir, containerId }) {
      const status = await native.callOffThread('ae_unpin', pinDir, containerId);
      if (status < 0) throw kernelError(`remove the pin "${pinPath(pinDir, containerId)}"`, -status);
    },
  };
}

/** What stands against a pin that is not the namespace's fault. */
export function pinError(
  path: NetnsPath,
  at: { readonly pinDir: string; readonly containerId: ContainerId; readonly errno: number },
): KernelError {
  const { pinDir, containerId, errno } = at;
  const why =
    errnoName(errno) === 'EPERM'
      ? `${pinDir} must be root's, and others must not be able to write to it; mounting takes CAP_SYS_ADMIN`
      : undefined;
  return kernelError(`pin network namespace "${plainPath(path)}" at "${pinPath(pinDir, containerId)}"`, errno, why);
}

function pinPath(pinDir: string, containerId: ContainerId): NetnsPath {
  // A directory's absolute path and a checked id make an absolute path without NUL.
  return `${withoutEndSlash(pinDir)}/${containerId}` as NetnsPath;
}
