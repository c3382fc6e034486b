// The owner of everything that this node's Envoy and kernels are told: pods, services, certificates in; one snapshot and
// one state of the kernel sets out. All of it changes in one place, in one order.

import { compareText } from '../core/compare.ts';
import { AgentError, messageOf } from '../core/errors.ts';
import type { IpRange } from '../core/ip.ts';
import { formatProblems, type Problem } from '../core/problems.ts';
import type { Health } from '../mesh/endpoint.ts';
import { buildFitSnapshotInSteps, type FitSnapshot, type LeftOut } from '../xds/build-fit-snapshot.ts';
import type { NodeSettings, SnapshotInput } from '../xds/input.ts';
import type { ResourceKind, Snapshot } from '../xds/resource.ts';
import type { AgentPod, NodeFacts } from './agent-pod.ts';
import { CertificateKeeper } from './certificate-keeper.ts';
import { ChangeRunner } from './change-runner.ts';
import { hashContent } from './content-hash.ts';
import { DemandScope } from './demand-scope.ts';
import type { AgentDeps } from './deps.ts';
import { LeftOutReport } from './left-out-report.ts';
import { Liveness } from './liveness.ts';
import { countElements, intersectMeshSets, listAwaited } from './mesh-set-steps.ts';
import { NoTables } from './no-tables.ts';
import { PodRegistrar } from './pod-registrar.ts';
import { PodTables } from './pod-tables.ts';
import { runAside } from './run-aside.ts';
import { ServiceCatalog } from './service-catalog.ts';
import { ServiceWarner } from './service-warner.ts';
import type { VipPins } from './vip-pins.ts';

export interface NodeAgentSettings {
  readonly facts: NodeFacts;
  readonly node: NodeSettings;
  readonly vipRanges: readonly IpRange[];
  readonly pins: VipPins;
  readonly pinDir: string;
  /** `demand`: Envoy is given the services that the node's pods need (demand-scope.ts). Default `all`. */
  readonly scope?: 'all' | 'demand';
  /** How long a new element waits for Envoy to have its cluster; after that the kernel is told anyway. Default 2 s. */
  readonly clusterAckMs?: number;
  /** How long what is on its way to a pod may still arrive once nobody new is sent there. Default 200 ms; 0: no wait. */
  readonly drainMs?: number;
}

const CLUSTER_ACK_MS = 2000;
const UPDATE_RETRY_MS = 5000;

/** One for a process. Made empty: `startAgent` (start-up.ts) fills it and calls `begin`. Disposing leaves rules and Envoy as they are. */
export class NodeAgent {
  readonly deps: AgentDeps;
  readonly settings: NodeAgentSettings;
  readonly catalog: ServiceCatalog;
  readonly registrar: PodRegistrar;
  /** Undefined: nobody checks the applications. */
  readonly liveness: Liveness | undefined;
  readonly tables: PodTables;
  /** Undefined with identity `none`. */
  readonly certificates: CertificateKeeper | undefined;
  readonly runner: ChangeRunner;
  /** Undefined: Envoy is given every service. */
  readonly scope: DemandScope | undefined;
  readonly #warner: ServiceWarner;
  readonly #leftOut: LeftOutReport;
  /** By container id, oldest first. */
  readonly #pods = new Map<string, AgentPod>();
  #snapshot: Snapshot | undefined;
  #refused: readonly Problem[] = [];
  /** What Envoy and the kernels were last brought to, completely. */
  #done: SnapshotInput | undefined;
  #isEnvoyExpected = false;
  #retry: Disposable | undefined;

