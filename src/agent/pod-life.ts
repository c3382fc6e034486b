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
import type { Table } from '../nft/model.ts';
import type { AddPodAnswer, AddPodOptions, Entered, PodRequest, PodService } from '../plugin/deps.ts';
import { type AgentPod, parseAgentPod, recordOfRequest } from './agent-pod.ts';
import { KeyedLock } from './keyed-lock.ts';
import { clearNamespace, NetnsOwners } from './netns-owners.ts';
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
  readonly #owners: NetnsOwners;
  /** Pods that are being added, and not known to the agent yet. True: they enter with their tables, where there are none. */
  readonly #entering = new Map<AgentPod, boolean>();

  constructor(agent: NodeAgent) {
    this.#agent = agent;
    this.#owners = new NetnsOwners(agent.deps.namespaces);
  }

  addPod(request: PodRequest, { timeoutMs, ...options }: AddPodOptions): Promise<AddPodAnswer> {
    const deadlineMs = this.#nowMs() + timeoutMs;
    return this.#lock.run(request.containerId, () =>
      asAgentError('adding the pod', () => this.#add(request, { ...options, deadlineMs })),
    );
  }

  removePod(
    pod: { readonly containerId: ContainerId },
    { takeRules }: { readonly takeRules?: (() => Promise<void>) | undefined } = {},
  ): Promise<void> {
    return this.#lock.run(pod.containerId, () =>
      asAgentError('removing the pod', () => this.#remove(pod.containerId, { takeRules })),
    );
  }

  /** Does a removal that waits on disk, unless an ADD came in between: then it is of an earlier life of the container. */
  replayRemoval(containerId: ContainerId): Promise<void> {
    const { deps, settings } = this.#agent;
    return this.#lock.run(containerId, () =>
      asAgentError('removing the pod', async () => {
        if (!(await deps.removals.list()).includes(containerId)) return;
        const netns = await deps.removals.findNetns(containerId);
        await this.#remove(containerId);
        const others = [...this.#agent.listPods(), ...this.#entering.keys()];
        if (netns !== undefined) await clearNamespace(deps, netns, others);
        if (await deps.removals.postpone(containerId)) return;
        await deps.namespaces.unpin({ pinDir: settings.pinDir, containerId });
        await deps.removals.destroy(containerId);
        deps.log.info('agent.removal.replayed', { containerId });
      }),
    );
  }

  async #add(request: PodRequest, options: AddOptions): Promise<AddPodAnswer> {
    const record = recordOfRequest(request);
    if (record === undefined) {
      await options.enter?.([]);
      // Its annotation may have gone since an earlier ADD of the same container.
      if (this.#agent.findPod(request.containerId) !== undefined) await this.#remove(request.containerId);
      return { kind: 'ignored' };
    }
    const pod = await this.#check(record, options);
    try {
      const { entered, isStored } = await this.#enterNamespace(pod, request.containerId, options);
      return await this.#enter(pod, { ...options, entered, isStored });
    } finally {
      this.#entering.delete(pod);
    }
  }

  async #enterNamespace(
    pod: AgentPod,
    containerId: ContainerId,
    { enter, rules }: AddOptions,
  ): Promise<NamespaceEntry> {
    const { deps, tables } = this.#agent;
    // Of a container that is known the tables that are there may be right for others; what is new has none.
    const isNew = this.#agent.findPod(containerId) === undefined;
    const isStored = isNew && enter !== undefined && rules !== undefined;
    this.#entering.set(pod, isStored);
    const entering = isStored ? tables.enter(pod, rules, enter) : enter?.([]);
    // While the kernel works.
    const storing = isStored ? deps.records.put(pod.workload.record) : undefined;
    const isAwaited = deps.removals.has(containerId);
    let entered: Entered | undefined;
    try {
      await Promise.allSettled([entering, storing]);
      entered = await entering;
      await storing;
      // A note was there, and the tables come later.
      if (entered?.identity === undefined) this.#entering.set(pod, false);
      await this.#checkAlone(pod, { entered, isStored });
      // A removal that waits is of an earlier life of this container.
      if (isAwaited) await deps.removals.destroy(containerId);
      return { entered, isStored };
    } catch (error) {
      // Whoever entered takes the rules along.
      if (entered?.hasRules) tables.forget(pod);
      if (isStored) await deps.records.destroy(containerId).catch((failure: unknown) => this.#noteLeft(pod, failure));
      throw error;
    }
  }

  async #enter(pod: AgentPod, options: EnteredOptions): Promise<AddPodAnswer> {
    const warnings = pod.warnings.map(formatProblem);
    const { namespace, name } = pod.workload.record;
    for (const warning of warnings) this.#agent.deps.log.warn('agent.pod.warning', { namespace, name, warning });
    let hasRules = false;
    using held = this.#agent.deps.holdNetns?.(pod.netns);
    try {
      hasRules = await this.#take(pod, options);
      // Or was gone before it could be held.
      if (held === undefined && hasRules) await this.#agent.deps.namespaces.assertUsable(pod.netns);
      if (held?.isReplaced()) throw new AgentError('gone', `adding the pod: its pin "${pod.netns}" went meanwhile`);
      warnings.push(...(await this.#waitForProxy(pod, options)));
    } catch (error) {
      await this.#undo(pod, options.rules);
      // A DEL that did not know of this ADD yet has taken the pin: no path leads to the table any more but this one.
      const others = [...this.#agent.listPods(), ...this.#entering.keys()];
      if (held?.isReplaced()) await clearNamespace(this.#agent.deps, held.netns, others);
      throw error;
    }
    this.#sayLater('agent.pod.added', pod);
    return { kind: 'success', warnings, ...(hasRules ? { hasRules } : {}) };
  }

  // Everything that can be wrong with the pod itself, before anything is stored, registered or told.
  async #check(record: PodRecord, { rules, enter }: AddOptions): Promise<AgentPod> {
    const parsed = parseAgentPod(record, this.#agent.settings.facts);
    if (parsed.kind === 'problems') {
      // What stands against the namespace is said first.
      await enter?.([]);
      throw new AgentError('rejected', `adding the pod: ${formatProblems(parsed.problems)}`);
    }
    const pod = parsed.value;
    // Who gives rules has looked.
    if (rules === undefined) await this.#agent.deps.namespaces.assertUsable(pod.netns);
    return pod;
  }

  async #checkAlone(pod: AgentPod, entry: NamespaceEntry): Promise<void> {
    const pods = [...this.#agent.listPods(), ...this.#listRivals(pod, entry)];
    const other = await this.#owners.findOther(pod, pods, entry.entered?.identity);
    if (other === undefined) return;
    const { namespace, name, containerId } = other.workload.record;
    const owner = `${namespace}/${name}, container ${containerId}`;
    throw new AgentError('rejected', `adding the pod: its network namespace "${pod.netns}" is that of ${owner}`);
  }

  // Of those that enter with their tables at once the kernel lets one make them; of others, or of both kinds, the first goes on.
  #listRivals(pod: AgentPod, { entered, isStored }: NamespaceEntry): readonly AgentPod[] {
    const hasRules = entered?.hasRules === true;
    const entering = [...this.#entering];
    const own = entering.findIndex(([other]) => other === pod);
    const rivals = entering.filter(([, isWithTables], index) =>
      index < own ? !(hasRules && isWithTables) : isStored && !hasRules && isWithTables,
    );
    return rivals.map(([rival]) => rival);
  }

  // True: the plugin's table is in place, too.
  async #take(pod: AgentPod, { proxyReady, rules, entered, isStored }: EnteredOptions): Promise<boolean> {
    const agent = this.#agent;
    const { record } = pod.workload;
    const earlier = agent.findPod(record.containerId);
    // Nobody waits for what only the proxy needs.
    const isAwaited = proxyReady !== 'skip';
    if (isAwaited) await agent.certificates?.ensure(pod.node.identity);
    if (earlier !== undefined && placeOf(earlier) !== placeOf(pod)) await agent.registrar.release(earlier);
    if (earlier !== undefined && earlier.netns !== pod.netns) await agent.tables.remove(earlier);
    const isThere = entered?.hasRules === true && entered.isSettled;
    const options = { besides: rules, isNew: earlier === undefined && entered?.hasRules !== true };
    const [hasRules] = await allDone([
      isThere ? true : agent.tables.add(pod, options),
      isStored ? undefined : agent.deps.records.put(record),
      agent.registrar.claim(pod),
    ]);
    agent.setPod(pod);
    agent.catalog.mark([placeOf(pod), ...(earlier === undefined ? [] : [placeOf(earlier)])].map(serviceOf));
    // Once more: the last other pod of the identity may have gone meanwhile, and the certificate with it.
    if (isAwaited) await agent.certificates?.ensure(pod.node.identity);
    if (isAwaited) await this.#publish(pod);
    else this.#publishLater(pod);
    if (earlier !== undefined) this.#dropCertificate(earlier);
    return hasRules;
  }

  // What is wrong with the pod itself is the answer to its ADD; a pod that works is never put at risk by a new one.
  async #publish({ node }: AgentPod): Promise<void> {
    await this.#agent.runner.refresh();
    const unfit = this.#agent.leftOut.find(({ kind, name }) => kind === 'pod' && name === node.resourceName);
    if (unfit !== undefined) throw new AgentError('rejected', `adding the pod: ${formatProblems(unfit.problems)}`);
  }

  // When this pod's ADD is answered. A certificate that does not come is tried for again, and STATUS says so until then.
  #publishLater({ node: { identity } }: AgentPod): void {
    const { certificates, runner } = this.#agent;
    setImmediate(() => {
      certificates?.ensure(identity).then(
        () => runner.request(),
        () => {},
      );
    });
    runner.request();
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

  async #undo(pod: AgentPod, rules: Table | undefined): Promise<void> {
    try {
      await this.#remove(pod.workload.record.containerId, { half: pod, rules });
    } catch (error) {
      this.#noteLeft(pod, error);
    }
  }

  // The answer goes first.
  #sayLater(event: string, pod: AgentPod): void {
    setImmediate(() => this.#agent.deps.log.info(event, describe(pod)));
  }

  #noteLeft(pod: AgentPod, error: unknown): void {
    this.#agent.deps.log.error('agent.pod.undo_failed', { ...describe(pod), reason: messageOf(error) });
  }

  /** Goes on after errors and throws them together at the end. */
  async #remove(containerId: string, { half, rules, takeRules }: RemoveOptions = {}): Promise<void> {
    const agent = this.#agent;
    const known = agent.findPod(containerId);
    const gone = new Set([known, half].filter((pod) => pod !== undefined));
    const listeners = [...gone].flatMap((pod) => this.#listListeners(pod));
    const problems: unknown[] = [];
    const step = (action: () => Promise<unknown>): Promise<unknown> =>
      action().catch((error: unknown) => problems.push(error));
    // First nobody is sent there any more.
    if (gone.size > 0) await step(() => drainPods(agent, [...gone]));
    agent.deletePod(containerId);
    if (agent.deps.publisher.streams > 0 && gone.size > 0) await step(() => agent.runner.refresh());
    else agent.runner.request();
    // Before the record: a namespace whose pod nobody remembers must not hold a table of ours.
    for (const pod of gone) {
      if (takeRules !== undefined) agent.tables.forget(pod);
      else await agent.tables.remove(pod, rules);
    }
    await allDone([takeRules?.(), step(() => agent.deps.records.destroy(containerId))]);
    for (const pod of gone) {
      this.#dropCertificate(pod);
      this.#sayLater('agent.pod.removed', pod);
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

interface AddOptions extends Omit<AddPodOptions, 'timeoutMs'> {
  readonly deadlineMs: number;
}

interface NamespaceEntry {
  /** Undefined: whoever calls has entered it. */
  readonly entered: Entered | undefined;
  /** The record is on the disk. */
  readonly isStored: boolean;
}

type EnteredOptions = AddOptions & NamespaceEntry;

/** `half`: a pod whose ADD failed on the way, `rules` what was put in place besides its own table. */
interface RemoveOptions {
  readonly half?: AgentPod;
  readonly rules?: Table | undefined;
  readonly takeRules?: (() => Promise<void>) | undefined;
}

/** All at once; a failure is thrown when none goes on any more. */
async function allDone<T extends readonly unknown[]>(promises: { readonly [I in keyof T]: T[I] | Promise<T[I]> }) {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/** `<ns>/<sa> <ip>`: where the pod is registered, if it has an address. */
function placeOf(pod: AgentPod): string {
  const { namespace, serviceAccount } = pod.workload.service;
  return `${namespace}/${serviceAccount} ${pod.endpoint?.ip ?? ''}`;
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
    if (error instanceof NetnsError) {
      const problem = error.problem === 'missing' ? 'gone' : 'rejected';
      throw new AgentError(problem, `${what}: ${error.message}`, { cause: error });
    }
    const problem = error instanceof StoreError ? 'store' : 'failed';
    const retryable = error instanceof KernelError || error instanceof StoreError ? error.retryable : false;
    throw new AgentError(problem, `${what}: ${messageOf(error)}`, { cause: error, retryable });
  }
}
