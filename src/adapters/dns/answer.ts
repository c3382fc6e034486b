// What mesh DNS says to one query: an answer of its own for names of the mesh, or that it is to be forwarded. No I/O.
// RFC 1035; negative answers RFC 2308; EDNS RFC 6891.
import {
  AUTHORITATIVE_ANSWER,
  type DecodedPacket,
  decode,
  encode,
  type Packet,
  type Question,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  TRUNCATED_RESPONSE,
} from 'dns-packet';
import type { IpAddress } from '../../core/ip.ts';
import { parseServiceFqdn, type ServiceKey } from '../../mesh/names.ts';

/** What the mesh knows of names. */
export interface MeshNames {
  /** The addresses of a service; undefined: there is no such service. */
  find(key: ServiceKey): readonly IpAddress[] | undefined;
  /** Whether any service of the namespace is known: its name then exists, though it has no records. */
  hasNamespace(namespace: string): boolean;
}

export interface AnswerOptions {
  readonly domain: string;
  readonly names: MeshNames;
  /** Over UDP an answer has at most the size that the client takes; beyond it is marked truncated. */
  readonly transport: 'udp' | 'tcp';
}

export type QueryOutcome =
  | { readonly kind: 'reply'; readonly bytes: Buffer }
  | { readonly kind: 'forward' }
  /** No query at all (an answer, or too short for a header): replying could make a loop. */
  | { readonly kind: 'drop' };

const HEADER_BYTES = 12;
const TTL_S = 30;
/** How long a client may hold that there is no such name: short, because a pod may come at any moment. */
const NEGATIVE_TTL_S = 5;
const UDP_MIN_BYTES = 512;
/** What fits one packet on any path (DNS flag day 2020). */
const UDP_MAX_BYTES = 1232;
/** RFC 6895: RCODEs. */
const NOERROR = 0;
const FORMERR = 1;
const SERVFAIL = 2;
const NXDOMAIN = 3;
const NOTIMP = 4;

/** Never throws, whatever the bytes are. */
export function answerQuery(query: Buffer, options: AnswerOptions): QueryOutcome {
  if (query.length < HEADER_BYTES || isResponse(query)) return { kind: 'drop' };
  if (opcodeOf(query) !== 0) return { kind: 'reply', bytes: replyError(query, NOTIMP) };
  const question = readQuestion(query);
  if (question === undefined) return { kind: 'reply', bytes: replyError(query, FORMERR) };
  const name = question.name.toLowerCase().replace(/\.$/, '');
  if (name !== options.domain && !name.endsWith(`.${options.domain}`)) return { kind: 'forward' };
  try {
    return { kind: 'reply', bytes: replyInDomain(query, question, options) };
  } catch {
    // A name that the codec reads but does not write, such as one that isn't UTF-8.
    return { kind: 'reply', bytes: replyError(query, FORMERR) };
  }
}

/** A reply that holds the header alone, for a query that could not be served. */
export function replyServfail(query: Buffer): Buffer {
  return replyError(query, SERVFAIL);
}

// Only the question is decoded: what else a client adds is for the upstream to understand.
function readQuestion(query: Buffer): Question | undefined {
  if (query.readUInt16BE(4) !== 1) return undefined;
  const alone = Buffer.from(query);
  alone.fill(0, 6, HEADER_BYTES);
  try {
    return decode(alone).questions?.[0];
  } catch {
    return undefined;
  }
}

function replyInDomain(query: Buffer, question: Question, options: AnswerOptions): Buffer {
  const { domain } = options;
  const found = findAnswers(question, options);
  const sized = readEdnsSize(query);
  const packet: Packet = {
    id: query.readUInt16BE(0),
    type: 'response',
    flags: AUTHORITATIVE_ANSWER | RECURSION_AVAILABLE | (query.readUInt16BE(2) & RECURSION_DESIRED) | found.rcode,
    questions: [question],
    answers: found.addresses.map((address) => ({
      type: address.family === 4 ? 'A' : 'AAAA',
      name: question.name,
      ttl: TTL_S,
      class: 'IN',
      data: address.text,
    })),
    authorities:
      found.addresses.length > 0
        ? []
        : [
            {
              type: 'SOA',
              name: domain,
              ttl: NEGATIVE_TTL_S,
              data: {
                mname: `ns.dns.${domain}`,
                rname: `hostmaster.${domain}`,
                serial: 1,
                refresh: 7200,
                retry: 1800,
                expire: 86_400,
                minimum: NEGATIVE_TTL_S,
              },
            },
          ],
    additionals:
      sized === undefined
        ? []
        : [
            {
              type: 'OPT',
              name: '.',
              udpPayloadSize: UDP_MAX_BYTES,
              extendedRcode: 0,
              ednsVersion: 0,
              flags: 0,
              flag_do: false,
              options: [],
            },
          ],
  };
  const bytes = encode(packet);
  const limit = Math.min(Math.max(sized ?? UDP_MIN_BYTES, UDP_MIN_BYTES), UDP_MAX_BYTES);
  if (options.transport === 'tcp' || bytes.length <= limit) return bytes;
  return encode({ ...packet, flags: (packet.flags ?? 0) | TRUNCATED_RESPONSE, answers: [], authorities: [] });
}

interface Found {
  readonly rcode: number;
  readonly addresses: readonly IpAddress[];
}

function findAnswers(question: Question, { domain, names }: AnswerOptions): Found {
  const name = question.name.toLowerCase().replace(/\.$/, '');
  const key = parseServiceFqdn(name, domain);
  const addresses = key === undefined ? undefined : names.find(key);
  if (addresses !== undefined) {
    const type: string = question.type;
    const families = type === 'A' ? [4] : type === 'AAAA' ? [6] : type === 'ANY' ? [4, 6] : [];
    return { rcode: NOERROR, addresses: addresses.filter((address) => families.includes(address.family)) };
  }
  // The domain itself and the namespaces in it exist without records: NXDOMAIN would deny all names below (RFC 8020).
  const below = name === domain ? '' : name.slice(0, -domain.length - 1);
  return { rcode: below === '' || names.hasNamespace(below) ? NOERROR : NXDOMAIN, addresses: [] };
}

function readEdnsSize(query: Buffer): number | undefined {
  let packet: DecodedPacket;
  try {
    packet = decode(query);
  } catch {
    return undefined;
  }
  const opt = packet.additionals?.find((record) => record.type === 'OPT');
  return opt?.type === 'OPT' ? opt.udpPayloadSize : undefined;
}

function replyError(query: Buffer, rcode: number): Buffer {
  const reply = Buffer.alloc(HEADER_BYTES);
  query.copy(reply, 0, 0, 2);
  const kept = query.readUInt16BE(2) & (0x7800 | RECURSION_DESIRED);
  reply.writeUInt16BE(0x8000 | kept | RECURSION_AVAILABLE | rcode, 2);
  return reply;
}

function isResponse(query: Buffer): boolean {
  return (query.readUInt16BE(2) & 0x8000) !== 0;
}

function opcodeOf(query: Buffer): number {
  return (query.readUInt16BE(2) >> 11) & 0xf;
}
