// Connections that the kernel tracks in a namespace (conntrack, linux/netfilter/nfnetlink_conntrack.h): read all, forget
// some. One that is forgotten is not cut: its next packet is looked at as the first of a connection.
import type { TrackedFlow } from '../../capture/stale-flows.ts';
import type { NetnsPath } from '../../core/identifiers.ts';
import { type IpAddress, ipFromBytes } from '../../core/ip.ts';
import { ABI } from './abi.ts';
import { collectReplies } from './collect-replies.ts';
import { errnoName, kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';
import { type Attributes, type Message, type Request, readMessages } from './netlink.ts';
import { plainPath } from './peer-view.ts';

const PROTOCOLS: ReadonlyMap<number | undefined, TrackedFlow['protocol']> = new Map([
  [6, 'tcp'],
  [17, 'udp'],
]);

/** States of a TCP connection that is not answered yet, or over. */
const NOT_ESTABLISHED: ReadonlySet<number> = new Set([
  ABI.TCP_CONNTRACK_SYN_SENT,
  ABI.TCP_CONNTRACK_SYN_SENT2,
  ABI.TCP_CONNTRACK_TIME_WAIT,
  ABI.TCP_CONNTRACK_CLOSE,
]);

/** How a kernel answers that cannot be asked about connections (no nf_conntrack_netlink). */
const CANNOT_ASK: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP', 'EPROTONOSUPPORT']);

/**
 * Forgets the flows that `isStale` picks and no other, whatever happens meanwhile: each is named by its tuple and the
 * kernel's id for it. `localAddresses`: the namespace's, canonical text. Returns how many; 0 on a kernel that cannot be
 * asked. Throws NetnsError, KernelError.
 */
export async function flushFlows(
  native: NativeLibrary,
  netns: NetnsPath,
  isStale: (flow: TrackedFlow, localAddresses: ReadonlySet<string>) => boolean,
): Promise<number> {
  const tracked = await listTracked(native, netns);
  if (tracked.length === 0) return 0;
  const localAddresses = await listAddresses(native, netns);
  const doomed = tracked.filter(({ flow }) => isStale(flow, localAddresses));
  if (doomed.length === 0) return 0;
  const what = 'delete tracked connections';
  const requests = doomed.map(({ key }, index): Request => ({ ...key, ...DELETE, seq: index + 1 }));
  const replies = [...readMessages((await collectReplies(native, netns, { what, requests })).bytes)];
  // ENOENT: it has ended by itself, or another has taken its place.
  const failed = replies.find(({ errno }) => errno !== 0 && errnoName(errno) !== 'ENOENT');
  if (failed !== undefined) throw kernelError(`${what} in network namespace "${plainPath(netns)}"`, failed.errno);
  return replies.filter(({ errno }) => errno === 0).length;
}

const DELETE = { subsystem: ABI.NFNL_SUBSYS_CTNETLINK, type: ABI.IPCTNL_MSG_CT_DELETE, flags: ABI.NLM_F_ACK };

interface Tracked {
  readonly flow: TrackedFlow;
  /** What names it to the kernel. Never without a tuple: such an order would delete everything. */
  readonly key: Pick<Request, 'family' | 'raw'>;
}

async function listTracked(native: NativeLibrary, netns: NetnsPath): Promise<readonly Tracked[]> {
  const what = 'list tracked connections';
  // Family 0 is both.
  const request = { subsystem: ABI.NFNL_SUBSYS_CTNETLINK, type: ABI.IPCTNL_MSG_CT_GET, flags: ABI.NLM_F_DUMP };
  const requests = [{ ...request, family: 0, seq: 1 }];
  const messages = [...readMessages((await collectReplies(native, netns, { what, requests })).bytes)];
  const failed = messages.find(({ errno }) => errno !== 0);
  if (failed !== undefined && CANNOT_ASK.has(errnoName(failed.errno))) return [];
  if (failed !== undefined) throw kernelError(`${what} in network namespace "${plainPath(netns)}"`, failed.errno);
  return messages.flatMap((message) => readTracked(message) ?? []);
}

function readTracked({ type, attributes }: Message): Tracked | undefined {
  if (type !== ABI.IPCTNL_MSG_CT_NEW) return undefined;
  const tuple = attributes.bytes(ABI.CTA_TUPLE_ORIG);
  const id = attributes.bytes(ABI.CTA_ID);
  const dialled = readTuple(attributes.nested(ABI.CTA_TUPLE_ORIG));
  const answered = readTuple(attributes.nested(ABI.CTA_TUPLE_REPLY));
  if (tuple === undefined || id === undefined || dialled === undefined || answered === undefined) return undefined;
  const zone = attributes.bytes(ABI.CTA_ZONE);
  const state = attributes.nested(ABI.CTA_PROTOINFO).nested(ABI.CTA_PROTOINFO_TCP).u8(ABI.CTA_PROTOINFO_TCP_STATE);
  return {
    flow: {
      protocol: dialled.protocol,
      source: dialled.source.address,
      destination: dialled.destination,
      target: answered.source,
      isTranslated: ((attributes.u32(ABI.CTA_STATUS) ?? 0) & ABI.IPS_DST_NAT) !== 0,
      isEstablished: dialled.protocol === 'tcp' && !NOT_ESTABLISHED.has(state ?? -1),
    },
    key: {
      family: dialled.source.address.family === 4 ? ABI.NFPROTO_IPV4 : ABI.NFPROTO_IPV6,
      raw: [
        [NESTED | ABI.CTA_TUPLE_ORIG, tuple],
        [ABI.CTA_ID, id],
        ...(zone === undefined ? [] : [[ABI.CTA_ZONE, zone] as const]),
      ],
    },
  };
}

/** NLA_F_NESTED (linux/netlink.h) */
const NESTED = 0x8000;

// Of a protocol other than TCP and UDP: undefined.
function readTuple(tuple: Attributes) {
  const ip = tuple.nested(ABI.CTA_TUPLE_IP);
  const proto = tuple.nested(ABI.CTA_TUPLE_PROTO);
  const protocol = PROTOCOLS.get(proto.u8(ABI.CTA_PROTO_NUM));
  const source = readAddress(ip.bytes(ABI.CTA_IP_V4_SRC) ?? ip.bytes(ABI.CTA_IP_V6_SRC));
  const destination = readAddress(ip.bytes(ABI.CTA_IP_V4_DST) ?? ip.bytes(ABI.CTA_IP_V6_DST));
  const sourcePort = proto.u16(ABI.CTA_PROTO_SRC_PORT);
  const port = proto.u16(ABI.CTA_PROTO_DST_PORT);
  if (protocol === undefined || source === undefined || destination === undefined) return undefined;
  if (sourcePort === undefined || port === undefined) return undefined;
  return {
    protocol,
    source: { address: source, port: sourcePort },
    destination: { address: destination, port },
  };
}

async function listAddresses(native: NativeLibrary, netns: NetnsPath): Promise<ReadonlySet<string>> {
  const what = 'list addresses';
  const headerLength = ABI.SIZEOF_IFADDRMSG;
  const request = { subsystem: 0, type: ABI.RTM_GETADDR, flags: ABI.NLM_F_DUMP, family: 0, headerLength, seq: 1 };
  const { bytes } = await collectReplies(native, netns, { what, requests: [request], protocol: ABI.NETLINK_ROUTE });
  const messages = [...readMessages(bytes, headerLength)];
  const failed = messages.find(({ errno }) => errno !== 0);
  if (failed !== undefined) throw kernelError(`${what} of network namespace "${plainPath(netns)}"`, failed.errno);
  return new Set(
    messages
      .filter(({ type }) => type === ABI.RTM_NEWADDR)
      // IFA_ADDRESS is the far end of a point-to-point link; IPv6 has no other.
      .map(({ attributes }) => readAddress(attributes.bytes(ABI.IFA_LOCAL) ?? attributes.bytes(ABI.IFA_ADDRESS))?.text)
      .filter((text) => text !== undefined),
  );
}

function readAddress(bytes: Uint8Array | undefined): IpAddress | undefined {
  return bytes?.length === 4 || bytes?.length === 16 ? ipFromBytes(Uint8Array.from(bytes)) : undefined;
}
