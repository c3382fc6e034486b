// The agent's table in each pod of the node: what the kernel is believed to hold, changed as one, and mended where a
// change did not arrive.
import { MESH_TABLE, planMeshChange, planMeshTable } from '../capture/mesh-table.ts';
import { policyKey } from '../capture/policy.ts';
import { messageOf, NetnsError } from '../core/errors.ts';
import type { NetnsPath } from '../core/identifiers.ts';
import type { IpRange } from '../core/ip.ts';
import type { Log } from '../core/log.ts';
import { type MeshSets, NO_SETS } from '../mesh/mesh-sets.ts';
import { compareTable, formatDifference } from '../nft/compare.ts';
import { isPlainSet, pick } from '../nft/diff-elements.ts';
import type { ElementChange, NftSet, Table } from '../nft/model.ts';
import { listElements } from '../nft/text.ts';
import type { Entered } from '../plugin/deps.ts';
import type { AgentPod } from './agent-pod.ts';
import type { Clock, MeshTables, NamespaceResult } from './deps.ts';
import { forEachOf } from './for-each-of.ts';
import { findTableDifference, keepHeld, planRepair, type TableDifference } from './table-difference.ts';

const MEND_MS = 5000;
/** Tables that are put in place at the same time: each takes a thread of the native side. */
const PARALLEL = 16;
/** Elements of a set in a log line. */
const SHOWN = 4;

export interface PodTablesOptions {
  readonly tables: MeshTables;
  /** Ranges of service addresses that nobody else answers for. */
  readonly unanswered: readonly IpRange[];
  readonly clock: Clock;
  readonly log: Log;
  /** There is something to mend: ask for `mend`. */
  readonly onBroken: () => void;
}

export interface AddTableOptions {
  /** The plugin's. */
  readonly besides?: Table | undefined;
  /** The namespace has none of ours yet, most likely. */
  readonly isNew?: boolean;
}

/** `change` and `mend` run in the ChangeRunner alone; `add` and `remove` at any time. */
export class PodTables {
  readonly #options: PodTablesOptions;
  readonly #pods = new Map<NetnsPath, AgentPod>();
  /** Namespaces whose table may not be what `#sets` says. */
  readonly #broken = new Set<NetnsPath>();
  /** Those that were forgotten. */
  readonly #removed = new WeakSet<AgentPod>();
  #sets: MeshSets = NO_SETS;
  /** One object for all pods of a policy, as long as the sets stay: what is made of it is made once. */
  readonly #plans = new Map<string, Table>();
  #mending: Disposable | undefined;

  constructor(options: PodTablesOptions) {
    this.#options = options;
  }

  /** What every table holds. */
  get sets(): MeshSets {
    return this.#sets;
  }

  get brokenCount(): number {
    return this.#broken.size;
  }

  isBroken(netns: NetnsPath): boolean {
    return this.#broken.has(netns);
  }

  /** What the pod's namespace is believed to hold. */
  plan({ policy }: AgentPod): Table {
    const key = policyKey(policy);
    const table = this.#plans.get(key) ?? planMeshTable(policy, this.#sets, { unanswered: this.#options.unanswered });
    this.#plans.set(key, table);
    return table;
  }

  /**
   * Puts the table in place in one pod, whatever stood there, and `besides` in the same transaction where that can be: true
   * then. Throws KernelError, NetnsError; the pod is not kept then.
   */
  async add(pod: AgentPod, { besides, isNew = false }: AddTableOptions = {}): Promise<boolean> {
    const { tables } = this.#options;
    const held = this.#sets;
    const isTogether = besides !== undefined && tables.replaceTogether !== undefined;
    if (isTogether) await tables.replaceTogether?.(pod.netns, [this.plan(pod), besides], { isNew, settleFlows: true });
    else await tables.replaceTable(pod.netns, this.plan(pod), { isNew });
    this.#broken.delete(pod.netns);
    await this.#join(pod, held);
    return isTogether;
  }

