// Pins of ADDs that were killed before the pod was in the mesh, and whose runtime never called DEL: each keeps a namespace
// alive for nobody.
import { POD_TABLES } from '../capture/mesh-table.ts';
import { messageOf, NetnsError } from '../core/errors.ts';
import { type ContainerId, parseNetnsPath } from '../core/identifiers.ts';
import type { NodeAgent } from './node-agent.ts';

/**
 * `old`: containers whose ADD began long ago, with a pin. One without record and without rules goes; `release` takes its note.
 * One that has rules stays: its record may only be out of sight (a wrong --record-dir), and would need the pin. Never rejects.
 */
export async function dropStalePins(
  agent: NodeAgent,
  { old, release }: { readonly old: readonly ContainerId[]; readonly release: (id: ContainerId) => Promise<void> },
): Promise<void> {
  const { deps, settings } = agent;
  const { pinDir } = settings;
  for (const containerId of old) {
    if (agent.findPod(containerId) !== undefined) continue;
    try {
      if (await hasRules(agent, `${pinDir}/${containerId}`)) continue;
      await deps.namespaces.unpin({ pinDir, containerId });
      await release(containerId);
      deps.log.info('agent.pin.dropped', { containerId });
    } catch (error) {
      deps.log.warn('agent.pin.not_dropped', { containerId, reason: messageOf(error) });
    }
  }
}

async function hasRules({ deps: { tables } }: NodeAgent, pin: string): Promise<boolean> {
  const netns = parseNetnsPath(pin);
  if (typeof netns === 'object' || tables.readTable === undefined) return true;
  try {
    for (const name of POD_TABLES) {
      if ((await tables.readTable(netns, { name, sets: [], chains: [] })) !== undefined) return true;
    }
    return false;
  } catch (error) {
    // The file of a pin that was never mounted.
    if (error instanceof NetnsError) return false;
    throw error;
  }
}
