// Which rule of a pod's two tables decides about a connection: the agent's table looks first, and what it accepts or leaves
// goes on to the plugin's.
import type { IpRange } from '../core/ip.ts';
import type { MeshSets } from '../mesh/mesh-sets.ts';
import { findRule, type Packet } from '../nft/find-verdict.ts';
import { formatRule } from '../nft/text.ts';
import { planMeshTable } from './mesh-table.ts';
import { planPluginTable } from './plugin-table.ts';
import type { CapturePolicy } from './policy.ts';

/** `table`: `aether_mesh`. `rule`: as nft prints it, `tcp dport 18081 redirect to :18001`. */
export interface CaptureRule {
  readonly table: string;
  readonly rule: string;
}

/** The rule as planned; undefined: none takes the packet, which leaves as it is. */
export function findCaptureRule(
  packet: Packet,
  pod: { readonly policy: CapturePolicy; readonly sets: MeshSets; readonly unanswered?: readonly IpRange[] },
): CaptureRule | undefined {
  const mesh = planMeshTable(pod.policy, pod.sets, pod);
  const claim = findRule(mesh, packet);
  if (claim !== undefined && claim.verdict.kind !== 'accept') return { table: mesh.name, rule: formatRule(claim) };
  return findPluginRule(packet, pod.policy);
}

/** The same where the agent has no table in the pod. */
export function findPluginRule(packet: Packet, policy: CapturePolicy): CaptureRule | undefined {
  const plugin = planPluginTable(policy);
  const rule = findRule(plugin, packet);
  return rule === undefined ? undefined : { table: plugin.name, rule: formatRule(rule) };
}
