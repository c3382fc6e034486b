// How the node is, in sentences: what `check`, STATUS and the node page say is read off this value.
import { formatProblems } from '../core/problems.ts';
import type { AgentPod } from './agent-pod.ts';
import type { NodeAgent } from './node-agent.ts';

export interface NodeStatus {
  /** Whether an ADD can succeed now. */
  readonly ready: boolean;
  /** A sentence for each thing that is not as it should be. */
  readonly problems: readonly string[];
  readonly podCount: number;
  readonly serviceCount: number;
  readonly proxyConnected: boolean;
}

/** `startProblems`: what was found when the agent came back. */
export function readNodeStatus(agent: NodeAgent, startProblems: readonly string[] = []): NodeStatus {
  return {
    ready: isNodeReady(agent),
    problems: listNodeProblems(agent, startProblems),
    podCount: agent.listPods().length,
    serviceCount: agent.catalog.views.length,
    proxyConnected: agent.deps.publisher.streams > 0,
  };
}

/** Whether an ADD can succeed now. */
export function isNodeReady({ snapshot, refused }: NodeAgent): boolean {
  return snapshot !== undefined && refused.length === 0;
}

/** A sentence for each thing that is not as it should be. */
export function listNodeProblems(agent: NodeAgent, startProblems: readonly string[]): readonly string[] {
  const { catalog, registrar, tables, refused, leftOut, deps } = agent;
  const problems = [...startProblems, ...catalog.problems];
  if (refused.length > 0) {
    problems.push(`the configuration for the proxy is not published: ${formatProblems(refused)}`);
  }
  for (const { kind, name, problems: reasons } of leftOut) {
    problems.push(`${kind} ${name} is left out of the proxy's configuration: ${formatProblems(reasons)}`);
  }
  if (agent.liveness?.problem !== undefined) problems.push(agent.liveness.problem);
  if (deps.publisher.streams === 0) problems.push('no proxy is connected');
  if (registrar.pendingCount > 0) problems.push(`${registrar.pendingCount} writes wait for the registry`);
  if (tables.brokenCount > 0) problems.push(`the rules of ${tables.brokenCount} pods are not up to date`);
  return problems;
}

/** A sentence for each thing that is not as it should be with one pod. */
export function listPodProblems(agent: NodeAgent, pod: AgentPod): readonly string[] {
  const problems: string[] = [];
  const { identity } = pod.node;
  if (!agent.registrar.isRegistered(pod)) problems.push('the registry does not have it under all of its protocols');
  const unfit = agent.leftOut.find(({ kind, name }) => kind === 'pod' && name === pod.node.resourceName);
  if (unfit !== undefined) problems.push(`the proxy is not told of it: ${formatProblems(unfit.problems)}`);
  if (agent.tables.isBroken(pod.netns)) problems.push('its rules are not up to date');
  if (agent.certificates?.isPending(identity)) problems.push(`the certificate of ${identity} is not issued`);
  return problems;
}
