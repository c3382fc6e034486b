// An nftables ruleset as a value: what a table of ours holds, in nftables' own words. It prints as `nft -f` text
// (text.ts), lowers to kernel expressions (lower.ts) and is compared with what the kernel reports (compare.ts).
// Only what the mesh needs is expressible, so a rule that we could not program cannot be written down.
import type { AddressPort, IpAddress, IpFamily, IpRange } from '../core/ip.ts';
import type { PortRange } from '../core/port-range.ts';

/** One table of family inet with its sets and chains, in the order in which they are made. */
export interface Table {
  readonly name: string;
  readonly sets: readonly NftSet[];
  readonly chains: readonly BaseChain[];
}

/**
 * A named set. Interval sets hold ranges; the others hold single addresses, or pairs of address and TCP port.
 * Elements are sorted and free of overlaps.
 */
export type NftSet =
  | { readonly kind: 'ports'; readonly name: string; readonly elements: readonly PortRange[] }
  | { readonly kind: 'ranges'; readonly name: string; readonly family: IpFamily; readonly elements: readonly IpRange[] }
  | {
      readonly kind: 'addresses';
      readonly name: string;
      readonly family: IpFamily;
      readonly elements: readonly IpAddress[];
    }
  | {
      readonly kind: 'address-ports';
      readonly name: string;
      readonly family: IpFamily;
      readonly elements: readonly AddressPort[];
    };

/** A nat chain at the output hook, policy accept. `priority` as the kernel has it (dstnat is -100). */
export interface BaseChain {
  readonly name: string;
  readonly priority: number;
  readonly rules: readonly Rule[];
}

/** All matches must hold; then the verdict. Matches stand in the order in which they are tried. */
export interface Rule {
  readonly matches: readonly Match[];
  readonly verdict: Verdict;
}

export type Match =
  /** `meta mark 0xae7e` */
  | { readonly kind: 'mark'; readonly mark32: number }
  /** `meta l4proto tcp` */
  | { readonly kind: 'l4proto'; readonly protocol: 'tcp' | 'udp' }
  /** `tcp dport 18081`, `udp dport 53` */
  | { readonly kind: 'dport'; readonly protocol: 'tcp' | 'udp'; readonly port: number }
  /** `tcp dport 18001-18004`: a range, inclusive */
  | { readonly kind: 'dport-range'; readonly protocol: 'tcp' | 'udp'; readonly range: PortRange }
  /** `ip daddr 169.254.0.0/16`, `ip6 daddr ::1`: the family follows from the range */
  | { readonly kind: 'daddr'; readonly range: IpRange }
  /** `tcp dport @exclude_ports` */
  | { readonly kind: 'dport-in'; readonly protocol: 'tcp' | 'udp'; readonly set: string }
  /** `ip daddr @mesh_vip4` */
  | { readonly kind: 'daddr-in'; readonly family: IpFamily; readonly set: string }
  /** `ip daddr . tcp dport @mesh_tcp4` */
  | { readonly kind: 'daddr-dport-in'; readonly family: IpFamily; readonly set: string };

export type Verdict =
  | { readonly kind: 'accept' }
  /** `redirect to :18001` */
  | { readonly kind: 'redirect'; readonly port: number }
  /** `dnat ip to 10.0.0.1:18054`, `dnat ip6 to [fd00::1]:18054` */
  | { readonly kind: 'dnat'; readonly address: IpAddress; readonly port: number }
  /** `reject with tcp reset` */
  | { readonly kind: 'reset' };

/** A change of set elements in one table, applied as one transaction: additions are idempotent, removals too. */
export interface ElementChange {
  readonly table: string;
  readonly add: readonly NftSet[];
  readonly remove: readonly NftSet[];
}
