// Takes our tables out of a pod's namespace, if there still is one.
import { MESH_TABLE } from '../capture/mesh-table.ts';
import { PLUGIN_TABLE } from '../capture/plugin-table.ts';
import { NetnsError } from '../core/errors.ts';
import { type ContainerId, type NetnsPath, parseNetnsPath } from '../core/identifiers.ts';
import type { CallContext } from './call-context.ts';

/** The plugin's table and the agent's: the agent removes its own when it can be told, and has no way in later. */
export const POD_TABLES = [PLUGIN_TABLE, MESH_TABLE] as const;

/** Fine when the path is absent, no namespace, or none of a pod. Throws KernelError. */
export async function removeRules(
  netns: NetnsPath | undefined,
  table: (typeof POD_TABLES)[number],
  { deps }: CallContext,
): Promise<void> {
  if (netns === undefined) return;
  try {
    await deps.rules.destroyTable(netns, table, { settleFlows: table === PLUGIN_TABLE });
  } catch (error) {
    // The rules went with the namespace; a file that is none never had any; the host's own has none of ours.
    if (!(error instanceof NetnsError)) throw error;
    deps.log.debug('cni.rules.no_namespace', { reason: error.message });
  }
}

/** Where the container's namespace is pinned, if it is. */
export function pinPathOf({ config }: CallContext, containerId: ContainerId): NetnsPath | undefined {
  const path = parseNetnsPath(`${config.pinDir.replace(/\/+$/, '')}/${containerId}`);
  return typeof path === 'string' ? path : undefined;
}