  constructor(deps: AgentDeps, settings: NodeAgentSettings) {
    const { clock, log, registry } = deps;
    this.deps = deps;
    this.settings = settings;
    this.runner = new ChangeRunner({
      refresh: () => this.apply().finally(() => this.#answerAsked()),
      onError: (error) => log.error('agent.refresh.failed', { reason: messageOf(error) }),
      onWork: deps.onWork,
    });
    this.#warner = new ServiceWarner(log);
    this.#leftOut = new LeftOutReport(log);
    const request = (): void => this.runner.request();
    const { vipRanges: ranges, pins, node } = settings;
    this.catalog = new ServiceCatalog({
      registry,
      vips: deps.vips,
      clock,
      log,
      domain: node.meshDomain,
      ranges,
      pins,
      isScoped: settings.scope === 'demand',
      onExpire: request,
    });
    this.liveness =
      deps.health &&
      new Liveness({
        gateway: deps.health,
        clock,
        log,
        listPods: () => this.listPods(),
        report: (pod) => this.registrar.rewrite(pod),
      });
    const healthOf = (pod: AgentPod): Health =>
      // As an agent of a cluster's own left it: its end had begun.
      pod.workload.record.terminating ? 'draining' : (this.liveness?.healthOf(pod) ?? 'healthy');
    this.scope =
      settings.scope === 'demand'
        ? new DemandScope({
            clock,
            domain: node.meshDomain,
            listAsked: () => deps.publisher.listAsked?.('cluster') ?? [],
            isKnown: (key) => this.catalog.find(key) !== undefined,
          })
        : undefined;
    this.registrar = new PodRegistrar({ registry, clock, log, healthOf });
    const tables = node.captureForm === 'single' ? new NoTables(deps.tables, log) : deps.tables;
    this.tables = new PodTables({ tables, unanswered: ranges, clock, log, onBroken: request });
    this.certificates =
      deps.authority && new CertificateKeeper({ authority: deps.authority, clock, log, onChange: request });
  }

  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** Why what was built last is not published; empty: it is. */
  get refused(): readonly Problem[] {
    return this.#refused;
  }

  /** Services and pods that are left out of what is published, each for what is wrong with it; the others are served. */
  get leftOut(): readonly LeftOut[] {
    return this.#leftOut.list;
  }

  findPod(containerId: string): AgentPod | undefined {
    return this.#pods.get(containerId);
  }

  /** Oldest first. */
  listPods(): readonly AgentPod[] {
    return [...this.#pods.values()];
  }

  /** Of two pods of one name the one that came last has the listeners: the other's sandbox is being replaced. */
  setPod(pod: AgentPod): void {
    const { containerId } = pod.workload.record;
    this.#pods.delete(containerId);
    this.#pods.set(containerId, pod);
    this.#warner.checkPod(pod);
    this.liveness?.wake();
  }

  deletePod(containerId: string): void {
    this.#pods.delete(containerId);
    this.liveness?.forget(containerId);
  }

  /** Whether a resource that is in no snapshot may still come: Envoy is kept waiting for it. */
  isPending(kind: ResourceKind, name: string): boolean {
    if (kind === 'secret') return this.certificates?.isPending(name) ?? false;
    return (kind === 'cluster' || kind === 'endpoints') && (this.scope?.isComing(name) ?? false);
  }

  /** An Envoy asks for a resource by name. */
  noteAsked(kind: ResourceKind, name: string): void {
    if (kind === 'cluster' && this.scope?.ask(name)) this.runner.request();
  }

  setPins(pins: VipPins): void {
    this.catalog.setPins(pins);
    this.runner.request();
  }

  /**
   * The first snapshot, and every pod's table; from then on changes of the registry are followed. Nothing may be served
   * before: an agent that comes back empty would take the node's listeners away. Throws AgentError when the snapshot is
   * not fit to publish.
   */
  begin(): Promise<void> {
    this.catalog.follow(() => this.runner.request());
    return this.runner.run(async () => {
      await this.catalog.markAll();
      await this.catalog.update(this.scope?.plan(this.listPods()));
      const snapshot = this.#takeFit(await this.#build(this.#collectInput()));
      await this.tables.addAll(this.listPods(), snapshot.meshSets);
      this.#publish(snapshot);
      if (this.tables.sets === snapshot.meshSets) return;
      // Envoy comes when this is done; what is new to the kernels waits for it.
      this.#isEnvoyExpected = true;
      this.runner.request();
    });
  }

  /**
   * Brings Envoy and the kernels to what is known now. Runs inside the runner only. Throws AgentError when the result is not
   * fit to publish; the last good one stays.
   */
  async apply(): Promise<void> {
    await this.#updateCatalog();
    await this.tables.mend();
    const input = this.#collectInput();
    if (this.#isDone(input)) return;
    const before = this.#snapshot;
    const snapshot = this.#takeFit(await this.#build(input));
    // What goes leaves the kernels first, what comes enters them last: at no moment is an address without its cluster.
    const held = this.tables.sets;
    await this.tables.change(intersectMeshSets(held, snapshot.meshSets));
    this.#done = undefined;
    if (before === undefined || !isSame(before, snapshot)) this.#publish(snapshot);
    await this.#waitForClusters(snapshot);
    // Nothing left is what the tables hold: equal in number means equal.
    const isHeld = countElements(snapshot.meshSets) === countElements(this.tables.sets);
    if (!isHeld) await this.tables.change(snapshot.meshSets);
    this.#done = input;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#retry?.[Symbol.dispose]();
    for (const part of [this.liveness, this.catalog, this.registrar, this.tables, this.certificates])
      part?.[Symbol.dispose]();
    await this.runner.idle();
  }

  // With the registry or the disk away the node goes on with what it knows.
  async #updateCatalog(): Promise<void> {
    try {
      await this.catalog.update(this.scope?.plan(this.listPods()));
    } catch (error) {
      const { clock, log } = this.deps;
      log.error('agent.services.update_failed', { reason: messageOf(error), retryMs: UPDATE_RETRY_MS });
      this.#retry?.[Symbol.dispose]();
      this.#retry = clock.after(UPDATE_RETRY_MS, () => this.runner.request());
    }
  }

  #collectInput(): SnapshotInput {
    const { catalog, certificates } = this;
    const pods = new Map(this.listPods().map(({ node }) => [node.resourceName, node]));
    return {
      node: this.settings.node,
      pods: [...pods.values()].sort((a, b) => compareText(a.resourceName, b.resourceName)),
      ...(this.scope?.select(catalog.views, (key) => catalog.isOutlined(key)) ?? { services: catalog.views }),
      certificates: certificates?.list() ?? [],
      ...(certificates === undefined ? {} : { trustBundlePem: certificates.trustBundlePem }),
    };
  }

  #answerAsked(): void {
    if (this.scope === undefined) return;
    this.scope.settle();
    this.deps.publisher.refresh?.();
  }

