// Tables and set elements of other network namespaces: one transaction each, one native call for any number of
// namespaces. Serves as the plugin's RuleProgrammer and as the agent's MeshTables.
import { createHash } from 'node:crypto';
import type { MeshTables, NamespaceResult } from '../../agent/deps.ts';
import { PLUGIN_TABLE } from '../../capture/plugin-table.ts';
import { isStaleFlow } from '../../capture/stale-flows.ts';
import type { NetnsPath } from '../../core/identifiers.ts';
import { RecentMap } from '../../core/recent-map.ts';
import { compareTable } from '../../nft/compare.ts';
import { isPlainSet } from '../../nft/diff-elements.ts';
import type { KernelTable } from '../../nft/kernel-table.ts';
import type { ElementChange, Table } from '../../nft/model.ts';
import { formatTableBody } from '../../nft/text.ts';
import type { FlowOptions, ReadOptions, ReplaceOptions, RuleProgrammer } from '../../plugin/deps.ts';
import type { Batch } from './batch-writer.ts';
import { dumpTable } from './dump-table.ts';
import { encodeDestroyTables, encodeElementChange, encodeTables, type TableMode } from './encode-batch.ts';
import { flushFlows } from './flows.ts';
import type { NativeLibrary } from './native-library.ts';
import { type Outcome, transact } from './transact.ts';

export interface Rules extends RuleProgrammer, Required<Pick<MeshTables, 'changeElements' | 'replaceTogether'>> {
  /** Puts one table in place in many namespaces; a namespace that is gone fails alone. */
  replaceTables(netns: readonly NetnsPath[], table: Table): Promise<readonly NamespaceResult[]>;
  /** The batch that makes the tables where there are none of their names. */
  encodeCreation(tables: readonly Table[]): Batch;
  /** The batch that removes those of the tables that are there. */
  encodeDestruction(names: readonly string[]): Batch;
  /** The table as the kernel has it, with the elements of the plan's sets; undefined: absent. Throws as replaceTable. */
  readTable(netns: NetnsPath, planned: Table, options?: ReadOptions): Promise<KernelTable | undefined>;
  /**
   * Makes connections of the namespace follow the plugin's table as planned (undefined: it is removed), by forgetting
   * those that go elsewhere and are not established: capture/stale-flows.ts. Returns how many. Throws as replaceTable.
   */
  flushCaptureFlows(netns: NetnsPath, planned: Table | undefined): Promise<number>;
}

export interface RulesOptions {
  /** Behave as on a kernel before 6.3, without the DESTROY messages. For tests. */
  readonly legacy?: boolean;
}

/** Batches kept for reuse: one for each kind of pod on a node (mode, exclusions), in each way to send it. */
const CACHE_SIZE = 32;

/** The programmer of this process. Whether the kernel knows DESTROY is learnt from its first refusal. */
export function createRules(native: NativeLibrary, options: RulesOptions = {}): Rules {
  return new KernelRules(native, options.legacy ?? false);
}

interface Replacement {
  readonly tables: readonly Table[];
  readonly countFlows?: boolean;
  readonly isNew?: boolean;
}

class KernelRules implements Rules {
  readonly #native: NativeLibrary;
  readonly #batches = new RecentMap<Batch>(CACHE_SIZE);
  /** Who plans gives the same object for the same table where it can; then nothing of it is looked at. */
  readonly #names = new WeakMap<Table, string>();
  #isLegacy: boolean;

  constructor(native: NativeLibrary, legacy: boolean) {
    this.#native = native;
    this.#isLegacy = legacy;
  }

  replaceTable(netns: NetnsPath, table: Table, options?: ReplaceOptions): Promise<void> {
    return this.replaceTogether(netns, [table], options);
  }

  async replaceTogether(
    netns: NetnsPath,
    tables: readonly Table[],
    { settleFlows = false, isNew = false }: ReplaceOptions = {},
  ): Promise<void> {
    const outcomes = await this.#replace([netns], { tables, countFlows: settleFlows, isNew });
    throwFirst(outcomes, `replace table ${tables.map(({ name }) => `inet ${name}`).join(', ')}`);
    const captured = tables.find(({ name }) => name === PLUGIN_TABLE);
    if (hasFlows(outcomes) && captured !== undefined) await this.flushCaptureFlows(netns, captured);
  }

