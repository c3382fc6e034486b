// Netlink messages and attributes as bytes: for asking, and for reading what came back (linux/netlink.h,
// linux/netfilter/nfnetlink.h). Programming goes through libnftnl; answers are read here, one pass, without calls.
import { Buffer } from 'node:buffer';
import { ABI } from './abi.ts';

/** Header bits of an attribute's type: nested, byte order (NLA_TYPE_MASK, linux/netlink.h). */
const TYPE_MASK = 0x3fff;
const HEADER_LENGTH = 4;

const align = (length: number): number => (length + 3) & ~3;

/** One message of a reply. `type`: an NFT_MSG_* number (of whatever subsystem was asked), or -1 for NLMSG_DONE and NLMSG_ERROR. */
export interface Message {
  readonly type: number;
  readonly seq: number;
  /** First byte of the protocol's header: NFPROTO_*, AF_*; 0 where the type is -1. */
  readonly family: number;
  /** Positive errno of an NLMSG_ERROR or NLMSG_DONE; 0 is success. */
  readonly errno: number;
  readonly attributes: Attributes;
}

/** Attributes by number; the first of each number. */
export class Attributes {
  readonly #bytes: Buffer;
  readonly #spans: ReadonlyMap<number, readonly [from: number, to: number]>;

  constructor(bytes: Buffer) {
    const spans = new Map<number, readonly [number, number]>();
    for (const { type, from, to } of walk(bytes)) if (!spans.has(type)) spans.set(type, [from, to]);
    this.#bytes = bytes;
    this.#spans = spans;
  }

  bytes(type: number): Buffer | undefined {
    const span = this.#spans.get(type);
    return span === undefined ? undefined : this.#bytes.subarray(span[0], span[1]);
  }

  nested(type: number): Attributes {
    return new Attributes(this.bytes(type) ?? Buffer.alloc(0));
  }

  /** Big endian, as nf_tables has all its numbers. */
  u32(type: number): number | undefined {
    const bytes = this.bytes(type);
    return bytes === undefined || bytes.length < 4 ? undefined : bytes.readUInt32BE(0);
  }

  /** Big endian. */
  u16(type: number): number | undefined {
    const bytes = this.bytes(type);
    return bytes === undefined || bytes.length < 2 ? undefined : bytes.readUInt16BE(0);
  }

  u8(type: number): number | undefined {
    return this.bytes(type)?.[0];
  }

  /** A string with or without its NUL. */
  text(type: number): string | undefined {
    return this.bytes(type)?.toString('utf8').replace(/\0$/, '');
  }

  /** The items of a list attribute, in order. */
  list(type: number): readonly Attributes[] {
    const bytes = this.bytes(type);
    if (bytes === undefined) return [];
    return [...walk(bytes)].map(({ from, to }) => new Attributes(bytes.subarray(from, to)));
  }
}

function* walk(bytes: Buffer): Generator<{ type: number; from: number; to: number }> {
  for (let at = 0; at + HEADER_LENGTH <= bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    if (length < HEADER_LENGTH || at + length > bytes.length) return;
    yield { type: bytes.readUInt16LE(at + 2) & TYPE_MASK, from: at + HEADER_LENGTH, to: at + length };
    at += align(length);
  }
}

/** A question or an order: NLM_F_REQUEST is set. `texts` are string attributes; `raw` are attributes by their content. */
export interface Request {
  /** NFNL_SUBSYS_* of `type`; absent: nf_tables. 0 for protocols that have no subsystems. */
  readonly subsystem?: number;
  readonly type: number;
  readonly flags: number;
  readonly seq: number;
  /** NFPROTO_*, AF_*; absent: inet. */
  readonly family?: number;
  /** Bytes of the protocol's header, its family first; absent: nfnetlink's. */
  readonly headerLength?: number;
  readonly texts?: readonly (readonly [type: number, value: string])[];
  readonly raw?: readonly (readonly [type: number, content: Uint8Array])[];
}

/** The protocol's header is zero but for the family. */
export function encodeRequest(request: Request): Buffer {
  const { subsystem = ABI.NFNL_SUBSYS_NFTABLES, family = ABI.NFPROTO_INET } = request;
  const { headerLength = ABI.SIZEOF_NFGENMSG, texts = [], raw = [] } = request;
  const attributes = [
    ...texts.map(([number, value]) => encodeAttribute(number, Buffer.from(`${value}\0`))),
    ...raw.map(([number, content]) => encodeAttribute(number, content)),
  ];
  const header = Buffer.alloc(ABI.SIZEOF_NLMSGHDR + headerLength);
  header.writeUInt32LE(
    attributes.reduce((sum, bytes) => sum + bytes.length, header.length),
    0,
  );
  header.writeUInt16LE((subsystem << 8) | request.type, ABI.OFFSET_NLMSGHDR_TYPE);
  header.writeUInt16LE(ABI.NLM_F_REQUEST | request.flags, ABI.OFFSET_NLMSGHDR_FLAGS);
  header.writeUInt32LE(request.seq, ABI.OFFSET_NLMSGHDR_SEQ);
  header[ABI.SIZEOF_NLMSGHDR] = family;
  return Buffer.concat([header, ...attributes]);
}

function encodeAttribute(type: number, content: Uint8Array): Buffer {
  const length = HEADER_LENGTH + content.length;
  const bytes = Buffer.alloc(align(length));
  bytes.writeUInt16LE(length, 0);
  bytes.writeUInt16LE(type, 2);
  bytes.set(content, HEADER_LENGTH);
  return bytes;
}

/** The messages of a buffer full of replies; `headerLength` as in the request. */
export function* readMessages(bytes: Buffer, headerLength: number = ABI.SIZEOF_NFGENMSG): Generator<Message> {
  for (let at = 0; at + ABI.SIZEOF_NLMSGHDR <= bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    if (length < ABI.SIZEOF_NLMSGHDR || at + length > bytes.length) return;
    const type = bytes.readUInt16LE(at + ABI.OFFSET_NLMSGHDR_TYPE);
    const seq = bytes.readUInt32LE(at + ABI.OFFSET_NLMSGHDR_SEQ);
    const body = bytes.subarray(at, at + length);
    if (type === ABI.NLMSG_ERROR || type === ABI.NLMSG_DONE) {
      const errno = body.length >= ABI.SIZEOF_NLMSGHDR + 4 ? -body.readInt32LE(ABI.SIZEOF_NLMSGHDR) : 0;
      yield { type: -1, seq, family: 0, errno, attributes: new Attributes(Buffer.alloc(0)) };
    } else {
      yield {
        type: type & 0xff,
        seq,
        family: body[ABI.SIZEOF_NLMSGHDR] ?? 0,
        errno: 0,
        attributes: new Attributes(body.subarray(ABI.SIZEOF_NLMSGHDR + headerLength)),
      };
    }
    at += align(length);
  }
}