  // Much asks for a refresh to be safe; what is the same, object by object, was told already.
  #isDone(input: SnapshotInput): boolean {
    const done = this.#done;
    return (
      done !== undefined &&
      this.#refused.length === 0 &&
      done.services === input.services &&
      isSameList(done.pods, input.pods) &&
      isSameList(done.certificates, input.certificates)
    );
  }

  #build(input: SnapshotInput): Promise<FitSnapshot> {
    return runAside(
      buildFitSnapshotInSteps(input, {
        hash: hashContent,
        ...(this.#snapshot === undefined ? {} : { previous: this.#snapshot }),
      }),
    );
  }

  #takeFit({ snapshot, leftOut, problems }: FitSnapshot): Snapshot {
    this.#refused = problems;
    this.#leftOut.take(leftOut);
    if (problems.length === 0) return snapshot;
    const reason = formatProblems(this.#refused);
    this.deps.log.error('agent.snapshot.refused', { reason });
    throw new AgentError('failed', `publishing the node's configuration: ${reason}`);
  }

  #publish(snapshot: Snapshot): void {
    const hasScopedPod = this.listPods().some(({ policy }) => !policy.redirectAll);
    this.#warner.check(this.catalog.views, { hasScopedPod, tcp: this.settings.node.identity === 'mtls' });
    this.#snapshot = snapshot;
    this.deps.publisher.publish(snapshot);
  }

  async #waitForClusters(snapshot: Snapshot): Promise<void> {
    const { publisher, log } = this.deps;
    const awaited = listAwaited(this.tables.sets, snapshot);
    if (awaited.length === 0 || (publisher.streams === 0 && !this.#isEnvoyExpected)) return;
    this.#isEnvoyExpected = false;
    const timeoutMs = this.settings.clusterAckMs ?? CLUSTER_ACK_MS;
    const result = await publisher.waitForAck(awaited, { timeoutMs });
    if (result.kind !== 'acknowledged') log.warn('agent.clusters.not_acknowledged', { result });
  }
}

function isSameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

function isSame(a: Snapshot, b: Snapshot): boolean {
  if (b.change?.since === a.resources) {
    const { changed, removed } = b.change;
    return [...Object.values(changed), ...Object.values(removed)].every((names) => names.length === 0);
  }
  return (Object.keys(a.resources) as (keyof Snapshot['resources'])[]).every((kind) => {
    const before = a.resources[kind];
    const after = b.resources[kind];
    if (before === after) return true;
    if (before.size !== after.size) return false;
    return [...after].every(([name, resource]) => before.get(name)?.version === resource.version);
  });
}
