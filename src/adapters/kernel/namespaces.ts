// Network namespaces by path and their pins. What a path is gets decided natively, on the descriptor that is then used:
// nobody can swap the file in between.
import { Buffer } from 'node:buffer';
import type { ContainerId, NetnsPath } from '../../core/identifiers.ts';
import type { Namespaces } from '../../plugin/deps.ts';
import { kernelError } from './errno.ts';
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

    async pin(path, { pinDir, containerId }) {
      const stage = Buffer.alloc(4);
      const status = await native.callOffThread('ae_pin', path, pinDir, containerId, stage);
      const at = { stage: stage.readInt32LE(0), errno: -status };
      if (status < 0 && at.stage !== 0) throw netnsStageError('pin', path, at);
      if (status < 0)
        throw kernelError(`pin network namespace "${plainPath(path)}" at "${pinPath(pinDir, containerId)}"`, -status);
      return pinPath(pinDir, containerId);
    },

    async unpin({ pinDir, containerId }) {
      const status = await native.callOffThread('ae_unpin', pinDir, containerId);
      if (status < 0) throw kernelError(`remove the pin "${pinPath(pinDir, containerId)}"`, -status);
    },
  };
}

function pinPath(pinDir: string, containerId: ContainerId): NetnsPath {
  // A directory's absolute path and a checked id make an absolute path without NUL.
  return `${pinDir.replace(/\/+$/, '')}/${containerId}` as NetnsPath;
}
