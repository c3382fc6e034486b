// What the agent does when the runtime adds or removes a pod. One call of a container at a time; an ADD that fails leaves
// nothing behind; a DEL always gets on.

import { AgentError, KernelError, messageOf, NetnsError, StoreError } from '../core/errors.ts';
import type { ContainerId } from '../core/identifiers.ts';
import { formatProblem, formatProblems } from '../core/problems.ts';
import {
  captureListenerName,
  captureShimListenerName,
  captureTcpListenerName,
  inboundListenerName,
  outboundListenerName,
} from '../mesh/names.ts';
import type { PodRecord } from '../mesh/workload.ts';
import type { AddPodAnswer, PodRequest, PodService, ProxyReady } from '../plugin/deps.ts';
import { type AgentPod, parseAgentPod, recordOfRequest } from './agent-pod.ts';
import { KeyedLock } from './keyed-lock.ts';
import type { NodeAgent } from './node-agent.ts';
import { drainPods } from './pod-drain.ts';
import type { AckResult, ResourceName } from './publisher.ts';

/** How long ADD waits for Envoy to take the pod's listeners. */
const PROXY_READY_MS = 2000;
/** What is kept back of the caller's time for the answer itself. */
const ANSWER_MS = 500;
/** How long DEL waits for Envoy to let go of them: its sockets keep the namespace alive until then. */
const PROXY_GONE_MS = 500;

/** All methods throw AgentError only. */
export class PodLife implements PodService {
  readonly #agent: NodeAgent;
  readonly #lock = new KeyedLock();

  constructor(agent: NodeAgent) {
    this.#agent = agent;
  }

  addPod(
    request: PodRequest,
    options: { readonly timeoutMs: number; readonly proxyReady: ProxyReady },
  ): Promise<AddPodAnswer> {
    const deadlineMs = this.#nowMs() + options.timeoutMs;
    return this.#lock.run(request.containerId, () =>
      asAgentError('adding the pod', () => this.#add(request, { deadlineMs, proxyReady: options.proxyReady })),
    );
  }

  removePod(pod: { readonly containerId: ContainerId }): Promise<void> {
    return this.#lock.run(pod.containerId, () => asAgentError('removing the pod', () => this.#remove(pod.containerId)));
  }