  async replaceTables(netns: readonly NetnsPath[], table: Table): Promise<readonly NamespaceResult[]> {
    return toResults(await this.#replace(netns, { tables: [table] }), `replace table inet ${table.name}`);
  }

  async destroyTable(netns: NetnsPath, name: string, { settleFlows = false }: FlowOptions = {}): Promise<void> {
    const encode = (legacy: boolean) => this.#destruction([name], legacy);
    const outcomes = await this.#sendDestroying([netns], { encode, countFlows: settleFlows });
    throwFirst(outcomes, `destroy table inet ${name}`);
    if (hasFlows(outcomes)) await this.flushCaptureFlows(netns, undefined);
  }

  encodeCreation(tables: readonly Table[]): Batch {
    return this.#tableBatch(tables, 'create');
  }

  encodeDestruction(names: readonly string[]): Batch {
    return this.#destruction(names, this.#isLegacy);
  }

  flushCaptureFlows(netns: NetnsPath, planned: Table | undefined): Promise<number> {
    return flushFlows(this.#native, netns, (flow, localAddresses) => isStaleFlow(flow, planned, { localAddresses }));
  }

  async readTable(netns: NetnsPath, planned: Table, options: ReadOptions = {}): Promise<KernelTable | undefined> {
    const sets = planned.sets.filter((set) => options.ignoreElements !== 'plain' || !isPlainSet(set));
    const wanted = { table: planned.name, sets: sets.map(({ name }) => name) };
    const found = await dumpTable(this.#native, netns, wanted);
    if (compareTable(planned, found, options).length === 0) return found;
    return dumpTable(this.#native, netns, { ...wanted, isSettled: true });
  }

  async changeElements(netns: readonly NetnsPath[], change: ElementChange): Promise<readonly NamespaceResult[]> {
    if (!changesAnything(change)) return netns.map((path) => ({ netns: path }));
    const encode = (legacy: boolean) => encodeElementChange(this.#native, change, { legacy });
    const outcomes = await this.#sendDestroying(netns, { encode });
    return toResults(outcomes, `change elements of table inet ${change.table}`);
  }

  async #replace(
    netns: readonly NetnsPath[],
    { tables, countFlows = false, isNew = false }: Replacement,
  ): Promise<readonly Outcome[]> {
    const send = (to: readonly NetnsPath[], mode: TableMode) =>
      transact(this.#native, to, { batch: this.#tableBatch(tables, mode), countFlows });
    const sendDestroying = async (): Promise<readonly Outcome[] | undefined> => {
      if (this.#isLegacy) return undefined;
      const outcomes = await send(netns, 'destroy');
      return this.#learnLegacy(outcomes) ? undefined : outcomes;
    };
    // Over tables that are there, a refused creation costs the kernel a grace period.
    const outcomes = isNew ? undefined : await sendDestroying();
    if (outcomes !== undefined) return outcomes;
    const isThere = ({ errnoName }: { readonly errnoName: string }): boolean => errnoName === 'EEXIST';
    return retry(await send(netns, 'create'), isThere, async (rest) =>
      isNew ? this.#replace(rest, { tables, countFlows }) : send(rest, 'replace'),
    );
  }

  async #sendDestroying(
    netns: readonly NetnsPath[],
    { encode, countFlows = false }: { readonly encode: (legacy: boolean) => Batch; readonly countFlows?: boolean },
  ): Promise<readonly Outcome[]> {
    if (!this.#isLegacy) {
      const outcomes = await transact(this.#native, netns, { batch: encode(false), countFlows });
      if (!this.#learnLegacy(outcomes)) return outcomes;
    }
    return transact(this.#native, netns, { batch: encode(true), countFlows });
  }

  #learnLegacy(outcomes: readonly Outcome[]): boolean {
    if (!outcomes.some(({ failure }) => failure?.isUnknownMessage === true)) return false;
    this.#isLegacy = true;
    return true;
  }

  #tableBatch(tables: readonly Table[], mode: TableMode): Batch {
    const key = `${mode} ${tables.map((table) => this.#nameOf(table)).join(' ')}`;
    return this.#batches.getOrMake(key, () => encodeTables(this.#native, tables, mode));
  }

  #destruction(names: readonly string[], legacy: boolean): Batch {
    const key = `destruction ${legacy} ${names}`;
    return this.#batches.getOrMake(key, () => encodeDestroyTables(this.#native, names, { legacy }));
  }

  #nameOf(table: Table): string {
    let name = this.#names.get(table);
    if (name === undefined) {
      name = createHash('sha256').update(formatTableBody(table)).digest('base64');
      this.#names.set(table, name);
    }
    return name;
  }
}

function hasFlows(outcomes: readonly Outcome[]): boolean {
  return outcomes.some(({ flows = 0 }) => flows > 0);
}

function changesAnything(change: ElementChange): boolean {
  return [...change.add, ...change.remove].some((set) => set.elements.length > 0);
}

async function retry(
  outcomes: readonly Outcome[],
  applies: (failure: NonNullable<Outcome['failure']>) => boolean,
  again: (netns: readonly NetnsPath[]) => Promise<readonly Outcome[]>,
): Promise<readonly Outcome[]> {
  const failed = outcomes.filter(({ failure }) => failure !== undefined && applies(failure));
  if (failed.length === 0) return outcomes;
  const second = new Map((await again(failed.map(({ netns }) => netns))).map((outcome) => [outcome.netns, outcome]));
  return outcomes.map((outcome) => second.get(outcome.netns) ?? outcome);
}

function throwFirst(outcomes: readonly Outcome[], what: string): void {
  for (const { failure } of outcomes) if (failure !== undefined) throw failure.toError(what);
}

function toResults(outcomes: readonly Outcome[], what: string): readonly NamespaceResult[] {
  return outcomes.map(({ netns, failure }) =>
    failure === undefined ? { netns } : { netns, error: failure.toError(what) },
  );
}
