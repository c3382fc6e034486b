// The plugin's table: static, made once by ADD, enough on its own to capture a pod's traffic (proposal 037 with one
// listener). The agent's table (mesh-table.ts) looks first where there is one.
import { RecentMap } from '../core/recent-map.ts';
import { CAPTURE_PORT, HTTP_MESH_PORT, TCP_MESH_PORT } from '../mesh/constants.ts';
import type { Rule, Table } from '../nft/model.ts';
import { type CapturePolicy, policyKey } from './policy.ts';
import {
  ACCEPT_CAPTURE_PORTS,
  ACCEPT_LOOPBACK,
  ACCEPT_OWN_MARK,
  acceptExcluded,
  acceptIf,
  CHAIN_OUTPUT,
  knownRange,
  planExclusionSets,
  redirectPort,
} from './shared-rules.ts';

export const PLUGIN_TABLE = 'aether';
/** NF_IP_PRI_NAT_DST (linux/netfilter_ipv4.h): where destination NAT belongs. */
export const PLUGIN_PRIORITY = -100;
/** Of the pod's resolver, whatever its address. */
export const DNS_PORT = 53;

const ACCEPT_LINK_LOCAL: readonly Rule[] = ['169.254.0.0/16', 'fe80::/10', '224.0.0.0/4', 'ff00::/8'].map((text) =>
  acceptIf({ kind: 'daddr', range: knownRange(text) }),
);

// Never UDP 18082: there is no UDP on the TCP mesh port.
const REDIRECT_MESH_PORTS: readonly Rule[] = [
  redirectPort('tcp', HTTP_MESH_PORT, CAPTURE_PORT),
  redirectPort('tcp', TCP_MESH_PORT, CAPTURE_PORT),
  redirectPort('udp', HTTP_MESH_PORT, CAPTURE_PORT),
];

const REDIRECT_ALL_TCP: Rule = {
  matches: [{ kind: 'l4proto', protocol: 'tcp' }],
  verdict: { kind: 'redirect', port: CAPTURE_PORT },
};

/** Kinds of pods that are planned for at a time. */
const RECENT_POLICIES = 32;
const recent = new RecentMap<Table>(RECENT_POLICIES);

/** The rules and sets for one policy; equal policies get the same table, so that one batch serves them all. */
export function planPluginTable(policy: CapturePolicy): Table {
  return recent.getOrMake(policyKey(policy), () => planTable(policy));
}

function planTable(policy: CapturePolicy): Table {
  const exclusions = planExclusionSets(policy);
  const rules = [
    ...ACCEPT_OWN_MARK,
    ...ACCEPT_LOOPBACK,
    // Before link-local: a node's DNS cache often listens there.
    ...planDns(policy),
    ...ACCEPT_LINK_LOCAL,
    ...acceptExcluded(exclusions),
    ...ACCEPT_CAPTURE_PORTS,
    ...REDIRECT_MESH_PORTS,
    ...(policy.redirectAll ? [REDIRECT_ALL_TCP] : []),
  ];
  return {
    name: PLUGIN_TABLE,
    sets: exclusions,
    chains: [{ name: CHAIN_OUTPUT, priority: PLUGIN_PRIORITY, rules }],
  };
}

function planDns(policy: CapturePolicy): readonly Rule[] {
  const { dns } = policy;
  if (dns === undefined) return [];
  return (['udp', 'tcp'] as const).map((protocol) => ({
    matches: [{ kind: 'dport', protocol, port: DNS_PORT }],
    verdict: { kind: 'dnat', address: dns.address, port: dns.port },
  }));
}