  async #add(request: PodRequest, options: AddOptions): Promise<AddPodAnswer> {
    const record = recordOfRequest(request);
    if (record === undefined) {
      // Its annotation may have gone since an earlier ADD of the same container.
      if (this.#agent.findPod(request.containerId) !== undefined) await this.#remove(request.containerId);
      return { kind: 'ignored' };
    }
    const pod = await this.#check(record);
    // A removal that waits is of an earlier life of this container.
    await this.#agent.deps.removals.destroy(request.containerId);
    const warnings = pod.warnings.map(formatProblem);
    try {
      await this.#take(pod);
      warnings.push(...(await this.#waitForProxy(pod, options)));
    } catch (error) {
      await this.#undo(pod);
      throw error;
    }
    this.#agent.deps.log.info('agent.pod.added', describe(pod));
    return { kind: 'success', warnings };
  }

  // Everything that can be wrong with the pod itself, before anything is stored, registered or told.
  async #check(record: PodRecord): Promise<AgentPod> {
    const parsed = parseAgentPod(record, this.#agent.settings.facts);
    if (parsed.kind === 'problems') {
      throw new AgentError('rejected', `adding the pod: ${formatProblems(parsed.problems)}`);
    }
    const pod = parsed.value;
    try {
      await this.#agent.deps.namespaces.assertUsable(pod.netns);
    } catch (error) {
      if (!(error instanceof NetnsError)) throw error;
      throw new AgentError('rejected', `adding the pod: ${error.message}`, { cause: error });
    }
    return pod;
  }

  async #take(pod: AgentPod): Promise<void> {
    const agent = this.#agent;
    const { record } = pod.workload;
    const earlier = agent.findPod(record.containerId);
    await agent.certificates?.ensure(pod.node.identity);
    await agent.deps.records.put(record);
    if (earlier !== undefined && placeOf(earlier) !== placeOf(pod)) await agent.registrar.release(earlier);
    if (earlier !== undefined && earlier.netns !== pod.netns) await agent.tables.remove(earlier);
    await agent.registrar.claim(pod);
    await agent.runner.run(async () => {
      agent.setPod(pod);
      agent.catalog.mark([placeOf(pod), ...(earlier === undefined ? [] : [placeOf(earlier)])].map(serviceOf));
      // Once more: the last other pod of the identity may have gone meanwhile, and the certificate with it.
      await agent.certificates?.ensure(pod.node.identity);
      await agent.apply(pod);
    });
    if (earlier !== undefined) this.#dropCertificate(earlier);
  }

  async #waitForProxy(pod: AgentPod, { deadlineMs, proxyReady }: AddOptions): Promise<readonly string[]> {
    if (proxyReady === 'skip') return [];
    const timeoutMs = Math.max(0, Math.min(PROXY_READY_MS, deadlineMs - this.#nowMs() - ANSWER_MS));
    const result = await this.#agent.deps.publisher.waitForAck(this.#listListeners(pod), { timeoutMs });
    if (result.kind === 'acknowledged') return [];
    const sentence = `the proxy has not taken the pod's listeners: ${explainAck(result)}`;
    if (proxyReady === 'require') throw new AgentError('unavailable', `adding the pod: ${sentence}`);
    this.#agent.deps.log.warn('agent.pod.proxy_not_ready', { ...describe(pod), reason: sentence });
    return [sentence];
  }

  async #undo(pod: AgentPod): Promise<void> {
    try {
      await this.#remove(pod.workload.record.containerId, pod);
    } catch (error) {
      this.#agent.deps.log.error('agent.pod.undo_failed', { ...describe(pod), reason: messageOf(error) });
    }
  }

  /** `half`: a pod whose ADD failed on the way. Goes on after errors and throws them together at the end. */
  async #remove(containerId: string, half?: AgentPod): Promise<void> {
    const agent = this.#agent;
    const known = agent.findPod(containerId);
    const gone = new Set([known, half].filter((pod) => pod !== undefined));
    const listeners = [...gone].flatMap((pod) => this.#listListeners(pod));
    const problems: unknown[] = [];
    const step = (action: () => Promise<unknown>): Promise<unknown> =>
      action().catch((error: unknown) => problems.push(error));
    if (gone.size > 0) {
      await step(() => drainPods(agent, [...gone]));
      await step(() => agent.runner.run(() => this.#withdraw(containerId)));
    }
    // Before the record: a namespace whose pod nobody remembers must not hold a table of ours.
    for (const pod of gone) await agent.tables.remove(pod);
    await step(() => agent.deps.records.destroy(containerId));
    for (const pod of gone) {
      this.#dropCertificate(pod);
      agent.deps.log.info('agent.pod.removed', describe(pod));
    }
    if (listeners.length > 0 && agent.deps.publisher.streams > 0) {
      await agent.deps.publisher.waitForAck(listeners, { timeoutMs: PROXY_GONE_MS });
    }
    if (problems.length > 0) {
      throw new AgentError('failed', `removing the pod: ${problems.map(messageOf).join('; ')}`, {
        cause: new AggregateError(problems),
      });
    }
  }

  async #withdraw(containerId: string): Promise<void> {
    this.#agent.deletePod(containerId);
    await this.#agent.apply();
  }

  #dropCertificate(gone: AgentPod): void {
    const { identity } = gone.node;
    const isUsed = this.#agent.listPods().some((pod) => pod.node.identity === identity);
    if (isUsed) return;
    this.#agent.certificates?.drop(identity);
    this.#agent.runner.request();
  }

  /** The pod's listeners; once they are withdrawn, the names whose absence is waited for. */
  #listListeners(pod: AgentPod): readonly ResourceName[] {
    const known = this.#agent.snapshot?.resources.listener;
    const names = [
      outboundListenerName,
      inboundListenerName,
      captureListenerName,
      captureTcpListenerName,
      captureShimListenerName,
    ].map((nameFor) => nameFor(pod.node.resourceName));
    return names.filter((name) => known?.has(name)).map((name) => ({ kind: 'listener', name }));
  }

  #nowMs(): number {
    return this.#agent.deps.clock.now().getTime();
  }
}

interface AddOptions {
  readonly deadlineMs: number;
  readonly proxyReady: ProxyReady;
}

/** `<ns>/<sa> <ip>`: where the pod is registered. */
function placeOf(pod: AgentPod): string {
  const { namespace, serviceAccount } = pod.workload.service;
  return `${namespace}/${serviceAccount} ${pod.endpoint.ip}`;
}

function serviceOf(place: string): string {
  return place.slice(0, place.indexOf(' '));
}

function describe(pod: AgentPod): Readonly<Record<string, unknown>> {
  const { namespace, name, containerId, serviceAccount } = pod.workload.record;
  return { pod: `${namespace}/${name}`, containerId, service: `${namespace}/${serviceAccount}`, netns: pod.netns };
}

function explainAck(result: Exclude<AckResult, { readonly kind: 'acknowledged' }>): string {
  if (result.kind === 'disconnected') return 'no proxy is connected';
  if (result.kind === 'timeout') return `no answer in time about ${result.waitingFor.join(', ')}`;
  return `refused: ${result.resources.map(({ name, message }) => `${name}: ${message}`).join('; ')}`;
}

async function asAgentError<T>(what: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const retryable = error instanceof KernelError || error instanceof StoreError ? error.retryable : false;
    throw new AgentError('failed', `${what}: ${messageOf(error)}`, { cause: error, retryable });
  }
}
