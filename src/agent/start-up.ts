// How the agent comes back: what the disk says of the pods, held against what is still there, made into the first
// snapshot. Killed at any instruction, it starts here and ends where it was.
import { messageOf, NetnsError } from '../core/errors.ts';
import { type ContainerId, parseContainerId } from '../core/identifiers.ts';
import { formatProblems } from '../core/problems.ts';
import { podResourceName } from '../mesh/names.ts';
import type { PodRecord } from '../mesh/workload.ts';
import { type AgentPod, parseAgentPod } from './agent-pod.ts';
import { clearNamespace } from './netns-owners.ts';
import type { NodeAgent } from './node-agent.ts';

/** How often the removals that the plugin left on disk are looked for while the agent runs. */
const REPLAY_MS = 5000;

/** What was found that an admin should know of. */
export interface StartReport {
  readonly pods: number;
  /** Records that are none, or no longer of a valid pod: `c1.json: reason`. They are left where they are. */
  readonly broken: readonly string[];
  /** Container ids whose namespace is gone, or whose removal was waiting. */
  readonly dropped: readonly string[];
}

/** Loads, reconciles, builds. After it the sockets may be opened. Throws StoreError, AgentError. */
export async function startAgent(agent: NodeAgent): Promise<StartReport> {
  const { deps } = agent;
  await agent.catalog.load();
  const { records, broken } = await deps.records.load();
  const removals = await deps.removals.list();
  const removed = new Set<string>(removals);
  const brokenNames = broken.map(({ file, reason }) => `${file}: ${reason}`);
  const dropped: string[] = [];
  await agent.liveness?.prime(
    records.map((record) => ({ containerId: record.containerId, resourceName: podResourceName(record) })),
  );
  for (const record of records) {
    const parsed = parseAgentPod(record, agent.settings.facts);
    if (parsed.kind === 'problems') {
      brokenNames.push(`${record.containerId}.json: ${formatProblems(parsed.problems)}`);
      if (removed.has(record.containerId)) await drop(agent, record, undefined);
    } else if (removed.has(record.containerId) || (await isGone(agent, parsed.value))) {
      await drop(agent, record, parsed.value);
      if (!removed.has(record.containerId)) await unpinRecorded(agent, record);
      dropped.push(record.containerId);
    } else {
      agent.setPod(parsed.value);
      await agent.registrar.claim(parsed.value);
    }
  }
  for (const name of brokenNames) deps.log.error('agent.record.broken', { record: name });
  // Exactly those that were seen above: one that came since is replayed in a moment.
  for (const containerId of removals) {
    const netns = await deps.removals.findNetns(containerId);
    if (netns !== undefined) await clearNamespace(deps, netns, agent.listPods());
    if (await deps.removals.postpone(containerId)) continue;
    await unpin(agent, containerId);
    await deps.removals.destroy(containerId);
  }
  await issueAll(agent);
  await agent.begin();
  const report = { pods: agent.listPods().length, broken: brokenNames, dropped };
  deps.log.info('agent.started', { ...report });
  return report;
}

/**
 * Replays, now and again, what the plugin could not say while the agent was busy; one that fails holds up no other. `replay`
 * does one (PodLife.replayRemoval). Ends when disposed.
 */
export function replayRemovals(agent: NodeAgent, replay: (containerId: ContainerId) => Promise<void>): Disposable {
  const { removals, clock, log } = agent.deps;
  let timer: Disposable | undefined;
  let isOver = false;
  const tick = async (): Promise<void> => {
    const failed = (error: unknown): void => log.warn('agent.removal.failed', { reason: messageOf(error) });
    const due = await removals.list().catch((error: unknown) => {
      failed(error);
      return [];
    });
    for (const containerId of due) await replay(containerId).catch(failed);
    schedule();
  };
  const schedule = (): void => {
    if (isOver) return;
    timer = clock.after(REPLAY_MS, () => void tick());
  };
  schedule();
  return {
    [Symbol.dispose]: () => {
      isOver = true;
      timer?.[Symbol.dispose]();
    },
  };
}

async function isGone(agent: NodeAgent, pod: AgentPod): Promise<boolean> {
  try {
    await agent.deps.namespaces.assertUsable(pod.netns);
    return false;
  } catch (error) {
    if (error instanceof NetnsError) return true;
    throw error;
  }
}

// The registry may be a shared one that still has the pod.
async function drop(agent: NodeAgent, record: PodRecord, pod: AgentPod | undefined): Promise<void> {
  const { deps } = agent;
  if (pod !== undefined) await agent.registrar.release(pod);
  agent.liveness?.forget(record.containerId);
  await deps.records.destroy(record.containerId);
  deps.log.info('agent.record.dropped', { containerId: record.containerId, pod: `${record.namespace}/${record.name}` });
}

// The pin keeps a dead namespace alive.
async function unpinRecorded(agent: NodeAgent, record: PodRecord): Promise<void> {
  const containerId = parseContainerId(record.containerId);
  if (typeof containerId === 'string') await unpin(agent, containerId);
}

async function unpin({ deps, settings }: NodeAgent, containerId: ContainerId): Promise<void> {
  try {
    await deps.namespaces.unpin({ pinDir: settings.pinDir, containerId });
  } catch (error) {
    deps.log.warn('agent.record.unpin_failed', { containerId, reason: messageOf(error) });
  }
}

// One identity without a certificate must not keep the node down: its pods wait, it is tried again.
async function issueAll(agent: NodeAgent): Promise<void> {
  const { certificates } = agent;
  if (certificates === undefined) return;
  const identities = new Set(agent.listPods().map((pod) => pod.node.identity));
  await Promise.allSettled([...identities].map((identity) => certificates.ensure(identity)));
}
