// Connections that the kernel still treats as rules before told it: a connection's translation is chosen by its first
// packet and kept. Here is decided which of those to forget, so that the next packet is a first one again.
import { type AddressPort, type IpAddress, ipFromBytes } from '../core/ip.ts';
import { CAPTURE_PORT, MESH_DNS_PORT } from '../mesh/constants.ts';
import { findVerdict } from '../nft/find-verdict.ts';
import type { Table } from '../nft/model.ts';
import { DNS_PORT } from './plugin-table.ts';

/** One connection as conntrack has it. */
export interface TrackedFlow {
  readonly protocol: 'tcp' | 'udp';
  readonly source: IpAddress;
  /** What was dialled. */
  readonly destination: AddressPort;
  /** Who is to answer: `destination`, unless some rule has translated it. */
  readonly target: AddressPort;
  readonly isTranslated: boolean;
  /** TCP between the answer to the first packet and the end. */
  readonly isEstablished: boolean;
}

/** nf_nat_redirect (net/netfilter/nf_nat_redirect.c): in the output hook, the loopback address of the packet's family. */
const LOOPBACK = {
  4: ipFromBytes(Uint8Array.of(127, 0, 0, 1)),
  6: ipFromBytes(Uint8Array.from({ length: 16 }, (_, i) => (i === 15 ? 1 : 0))),
} as const;

/**
 * Whether the plugin's table (undefined: it is removed) would send the flow's first packet elsewhere than the flow goes.
 *
 * Narrow on purpose. An established TCP connection stays: elsewhere it would only be reset, and its translation holds
 * whatever the rules become. What another table translates (the agent's, a stranger's) stays. What did not start here
 * (`localAddresses`: the namespace's, canonical text) stays, or its answers would be taken for first packets. A flow that
 * carries the bypass mark cannot be told from one that does not; forgetting it changes nothing, its next packet has the mark.
 */
export function isStaleFlow(
  flow: TrackedFlow,
  table: Table | undefined,
  { localAddresses }: { readonly localAddresses: ReadonlySet<string> },
): boolean {
  if (flow.isEstablished) return false;
  const wanted = table === undefined ? undefined : planTarget(flow, table);
  if (isOurs(flow)) return wanted === undefined || !isSame(wanted, flow.target);
  return !flow.isTranslated && wanted !== undefined && localAddresses.has(flow.source.text);
}

function planTarget({ protocol, destination }: TrackedFlow, table: Table): AddressPort | undefined {
  const { address, port } = destination;
  const verdict = findVerdict(table, { protocol, destination: address, port });
  switch (verdict?.kind) {
    case 'redirect':
      return { address: LOOPBACK[address.family], port: verdict.port };
    case 'dnat':
      return { address: verdict.address, port: verdict.port };
    default:
      return undefined;
  }
}

/** Where the plugin's table, this or an earlier one, sends what it takes. */
function isOurs({ isTranslated, destination, target }: TrackedFlow): boolean {
  if (!isTranslated) return false;
  const isCaptured = target.port === CAPTURE_PORT && target.address.text === LOOPBACK[target.address.family].text;
  return isCaptured || (destination.port === DNS_PORT && target.port === MESH_DNS_PORT);
}

function isSame(a: AddressPort, b: AddressPort): boolean {
  return a.port === b.port && a.address.text === b.address.text;
}
