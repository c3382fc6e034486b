// Asks a namespace's kernel and collects all it answers, in one native call off the event loop.
import { Buffer } from 'node:buffer';
import type { NetnsPath } from '../../core/identifiers.ts';
import { ABI } from './abi.ts';
import type { NativeLibrary } from './native-library.ts';
import { encodeRequest, type Request } from './netlink.ts';
import { netnsStageError } from './netns-error.ts';

export interface Question {
  /** What is attempted, for errors: `read table inet aether`. */
  readonly what: string;
  readonly requests: readonly Request[];
  /** NETLINK_*; absent: NETLINK_NETFILTER. */
  readonly protocol?: number;
}

/** Whole netlink messages, for readMessages. `isInterrupted`: what was asked for changed meanwhile. */
export interface Replies {
  readonly bytes: Buffer;
  readonly isInterrupted: boolean;
}

/** Every reply to every request, in order, refusals included. Throws NetnsError, KernelError. */
export async function collectReplies(native: NativeLibrary, netns: NetnsPath, question: Question): Promise<Replies> {
  const { what, requests, protocol = ABI.NETLINK_NETFILTER } = question;
  const encoded = Buffer.concat(requests.map(encodeRequest));
  const dump = Buffer.alloc(ABI.SIZEOF_AE_DUMP);
  const status = await native.callOffThread('ae_dump_collect', netns, protocol, encoded, encoded.length, dump);
  if (status < 0)
    throw netnsStageError(what, netns, { stage: dump.readInt32LE(ABI.OFFSET_AE_DUMP_STAGE), errno: -status });
  const length = dump.readBigInt64LE(ABI.OFFSET_AE_DUMP_LENGTH);
  const bytes = Buffer.alloc(Number(length));
  native.call('ae_dump_take', dump.readBigInt64LE(0), bytes, length);
  return { bytes, isInterrupted: dump.readInt32LE(ABI.OFFSET_AE_DUMP_INTERRUPTED) !== 0 };
}
