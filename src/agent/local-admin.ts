// What STATUS, CHECK and GC ask of the agent, answered in-process; the admin socket answers the same.
import { AgentError, messageOf } from '../core/errors.ts';
import { type ContainerId, parseContainerId } from '../core/identifiers.ts';
import type { AgentAdmin, AgentStatus, RecordAnswer } from '../plugin/deps.ts';
import type { AgentPod } from './agent-pod.ts';
import { forEachOf } from './for-each-of.ts';
import type { NodeAgent } from './node-agent.ts';
import { isNodeReady, listNodeProblems, listPodProblems, type NodeStatus, readNodeStatus } from './node-status.ts';
import type { PodLife } from './pod-life.ts';

/** Pods that are removed at a time. */
const PARALLEL = 16;

export interface LocalAdminOptions {
  readonly agent: NodeAgent;
  readonly life: PodLife;
  /** Container ids of all pins. Throws StoreError. */
  readonly listPins: (pinDir: string) => Promise<readonly ContainerId[]>;
  /** What was found at the start. */
  readonly startProblems: readonly string[];
}

/** Never `unknowable`, and never away; throws AgentError where a removal fails. */
export class LocalAdmin implements AgentAdmin {
  readonly #options: LocalAdminOptions;

  constructor(options: LocalAdminOptions) {
    this.#options = options;
  }

  readStatus(): NodeStatus {
    return readNodeStatus(this.#options.agent, this.#options.startProblems);
  }

  async status(): Promise<AgentStatus> {
    const { agent, startProblems } = this.#options;
    return { ready: isNodeReady(agent), problems: listNodeProblems(agent, startProblems) };
  }

  async findRecord(containerId: ContainerId): Promise<RecordAnswer> {
    const { agent } = this.#options;
    const pod = agent.findPod(containerId);
    if (pod === undefined) return { kind: 'none' };
    const [problems, tableDifferences] = [listPodProblems(agent, pod), await this.listTableDifferences(pod)];
    return { kind: 'record', record: pod.workload.record, problems, tableDifferences };
  }

  /** A table that cannot be read is one difference. Never rejects. */
  async listTableDifferences(pod: AgentPod): Promise<readonly string[]> {
    return this.#options.agent.tables.listDifferences(pod).catch((error: unknown) => [messageOf(error)]);
  }

  async collect(valid: Parameters<AgentAdmin['collect']>[0]): Promise<boolean> {
    await this.collectIds(valid);
    return true;
  }

  /**
   * Removes what the runtime no longer has, as its DEL would have, and pins that no record knows. Returns their ids,
   * sorted. Goes on after errors and throws them together, AgentError.
   */
  async collectIds({ network, attachments }: Parameters<AgentAdmin['collect']>[0]): Promise<readonly ContainerId[]> {
    const { agent, life } = this.#options;
    const keep = new Set(attachments.map(({ containerId }) => containerId));
    const known = agent.listPods().map((pod) => parseContainerId(pod.workload.record.containerId));
    const pins = await this.#options.listPins(agent.settings.pinDir);
    const gone = new Set(
      [...known, ...pins].filter((id): id is ContainerId => typeof id === 'string' && !keep.has(id)),
    );
    const problems: unknown[] = [];
    // Each waits for what is on its way to it.
    await forEachOf([...gone], PARALLEL, async (containerId) => {
      try {
        await life.removePod({ containerId });
        await agent.deps.namespaces.unpin({ pinDir: agent.settings.pinDir, containerId });
        agent.deps.log.info('agent.pod.collected', { containerId, network });
      } catch (error) {
        problems.push(error);
      }
    });
    if (problems.length > 0) {
      const cause = new AggregateError(problems);
      throw new AgentError('failed', `collecting garbage: ${problems.map(messageOf).join('; ')}`, { cause });
    }
    return [...gone].sort();
  }
}
