// The rules and sets that the plugin's table and the agent's table have in common, so that they cannot drift apart:
// what is never captured, whoever asks.

import { InternalError } from '../core/errors.ts';
import { type IpRange, parseIpRange } from '../core/ip.ts';
import { BYPASS_MARK32, CAPTURE_PORT, CAPTURE_TLS_PORT } from '../mesh/constants.ts';
import type { Match, NftSet, Rule } from '../nft/model.ts';
import type { CapturePolicy } from './policy.ts';

/** Names of the exclusion sets, in both tables. */
const SET_EXCLUDE_PORTS = 'exclude_ports';
const SET_EXCLUDE4 = 'exclude4';
const SET_EXCLUDE6 = 'exclude6';
/** The one chain of each table. */
export const CHAIN_OUTPUT = 'output';

/** A range known when this was written. */
export function knownRange(text: string): IpRange {
  const range = parseIpRange(text);
  if (range === undefined) throw new InternalError(`reading a built-in range: "${text}" is none`);
  return range;
}

/** `<match> accept`. */
export function acceptIf(match: Match): Rule {
  return { matches: [match], verdict: { kind: 'accept' } };
}

/** `meta mark 0x0000ae7e accept`: what the mesh itself sends. */
export const ACCEPT_OWN_MARK: readonly Rule[] = [acceptIf({ kind: 'mark', mark32: BYPASS_MARK32 })];

/** `ip daddr 127.0.0.0/8 accept`, `ip6 daddr ::1 accept`. */
export const ACCEPT_LOOPBACK: readonly Rule[] = [
  acceptIf({ kind: 'daddr', range: knownRange('127.0.0.0/8') }),
  acceptIf({ kind: 'daddr', range: knownRange('::1/128') }),
];

const ACCEPT_EXCLUDED: Readonly<Record<string, Rule>> = {
  [SET_EXCLUDE_PORTS]: acceptIf({ kind: 'dport-in', protocol: 'tcp', set: SET_EXCLUDE_PORTS }),
  [SET_EXCLUDE4]: acceptIf({ kind: 'daddr-in', family: 4, set: SET_EXCLUDE4 }),
  [SET_EXCLUDE6]: acceptIf({ kind: 'daddr-in', family: 6, set: SET_EXCLUDE6 }),
};

/** `tcp dport @exclude_ports accept`, `ip daddr @exclude4 accept`, `ip6 daddr @exclude6 accept`, of those that there are. */
export function acceptExcluded(sets: readonly NftSet[]): readonly Rule[] {
  return sets.flatMap(({ name }) => ACCEPT_EXCLUDED[name] ?? []);
}

/** `tcp dport 18001-18004 accept`: a dial to a capture port cannot loop. */
export const ACCEPT_CAPTURE_PORTS: readonly Rule[] = [
  acceptIf({ kind: 'dport-range', protocol: 'tcp', range: { first: CAPTURE_PORT, last: CAPTURE_TLS_PORT } }),
];

/** The exclusion sets of a policy: all three, empty or not. */
export function planExclusionSets(policy: CapturePolicy): readonly NftSet[] {
  const ofFamily = (family: 4 | 6) => policy.excludeRanges.filter((range) => range.family === family);
  return [
    { kind: 'ports', name: SET_EXCLUDE_PORTS, elements: policy.excludePorts },
    { kind: 'ranges', name: SET_EXCLUDE4, family: 4, elements: ofFamily(4) },
    { kind: 'ranges', name: SET_EXCLUDE6, family: 6, elements: ofFamily(6) },
  ];
}

/** `tcp dport <port> redirect to :<to>`. */
export function redirectPort(protocol: 'tcp' | 'udp', port: number, to: number): Rule {
  return { matches: [{ kind: 'dport', protocol, port }], verdict: { kind: 'redirect', port: to } };
}
