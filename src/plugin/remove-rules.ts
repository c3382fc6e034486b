// Takes our tables out of a pod's namespace, if there still is one.
import type { POD_TABLES } from '../capture/mesh-table.ts';
import { PLUGIN_TABLE } from '../capture/plugin-table.ts';
import { NetnsError } from '../core/errors.ts';
import { type ContainerId, type NetnsPath, parseNetnsPath, withoutEndSlash } from '../core/identifiers.ts';
import type { CallContext } from './call-context.ts';

/**
 * One table, the agent's too: it removes its own when it can be told, and has no way in later. By the first of these paths that
 * leads there: the runtime's may be gone with its process while our pin still holds the namespace. Fine when none does. Throws
 * KernelError.
 */
export async function removeRules(
  paths: readonly NetnsPath[],
  table: (typeof POD_TABLES)[number],
  { deps }: CallContext,
): Promise<void> {
  const failures: unknown[] = [];
  for (const path of paths) {
    try {
      await deps.rules.destroyTable(path, table, { settleFlows: table === PLUGIN_TABLE });
      return;
    } catch (error) {
      // The rules went with the namespace; a file that is none never had any; the host's own has none of ours.
      if (error instanceof NetnsError) deps.log.debug('cni.rules.no_namespace', { reason: error.message });
      else failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Where the container's namespace is pinned, if it is. */
export function pinPathsOf({ config }: CallContext, containerId: ContainerId): readonly NetnsPath[] {
  const path = parseNetnsPath(`${withoutEndSlash(config.pinDir)}/${containerId}`);
  return typeof path === 'string' ? [path] : [];
}
