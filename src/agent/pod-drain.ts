// How a pod leaves without a request being lost: first nobody is sent to it any more, then what is on its way arrives, and
// only then its listeners go (pod-life.ts). A connection of its own that is open for longer ends with the pod.
import { formatServiceKey } from '../mesh/names.ts';
import type { Snapshot } from '../xds/resource.ts';
import type { AgentPod } from './agent-pod.ts';
import type { NodeAgent } from './node-agent.ts';
import type { ResourceName } from './publisher.ts';

/** How long Envoy may take to hear of it. */
const ENDPOINT_GONE_MS = 300;
/** From Envoy's word until its workers have the new endpoints and what they had begun is done: handshakes, short requests. */
const DRAIN_MS = 200;

/**
 * Takes the pods' endpoints from the registry and from Envoy, and waits, for a bounded time, until nothing new comes to them.
 * Throws AgentError when what is left is not fit to publish.
 */
export async function drainPods(agent: NodeAgent, pods: readonly AgentPod[]): Promise<void> {
  const { publisher, clock } = agent.deps;
  const before = agent.snapshot;
  const isServed = publisher.streams > 0 && pods.some((pod) => agent.registrar.isOffered(pod));
  for (const pod of pods) {
    await agent.registrar.release(pod);
    agent.catalog.mark([formatServiceKey(pod.workload.service)]);
  }
  if (!isServed || before === undefined) return;
  await agent.runner.refresh();
  if (agent.snapshot === undefined) return;
  await publisher.waitForAck(listChanged(before, agent.snapshot), { timeoutMs: ENDPOINT_GONE_MS });
  const drainMs = agent.settings.drainMs ?? DRAIN_MS;
  if (drainMs > 0) await new Promise<void>((resolve) => void clock.after(drainMs, resolve));
}

// What is fetched on demand may never have been asked for: nobody waits for it. Clusters share endpoints: one that is always
// there is enough.
function listChanged(before: Snapshot, after: Snapshot): readonly ResourceName[] {
  const asked = new Set<string>();
  for (const { resources } of [before, after])
    for (const { isOnDemand, edsName } of resources.cluster.values())
      if (isOnDemand !== true && edsName !== undefined) asked.add(edsName);
  return (['cluster', 'endpoints', 'host'] as const).flatMap((kind) => {
    const names = new Set([...before.resources[kind].keys(), ...after.resources[kind].keys()]);
    return [...names].flatMap((name): readonly ResourceName[] => {
      const [earlier, now] = [before.resources[kind].get(name), after.resources[kind].get(name)];
      const isSame = earlier?.version === now?.version;
      const isMaybeUnknown = kind === 'endpoints' ? !asked.has(name) : (now ?? earlier)?.isOnDemand === true;
      return isSame || isMaybeUnknown ? [] : [{ kind, name }];
    });
  });
}
