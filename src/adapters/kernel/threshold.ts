// What ADD does first and DEL does last, in one native call each (native/attachment.c).
import { Buffer } from 'node:buffer';
import type { Threshold } from '../../plugin/deps.ts';
import { formatNote } from '../store/attachment-book.ts';
import { ABI } from './abi.ts';
import { pinError } from './namespaces.ts';
import type { NativeLibrary } from './native-library.ts';
import { netnsStageError } from './netns-error.ts';
import type { Rules } from './rules.ts';
import { encodePaths } from './transact.ts';

const NO_BATCH = Buffer.alloc(0);

/** `rules`: what makes tables, and destroys them on this kernel, with or without the DESTROY messages. */
export function createThreshold(
  native: NativeLibrary,
  rules: Pick<Rules, 'encodeCreation' | 'encodeDestruction'>,
): Threshold {
  return {
    async enter(netns, { noteDir, note, pinDir, tables }) {
      // uint64_t: aligned.
      const identity = new BigUint64Array(ABI.SIZEOF_AE_ENTERED / 8);
      const entered = Buffer.from(identity.buffer);
      const text = Buffer.from(formatNote(note));
      const { containerId } = note;
      const bytes = tables.length === 0 ? NO_BATCH : rules.encodeCreation(tables).bytes;
      const status = await native.callOffThread(
        'ae_enter',
        ...([netns, noteDir, pinDir ?? '', containerId] as const),
        ...([text, text.length, bytes, bytes.length, entered] as const),
      );
      const at = { stage: entered.readInt32LE(ABI.OFFSET_AE_ENTERED_STAGE), errno: -status };
      // One is there, or there is no directory yet: nothing that the single steps do not know.
      if (at.stage === ABI.AE_STAGE_NOTE) return undefined;
      if (at.stage === ABI.AE_STAGE_PIN) throw pinError(netns, { pinDir: pinDir ?? '', containerId, errno: at.errno });
      if (status < 0) throw netnsStageError('work', netns, at);
      return {
        identity: `${identity[0]}:${identity[1]}`,
        hasRules: entered.readInt32LE(ABI.OFFSET_AE_ENTERED_HAS_RULES) !== 0,
        isSettled: entered.readUInt32LE(ABI.OFFSET_AE_ENTERED_FLOWS) === 0,
      };
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
