// Writes one nf_tables transaction into one buffer: BATCH_BEGIN, numbered messages, BATCH_END. The bytes hold nothing of
// a namespace, so they are sent to as many as want them.
import { Buffer } from 'node:buffer';
import { InternalError } from '../../core/errors.ts';
import { ABI } from './abi.ts';
import type { NativeLibrary } from './native-library.ts';

/** What one message of a batch is, for error messages. */
export interface MessageLabel {
  /** `rule "tcp dport 18081 redirect to :18001"` */
  readonly what: string;
  /** Kernel module that the message needs: its absence is what ENOENT means. */
  readonly module?: string;
  /** A message of NEWER_THAN_HEADERS: an older kernel refuses it as unknown. */
  readonly isNewer?: boolean;
}

export interface Batch {
  readonly bytes: Buffer;
  /** By index in the batch; 0 is BATCH_BEGIN. */
  readonly labels: readonly MessageLabel[];
  /** Something may be deleted: the sockets are closed later, so that nobody waits for the kernel. */
  readonly mayDelete: boolean;
}

/** Enough for any message but one of set elements; a rule of ours has about 600 bytes. */
const MESSAGE_ROOM = 4096;
/** Elements per message: the list attribute's length has 16 bits. Even, so that both ends of an interval go together. */
const ELEMENTS_PER_MESSAGE = 800;
/** List item, key, value and flags: headers and padding. */
const ELEMENT_OVERHEAD = 24;

export interface ElementBlock {
  readonly table: string;
  readonly set: string;
  readonly count: number;
  readonly keyLength: number;
  readonly keys: Uint8Array;
  readonly ends: Uint8Array;
}

/** One use each: messages, then `finish`. */
export class BatchWriter {
  readonly #native: NativeLibrary;
  readonly #labels: MessageLabel[] = [];
  #bytes = Buffer.alloc(16 * MESSAGE_ROOM);
  #used = 0;
  /** Offset of the last message: it asks for the ACK. */
  #last = 0;

  constructor(native: NativeLibrary) {
    this.#native = native;
    native.call('nftnl_batch_begin', this.#room(MESSAGE_ROOM), this.#labels.length);
    this.#advance({ what: 'begin of the batch', module: 'nf_tables' });
  }

  /** `build` gets the message header's address and appends the payload. */
  message(type: number, options: { flags?: number; label: MessageLabel }, build: (header: bigint) => void): void {
    const room = this.#room(MESSAGE_ROOM);
    const seq = this.#labels.length;
    build(this.#native.call('nftnl_nlmsg_build_hdr', room, type, ABI.NFPROTO_INET, options.flags ?? 0, seq));
    this.#advance(options.label);
  }

  /** As many messages as the elements need; none for no elements. */
  elements(type: number, options: { flags?: number; label: MessageLabel }, block: ElementBlock): void {
    if (block.count === 0) return;
    const messages = Math.ceil(block.count / ELEMENTS_PER_MESSAGE);
    const size = messages * MESSAGE_ROOM + block.count * (ELEMENT_OVERHEAD + block.keyLength + 3);
    const room = this.#room(size);
    const { table, set, keys, keyLength, ends, count } = block;
    const flags = options.flags ?? 0;
    const seq = this.#labels.length;
    const per = ELEMENTS_PER_MESSAGE;
    const written = this.#native.call(
      'ae_encode_elements',
      ...([table, set, type, flags, seq, keys, keyLength, ends, count, per, room, room.length] as const),
    );
    if (written < 0n) throw new InternalError(`encode ${count} elements of set "${set}": errno ${-written}`);
    for (let i = 0; i < messages; i++) this.#advance(options.label);
  }

  finish(options: { mayDelete: boolean }): Batch {
    const flagsAt = this.#last + ABI.OFFSET_NLMSGHDR_FLAGS;
    this.#bytes.writeUInt16LE(this.#bytes.readUInt16LE(flagsAt) | ABI.NLM_F_ACK, flagsAt);
    this.#native.call('nftnl_batch_end', this.#room(MESSAGE_ROOM), this.#labels.length);
    this.#advance({ what: 'end of the batch' });
    return {
      bytes: Buffer.from(this.#bytes.subarray(0, this.#used)),
      labels: this.#labels,
      mayDelete: options.mayDelete,
    };
  }

  /** The free part of the buffer, of at least this size. */
  #room(size: number): Buffer {
    if (this.#bytes.length - this.#used < size) {
      const bigger = Buffer.alloc(Math.max(this.#bytes.length * 2, this.#used + size));
      this.#bytes.copy(bigger, 0, 0, this.#used);
      this.#bytes = bigger;
    }
    return this.#bytes.subarray(this.#used);
  }

  #advance(label: MessageLabel): void {
    this.#last = this.#used;
    this.#labels.push(label);
    // nlmsg_len comes first in the header; messages of nf_tables are multiples of 4 bytes long.
    this.#used += this.#bytes.readUInt32LE(this.#used);
  }
}
