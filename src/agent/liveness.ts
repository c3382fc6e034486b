// Delegated liveness: Envoy checks the applications of this node's pods, the agent asks Envoy and tells the registry. A pod
// is told to be healthy under each of its protocols or counts as not told.
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { Health } from '../mesh/endpoint.ts';
import { ALL_HEALTHY_PATH, podHealthPath } from '../xds/health.ts';
import type { AgentPod } from './agent-pod.ts';
import type { Clock, HealthGateway } from './deps.ts';
import { forEachOf } from './for-each-of.ts';
import { LivenessRhythm } from './liveness-rhythm.ts';

/** In ACTIVE mode a pod counts as healthy from its registration; for so long nothing else is believed. */
export const ACTIVE_GRACE_MS = 15_000;
/** An Envoy that has just come back has not checked anybody yet. */
const RETURN_GRACE_MS = 3000;
/** Questions under way at a time. */
const PARALLEL = 8;
/** For so long the gateway may be away without being called a problem: Envoy starts, or is being replaced. */
const AWAY_PATIENCE_MS = 5000;

export interface LivenessOptions {
  readonly gateway: HealthGateway;
  readonly clock: Clock;
  readonly log: Log;
  readonly listPods: () => readonly AgentPod[];
  /** Writes the pod, with what `healthOf` says, under every protocol; false: not all of it is written. */
  readonly report: (pod: AgentPod) => Promise<boolean>;
}

/** What is known of one container, over all its ADDs. */
interface Known {
  health: 'healthy' | 'unhealthy';
  readonly sinceMs: number;
  sawHealthy: boolean;
  isReported: boolean;
}

interface KnownPod {
  readonly pod: AgentPod;
  readonly known: Known;
}

interface Away {
  readonly sinceMs: number;
  reason: string;
  isSaid: boolean;
}

/** What is known of a container lasts over its ADDs until it is forgotten. Disposing ends the questions. */
export class Liveness implements Disposable {
  readonly #options: LivenessOptions;
  readonly #known = new Map<string, Known>();
  readonly #rhythm: LivenessRhythm;
  #away: Away | undefined;
  #graceEndMs = 0;

  constructor(options: LivenessOptions) {
    this.#options = options;
    this.#rhythm = new LivenessRhythm({ clock: options.clock, pass: (isFull) => this.#pass(isFull) });
  }

  /** What the registry is to be told: by mode at first (`eds`: unhealthy), then what Envoy has seen. */
  healthOf(pod: AgentPod): Health {
    const { healthCheckMode, record } = pod.workload;
    const { containerId } = record;
    const known = this.#known.get(containerId);
    if (known !== undefined) return known.health;
    const health = healthCheckMode === 'active' ? 'healthy' : 'unhealthy';
    this.#known.set(containerId, { health, sinceMs: this.#nowMs(), sawHealthy: false, isReported: true });
    return health;
  }

