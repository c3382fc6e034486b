// At the agent's start: pins must be seen by an Envoy that runs in a container.

import type { NativeLibrary } from '../adapters/kernel/native-library.ts';
import { sharePins } from '../adapters/kernel/share-pins.ts';
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

/**
 * Shares the directory's mount where it is a place of the node, below /run; one elsewhere is somebody's own, and is left
 * alone. What goes wrong is logged only: an Envoy of the host itself needs none of it.
 */
export async function sharePinDir(
  native: NativeLibrary,
  { pinDir, log }: { readonly pinDir: string; readonly log: Log },
): Promise<void> {
  if (!pinDir.startsWith('/run/')) return;
  try {
    const sharing = await sharePins(native, pinDir);
    if (sharing === 'hidden') log.warn('agent.pins.hidden', { pinDir, remedy: 'mountPropagation: Bidirectional' });
    else log.debug('agent.pins.shared', { pinDir, sharing });
  } catch (error) {
    log.warn('agent.pins.not_shared', { pinDir, reason: messageOf(error) });
  }
}
