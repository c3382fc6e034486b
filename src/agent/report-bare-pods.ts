// Pods of the mesh that lost the plugin's rules, or never had them: their traffic goes past it, and nothing else would say so.
import { PLUGIN_TABLE } from '../capture/plugin-table.ts';
import { messageOf } from '../core/errors.ts';
import { forEachOf } from './for-each-of.ts';
import type { NodeAgent } from './node-agent.ts';

const PARALLEL = 16;

/** Logs one error a pod. For the agent's start, when pods may have come, or changed, without it. Never rejects. */
export async function reportBarePods(agent: NodeAgent): Promise<void> {
  const { tables, log } = agent.deps;
  const readTable = tables.readTable?.bind(tables);
  if (readTable === undefined) return;
  await forEachOf(agent.listPods(), PARALLEL, async (pod) => {
    const { namespace, name, containerId } = pod.workload.record;
    const about = { pod: `${namespace}/${name}`, containerId };
    try {
      const found = await readTable(pod.netns, { name: PLUGIN_TABLE, sets: [], chains: [] });
      if (found !== undefined || agent.findPod(containerId) !== pod) return;
      log.error('agent.pod.without_rules', { ...about, remedy: 'recreate the pod; aether-cni check names what else' });
    } catch (error) {
      log.debug('agent.pod.not_looked_at', { ...about, reason: messageOf(error) });
    }
  });
}