  /** The same for a namespace that has none of ours yet, by whoever enters it; not done where the answer has no rules. */
  async enter(pod: AgentPod, besides: Table, enter: (tables: readonly Table[]) => Promise<Entered>): Promise<Entered> {
    const held = this.#sets;
    const entered = await enter(this.#options.tables.replaceTogether === undefined ? [] : [this.plan(pod), besides]);
    if (!entered.hasRules) return entered;
    this.#broken.delete(pod.netns);
    await this.#join(pod, held);
    return entered;
  }

  // The sets may have changed in all others meanwhile, and may again. Only when it holds what they hold does it take part in
  // the changes of all: two of one namespace that are under way at a time have no order.
  async #join(pod: AgentPod, since: MeshSets): Promise<void> {
    let failure: Error | undefined;
    for (let held = since; held !== this.#sets && failure === undefined; ) {
      const change = planMeshChange(held, this.#sets);
      held = this.#sets;
      if (change === undefined) continue;
      const results = await this.#changeElements([pod.netns], change);
      failure = results.find(({ error }) => error !== undefined)?.error;
    }
    // In the same turn as the last look, or a change between the two would be missed.
    this.#pods.set(pod.netns, pod);
    if (failure !== undefined) this.#noteBroken(pod.netns, failure);
  }

  /**
   * All pods at the start: each table is read and only what differs is changed, so that what is right stays as it is. Elements
   * that no pod has yet are left out: `sets` is then not what was asked for, and `change` is to follow when Envoy has their
   * clusters. A pod that fails is mended later.
   */
  async addAll(pods: readonly AgentPod[], sets: MeshSets): Promise<void> {
    this.#setSets(sets);
    const found = new Map<AgentPod, TableDifference>();
    await forEachOf(pods, PARALLEL, async (pod) => void found.set(pod, await this.#look(pod)));
    if (this.#options.tables.readTable !== undefined) this.#setSets(keepHeld(sets, [...found.values()]));
    await forEachOf(pods, PARALLEL, async (pod) => {
      this.#pods.set(pod.netns, pod);
      await this.#settle(pod, found.get(pod)).catch((error: unknown) => this.#noteBroken(pod.netns, error));
    });
    const count = (kind: TableDifference['kind']): number =>
      [...found.values()].filter((one) => one.kind === kind).length;
    const counts = { same: count('none'), changed: count('elements'), replaced: count('table') };
    if (pods.length > 0) this.#options.log.info('agent.tables.settled', counts);
  }

  async #look(pod: AgentPod): Promise<TableDifference> {
    const { tables, log } = this.#options;
    if (tables.readTable === undefined) return { kind: 'table' };
    const plan = this.plan(pod);
    try {
      return findTableDifference(plan, await tables.readTable(pod.netns, plan));
    } catch (error) {
      log.debug('agent.table.not_read', { netns: pod.netns, reason: messageOf(error) });
      return { kind: 'table' };
    }
  }

  /**
   * What differs from the plan but for the elements that follow the services; empty where tables cannot be read back. Throws
   * KernelError, NetnsError.
   */
  async listDifferences(pod: AgentPod): Promise<readonly string[]> {
    const { tables } = this.#options;
    if (tables.readTable === undefined) return [];
    const plan = this.plan(pod);
    const options = { ignoreElements: 'plain' } as const;
    const found = await tables.readTable(pod.netns, plan, options);
    return compareTable(plan, found, options).map(formatDifference);
  }

  async #settle(pod: AgentPod, difference: TableDifference | undefined): Promise<void> {
    if (difference?.kind === 'none') return;
    if (difference?.kind !== 'elements') {
      await this.add(pod);
      return;
    }
    const repair = planRepair(difference, this.plan(pod));
    const [result] = await this.#changeElements([pod.netns], repair);
    if (result?.error !== undefined) throw result.error;
  }

  /** Forgets the pod: somebody else takes the tables away. */
  forget(pod: AgentPod): void {
    this.#pods.delete(pod.netns);
    this.#broken.delete(pod.netns);
    this.#removed.add(pod);
  }

  /** Forgets the pod and takes its table away where its namespace still lives. Never throws: the namespace is going anyway. */
  async remove(pod: AgentPod, besides?: Table): Promise<void> {
    this.forget(pod);
    for (const name of [MESH_TABLE, ...(besides === undefined ? [] : [besides.name])]) {
      try {
        await this.#options.tables.destroyTable(pod.netns, name);
      } catch (error) {
        this.#options.log.debug('agent.table.destroy_failed', { netns: pod.netns, reason: messageOf(error) });
      }
    }
  }

  /** Brings every table from what it holds to `sets`. A pod that fails is mended later, alone. */
  async change(sets: MeshSets): Promise<void> {
    if (sets === this.#sets) return;
    const change = planMeshChange(this.#sets, sets);
    this.#setSets(sets);
    if (change === undefined || this.#pods.size === 0) return;
    const healthy = [...this.#pods.keys()].filter((netns) => !this.#broken.has(netns));
    this.#options.log.debug('agent.tables.changed', {
      tables: healthy.length,
      added: change.add.map(describeSet),
      removed: change.remove.map(describeSet),
    });
    for (const { netns, error } of await this.#changeElements(healthy, change)) {
      if (error !== undefined) this.#noteBroken(netns, error);
    }
  }

  // What failed as a whole has failed in each.
  async #changeElements(netns: readonly NetnsPath[], change: ElementChange): Promise<readonly NamespaceResult[]> {
    try {
      return await this.#options.tables.changeElements(netns, change);
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(messageOf(thrown));
      return netns.map((path) => ({ netns: path, error }));
    }
  }

  /** Puts whole tables in place where a change failed. */
  async mend(): Promise<void> {
    for (const netns of [...this.#broken]) {
      const pod = this.#pods.get(netns);
      this.#broken.delete(netns);
      if (pod !== undefined) await this.#mendOne(pod);
    }
  }

  async #mendOne(pod: AgentPod): Promise<void> {
    const { netns } = pod;
    this.#removed.delete(pod);
    await this.add(pod).catch((error: unknown) => this.#noteBroken(netns, error));
    // Its DEL came meanwhile, and found nothing to take away, or too early.
    if (this.#removed.has(pod)) await this.remove(pod);
  }

  [Symbol.dispose](): void {
    this.#mending?.[Symbol.dispose]();
  }

  #setSets(sets: MeshSets): void {
    this.#sets = sets;
    this.#plans.clear();
  }

  #noteBroken(netns: NetnsPath, error: unknown): void {
    const { clock, log, onBroken } = this.#options;
    // Without its namespace the pod is on its way out; its DEL will come.
    if (error instanceof NetnsError) {
      log.debug('agent.table.no_netns', { netns, reason: error.message });
      return;
    }
    log.error('agent.table.failed', { netns, reason: messageOf(error), retryMs: MEND_MS });
    this.#broken.add(netns);
    this.#mending?.[Symbol.dispose]();
    this.#mending = clock.after(MEND_MS, onBroken);
  }
}

/** `mesh_tcp4 10.254.0.1 . 9000`; the first of many, and how many. */
function describeSet(set: NftSet): string {
  const texts = isPlainSet(set) ? listElements(pick(set, (index) => index < SHOWN)) : [];
  const { length } = set.elements;
  return `${set.name} ${texts.join(', ')}${length > SHOWN ? `, … ${length} in all` : ''}`;
}
