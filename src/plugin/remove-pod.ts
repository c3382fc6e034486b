// Tells the agent that a pod is gone, now or later: what it cannot be told now waits on disk for it.
import { messageOf } from '../core/errors.ts';
import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import { type CallContext, REMOVE_TIMEOUT_MS } from './call-context.ts';

export interface RemovedPod {
  readonly containerId: ContainerId;
  /** '' or absent where the runtime gave none. */
  readonly podName?: string;
  readonly podNamespace?: string;
  /** Takes the agent's table with the plugin's; the agent need not. */
  readonly takeRules?: (() => Promise<void>) | undefined;
  /** Undefined: the caller removes the pin itself. */
  readonly unpinNotBefore?: Date | undefined;
  /** The runtime's path. */
  readonly netns?: NetnsPath | undefined;
}

/** Throws StoreError when the agent cannot be told and the removal cannot be queued either. */
export async function removePodSoonOrLater(pod: RemovedPod, { config, deps }: CallContext): Promise<void> {
  const { containerId, takeRules, unpinNotBefore, netns } = pod;
  // The agent refuses empty fields; "-" is no name that a pod can have.
  const named = { containerId, name: pod.podName || '-', namespace: pod.podNamespace || '-' };
  try {
    const timeoutMs = Math.min(REMOVE_TIMEOUT_MS, config.agentTimeoutMs);
    await deps.pods.removePod(named, { timeoutMs, takeRules });
  } catch (error) {
    deps.log.warn('cni.removal.queued', { pod: containerId, reason: messageOf(error) });
    const entry = {
      ...named,
      ...(unpinNotBefore === undefined ? {} : { unpinNotBefore }),
      ...(netns === undefined ? {} : { netns }),
    };
    await deps.deleteQueue.enqueue({ dir: config.deleteQueueDir, ...entry });
  }
}
