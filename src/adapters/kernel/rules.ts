// Tables and set elements of other network namespaces: one transaction each, one native call for any number of
// namespaces. Implements the plugin's RuleProgrammer and the agent's MeshTables.
import type { MeshTables, NamespaceResult } from '../../agent/deps.ts';
import type { NetnsPath } from '../../core/identifiers.ts';
import type { KernelTable } from '../../nft/kernel-table.ts';
import type { ElementChange, Table } from '../../nft/model.ts';
import { formatTableBody } from '../../nft/text.ts';
import type { RuleProgrammer } from '../../plugin/deps.ts';
import type { Batch } from './batch-writer.ts';
import { dumpTable } from './dump-table.ts';
import { encodeDestroyTable, encodeElementChange, encodeTable, FIRST_MESSAGE, type TableMode } from './encode-batch.ts';
import type { NativeLibrary } from './native-library.ts';
import { type Outcome, transact } from './transact.ts';

export interface Rules extends RuleProgrammer, MeshTables {
  /** Puts one table in place in many namespaces; a namespace that is gone fails alone. */
  replaceTables(netns: readonly NetnsPath[], table: Table): Promise<readonly NamespaceResult[]>;
  /** The table as the kernel has it, with the elements of the plan's sets; undefined: absent. Throws as replaceTable. */
  readTable(netns: NetnsPath, planned: Table): Promise<KernelTable | undefined>;
}

export interface RulesOptions {
  /** Behave as on a kernel before 6.3, without the DESTROY messages. For tests. */
  readonly legacy?: boolean;
}

/** Batches kept for reuse: one for each kind of pod on a node (mode, exclusions), in each way to send it. */
const CACHE_SIZE = 32;
/** A table with more elements than this changes at every service: not worth keeping. */
const CACHE_MAX_ELEMENTS = 256;

/** The programmer of this process. Whether the kernel knows DESTROY is learnt from its first refusal. */
export function createRules(native: NativeLibrary, options: RulesOptions = {}): Rules {
  return new KernelRules(native, options.legacy ?? false);
}

class KernelRules implements Rules {
  readonly #native: NativeLibrary;
  readonly #cache = new Map<string, Batch>();
  #isLegacy: boolean;

  constructor(native: NativeLibrary, legacy: boolean) {
    this.#native = native;
    this.#isLegacy = legacy;
  }

  async replaceTable(netns: NetnsPath, table: Table): Promise<void> {
    throwFirst(await this.#replace([netns], table), `replace table inet ${table.name}`);
  }

  async replaceTables(netns: readonly NetnsPath[], table: Table): Promise<readonly NamespaceResult[]> {
    return toResults(await this.#replace(netns, table), `replace table inet ${table.name}`);
  }

  async destroyTable(netns: NetnsPath, name: string): Promise<void> {
    const outcomes = await this.#sendDestroying([netns], (legacy) =>
      encodeDestroyTable(this.#native, name, { legacy }),
    );
    throwFirst(outcomes, `destroy table inet ${name}`);
  }

  readTable(netns: NetnsPath, planned: Table): Promise<KernelTable | undefined> {
    return dumpTable(this.#native, netns, { table: planned.name, sets: planned.sets.map(({ name }) => name) });
  }

  async changeElements(netns: readonly NetnsPath[], change: ElementChange): Promise<readonly NamespaceResult[]> {
    if (!changesAnything(change)) return netns.map((path) => ({ netns: path }));
    const outcomes = await this.#sendDestroying(netns, (legacy) =>
      encodeElementChange(this.#native, change, { legacy }),
    );
    return toResults(outcomes, `change elements of table inet ${change.table}`);
  }

  async #replace(netns: readonly NetnsPath[], table: Table): Promise<readonly Outcome[]> {
    if (!this.#isLegacy) {
      const outcomes = await transact(this.#native, netns, this.#tableBatch(table, 'destroy'));
      if (!this.#learnLegacy(outcomes)) return outcomes;
    }
    return retry(
      await transact(this.#native, netns, this.#tableBatch(table, 'create')),
      (failure) => failure.errnoName === 'EEXIST' && failure.message === FIRST_MESSAGE,
      (rest) => transact(this.#native, rest, this.#tableBatch(table, 'replace')),
    );
  }

  async #sendDestroying(netns: readonly NetnsPath[], encode: (legacy: boolean) => Batch): Promise<readonly Outcome[]> {
    if (!this.#isLegacy) {
      const outcomes = await transact(this.#native, netns, encode(false));
      if (!this.#learnLegacy(outcomes)) return outcomes;
    }
    return transact(this.#native, netns, encode(true));
  }

  #learnLegacy(outcomes: readonly Outcome[]): boolean {
    if (!outcomes.some(({ failure }) => failure?.isUnknownMessage === true)) return false;
    this.#isLegacy = true;
    return true;
  }

  #tableBatch(table: Table, mode: TableMode): Batch {
    const elements = table.sets.reduce((sum, set) => sum + set.elements.length, 0);
    if (elements > CACHE_MAX_ELEMENTS) return encodeTable(this.#native, table, mode);
    const key = `${mode}\n${formatTableBody(table)}`;
    const batch = this.#cache.get(key) ?? encodeTable(this.#native, table, mode);
    // Re-inserted, so that the first key is the one not used for longest.
    this.#cache.delete(key);
    this.#cache.set(key, batch);
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= CACHE_SIZE) break;
      this.#cache.delete(oldest);
    }
    return batch;
  }
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
