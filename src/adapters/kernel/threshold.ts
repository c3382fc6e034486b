// What ADD does first and DEL does last, in one native call each (native/attachment.c).
import { Buffer } from 'node:buffer';
import type { NetnsPath } from '../../core/identifiers.ts';
import type { Threshold } from '../../plugin/deps.ts';
import { formatNote } from '../store/attachment-book.ts';
import { ABI } from './abi.ts';
import { pinError } from './namespaces.ts';
import type { NativeLibrary } from './native-library.ts';
import { netnsStageError } from './netns-error.ts';
import type { Rules } from './rules.ts';
import { encodePaths } from './transact.ts';

/** `rules`: what destroys tables on this kernel, with or without the DESTROY messages. */
export function createThreshold(native: NativeLibrary, rules: Pick<Rules, 'encodeDestruction'>): Threshold {
  return {
    async enter(netns, { noteDir, note, pinDir }) {
      const stage = Buffer.alloc(4);
      const text = Buffer.from(formatNote(note));
      const { containerId } = note;
      const status = await native.callOffThread(
        'ae_enter',
        ...([netns, noteDir, pinDir ?? '', containerId, text, text.length, stage] as const),
      );
      const at = { stage: stage.readInt32LE(0), errno: -status };
      // One is there, or there is no directory yet: nothing that the single steps do not know.
      if (at.stage === ABI.AE_STAGE_NOTE) return undefined;
      if (at.stage === ABI.AE_STAGE_PIN) throw pinError(netns, { pinDir: pinDir ?? '', containerId, errno: at.errno });
      if (status < 0) throw netnsStageError('work', netns, at);
      return pinDir === undefined ? netns : (`${pinDir.replace(/\/+$/, '')}/${containerId}` as NetnsPath);
    },

    async leave(netns, { tables, noteDir, pinDir, containerId }) {
      const { bytes } = rules.encodeDestruction(tables);
      const paths = encodePaths(netns);
      const status = await native.callOffThread(
        'ae_leave',
        ...([paths, netns.length, noteDir, pinDir, containerId, bytes, bytes.length] as const),
      );
      return status === 0;
    },
  };
}