  /** Why it is not known how the pods are; undefined: it is. */
  get problem(): string | undefined {
    const away = this.#away;
    if (away === undefined || this.#nowMs() - away.sinceMs < AWAY_PATIENCE_MS) return undefined;
    return `the proxy does not say which pods are healthy: ${away.reason}`;
  }

  /**
   * Asks once about containers of an earlier process, before they are registered again: a pod that serves must not be taken
   * out because the agent was replaced. Never throws; of whom nothing is heard nothing is known.
   */
  async prime(containers: readonly PrimedContainer[]): Promise<void> {
    await forEachOf(containers, PARALLEL, async ({ containerId, resourceName }) => {
      if ((await this.#options.gateway.ask(podHealthPath(resourceName))) !== 200) return;
      const known = { health: 'healthy', sinceMs: this.#nowMs(), sawHealthy: true, isReported: true } as const;
      this.#known.set(containerId, known);
    }).catch((error: unknown) => this.#options.log.debug('agent.health.not_primed', { reason: messageOf(error) }));
  }

  /** A pod came. */
  wake(): void {
    this.#rhythm.wake();
  }

  forget(containerId: string): void {
    this.#known.delete(containerId);
  }

  [Symbol.dispose](): void {
    this.#rhythm[Symbol.dispose]();
  }

  // Pods that may turn healthy any moment are asked for more often than all of them.
  async #pass(isFull: boolean): Promise<{ readonly youngestMs: number } | undefined> {
    const pods = this.#listKnown();
    if (pods.length === 0) return undefined;
    try {
      const waiting = pods.filter(({ known }) => !known.sawHealthy);
      const others = pods.filter(({ known }) => known.sawHealthy);
      const [first, ...rest] = isFull && !(await this.#areAllWell(others)) ? pods : waiting;
      // Where nobody answers, one question says so.
      if (first !== undefined) await this.#look(first);
      await forEachOf(rest, PARALLEL, (each) => this.#look(each));
    } catch (error) {
      this.#noteAway(messageOf(error));
    }
    const ages = pods.flatMap(({ known }) => (known.sawHealthy ? [] : [this.#nowMs() - known.sinceMs]));
    return { youngestMs: Math.min(...ages) };
  }

  #listKnown(): readonly KnownPod[] {
    return this.#options.listPods().flatMap((pod) => {
      const known = this.#known.get(pod.workload.record.containerId);
      return known === undefined || pod.workload.record.terminating ? [] : [{ pod, known }];
    });
  }

  // One question for all, as long as the answer is the one that is expected.
  async #areAllWell(pods: readonly KnownPod[]): Promise<boolean> {
    const isQuiet = pods.every(({ known }) => known.health === 'healthy' && known.isReported);
    if (!isQuiet || this.#rhythm.isThorough) return false;
    return pods.length === 0 || (await this.#ask(ALL_HEALTHY_PATH)) === 200;
  }

  async #look({ pod, known }: KnownPod): Promise<void> {
    const status = await this.#ask(podHealthPath(pod.node.resourceName));
    const seen = status === 200 ? 'healthy' : status === 503 ? 'unhealthy' : undefined;
    if (seen === undefined || (seen === 'unhealthy' && this.#isExcused(known, pod.workload))) return;
    if (seen === 'healthy') known.sawHealthy = true;
    if (seen !== known.health) {
      known.health = seen;
      known.isReported = false;
      const { namespace, name, containerId } = pod.workload.record;
      this.#options.log.info('agent.pod.health', { pod: `${namespace}/${name}`, containerId, health: seen });
    }
    if (!known.isReported) known.isReported = await this.#options.report(pod);
  }

  // Whoever answers is back: what it says first is judged as such.
  async #ask(path: string): Promise<number> {
    const status = await this.#options.gateway.ask(path);
    this.#noteBack();
    return status;
  }

  #isExcused(known: Known, { healthCheckMode }: AgentPod['workload']): boolean {
    const nowMs = this.#nowMs();
    if (nowMs < this.#graceEndMs) return true;
    return healthCheckMode === 'active' && !known.sawHealthy && nowMs - known.sinceMs < ACTIVE_GRACE_MS;
  }

  #noteAway(reason: string): void {
    this.#away ??= { sinceMs: this.#nowMs(), reason, isSaid: false };
    this.#away.reason = reason;
    if (this.#away.isSaid || this.problem === undefined) return;
    this.#away.isSaid = true;
    this.#options.log.warn('agent.health.gateway_away', { reason });
  }

  #noteBack(): void {
    if (this.#away === undefined) return;
    if (this.#away.isSaid) this.#options.log.info('agent.health.gateway_back');
    this.#away = undefined;
    this.#graceEndMs = this.#nowMs() + RETURN_GRACE_MS;
  }

  #nowMs(): number {
    return this.#options.clock.now().getTime();
  }
}

/** A container of an earlier process: `resourceName` is `<ns>_<pod>`. */
export interface PrimedContainer {
  readonly containerId: string;
  readonly resourceName: string;
}
