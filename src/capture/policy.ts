// What is captured of a pod's traffic: the one decision that rules, agent table, listeners and `explain` share.
import type { IpAddress, IpRange } from '../core/ip.ts';
import type { PortRange } from '../core/port-range.ts';

/**
 * `redirectAll` false is the scoped mode: only the mesh ports are captured. Exclusions are the pod's joined with the
 * node's: `excludePorts` (TCP) merged and ascending, `excludeRanges` disjoint and ascending, both families.
 */
export interface CapturePolicy {
  readonly redirectAll: boolean;
  readonly excludePorts: readonly PortRange[];
  readonly excludeRanges: readonly IpRange[];
  /** Where the pod's DNS (UDP and TCP 53) is sent; absent: DNS is left alone. */
  readonly dns?: { readonly address: IpAddress; readonly port: number };
}

/** Equal texts, equal policies. */
export function policyKey({ redirectAll, excludePorts, excludeRanges, dns }: CapturePolicy): string {
  let key = redirectAll ? 'all' : 'scoped';
  for (const { first, last } of excludePorts) key += ` ${first}-${last}`;
  for (const { text } of excludeRanges) key += ` ${text}`;
  return dns === undefined ? key : `${key} dns ${dns.address.text} ${dns.port}`;
}
