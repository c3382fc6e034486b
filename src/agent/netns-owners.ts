// One container a network namespace: it has one set of rules, and whoever leaves it takes them along.
import { POD_TABLES } from '../capture/mesh-table.ts';
import { messageOf } from '../core/errors.ts';
import type { NetnsPath } from '../core/identifiers.ts';
import type { Namespaces } from '../plugin/deps.ts';
import type { AgentPod } from './agent-pod.ts';
import type { AgentDeps } from './deps.ts';

/** Tells namespaces apart by what they are: by their paths they differ where each container has a pin. */
export class NetnsOwners {
  readonly #namespaces: Pick<Namespaces, 'identify'>;
  /** As each was found first. */
  readonly #identities = new WeakMap<AgentPod, string>();

  constructor(namespaces: Pick<Namespaces, 'identify'>) {
    this.#namespaces = namespaces;
  }

  /** The pod of another container, out of `pods`, that has the namespace of this one now; `known`: which that is. */
  async findOther(pod: AgentPod, pods: Iterable<AgentPod>, known?: string): Promise<AgentPod | undefined> {
    const identity = known ?? (await this.#namespaces.identify(pod.netns));
    if (identity === undefined) return undefined;
    this.#identities.set(pod, identity);
    for (const other of pods) {
      if (isSameSandbox(other, pod)) continue;
      // Most are known: a wait for each of all pods would be what an ADD waits for.
      if ((this.#identities.get(other) ?? (await this.#identify(other))) !== identity) continue;
      // Once more: it may be gone, and its number given to another.
      if ((await this.#namespaces.identify(other.netns)) === identity) return other;
    }
    return undefined;
  }

  async #identify(pod: AgentPod): Promise<string | undefined> {
    const known = await this.#namespaces.identify(pod.netns);
    if (known !== undefined) this.#identities.set(pod, known);
    return known;
  }
}

/**
 * Takes our tables out of a namespace, unless it is that of one of `pods`: a change that was under way may have put one there
 * when the pod had left and its pin was gone. Never rejects.
 */
export async function clearNamespace(
  { namespaces, tables, log }: Pick<AgentDeps, 'namespaces' | 'tables' | 'log'>,
  netns: NetnsPath,
  pods: readonly AgentPod[],
): Promise<void> {
  try {
    const identity = await namespaces.identify(netns);
    if (identity === undefined) return;
    for (const pod of pods) if ((await namespaces.identify(pod.netns)) === identity) return;
    for (const name of POD_TABLES) await tables.destroyTable(netns, name);
  } catch (error) {
    log.debug('agent.table.destroy_failed', { netns, reason: messageOf(error) });
  }
}

// Or one of the same pod at the same path, which takes the place of what a runtime forgot to end.
function isSameSandbox(a: AgentPod, b: AgentPod): boolean {
  if (a.workload.record.containerId === b.workload.record.containerId) return true;
  return a.netns === b.netns && a.node.resourceName === b.node.resourceName;
}
