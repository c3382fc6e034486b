// In the single form the agent writes nothing to the pods' namespaces. What it wrote there before, under the other form, would
// lead to listeners that are no more: it is taken away where that is allowed.
import { messageOf } from '../core/errors.ts';
import type { NetnsPath } from '../core/identifiers.ts';
import type { Log } from '../core/log.ts';
import type { Table } from '../nft/model.ts';
import type { MeshTables, NamespaceResult } from './deps.ts';

/** Stands in for the tables of `tables`; without `readTable`, so that nothing is compared. Never throws. */
export class NoTables implements MeshTables {
  readonly #tables: MeshTables;
  readonly #log: Log;

  constructor(tables: MeshTables, log: Log) {
    this.#tables = tables;
    this.#log = log;
  }

  async replaceTable(netns: NetnsPath, { name }: Table): Promise<void> {
    await this.destroyTable(netns, name);
  }

  async destroyTable(netns: NetnsPath, name: string): Promise<void> {
    try {
      await this.#tables.destroyTable(netns, name);
    } catch (error) {
      this.#log.debug('agent.table.not_allowed', { netns, reason: messageOf(error) });
    }
  }

  async changeElements(): Promise<readonly NamespaceResult[]> {
    return [];
  }
}
