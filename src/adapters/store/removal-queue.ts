// The plugin's removals that wait on disk, `<container id>.json`: read by the agent. A file's name says whose it is, its time
// when it is due; one that was cut by a crash still means that container. plugin/deps.ts says what else is in it.
import { lstatSync } from 'node:fs';
import { lstat, readdir, readFile, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { RemovalQueue } from '../../agent/deps.ts';
import { messageOf, StoreError } from '../../core/errors.ts';
import { type ContainerId, type NetnsPath, parseContainerId, parseNetnsPath } from '../../core/identifiers.ts';
import { isAbsent, removeFileDurably, removeTemporaries } from './atomic-file.ts';

const SUFFIX = '.json';
/** Far more than writing one takes. */
const TEMPORARY_MS = 600_000;

/** The directory need not be there. All methods throw StoreError. */
export class FileRemovalQueue implements RemovalQueue {
  readonly #dir: string;
  #isTidy = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async list(): Promise<readonly ContainerId[]> {
    try {
      await this.#tidy();
      const found: { readonly id: ContainerId; readonly mtimeMs: number }[] = [];
      for (const name of await readdir(this.#dir)) {
        const id = name.endsWith(SUFFIX) ? parseContainerId(name.slice(0, -SUFFIX.length)) : undefined;
        if (typeof id !== 'string') continue;
        // Gone meanwhile, or put there by others: a directory, a link.
        const stats = await lstat(join(this.#dir, name)).catch(() => undefined);
        if (stats?.isFile() === true && Math.floor(stats.mtimeMs) <= Date.now()) {
          found.push({ id, mtimeMs: stats.mtimeMs });
        }
      }
      return found.sort((a, b) => a.mtimeMs - b.mtimeMs).map(({ id }) => id);
    } catch (error) {
      if (isAbsent(error)) return [];
      throw new StoreError(`reading the removals in ${this.#dir}: ${messageOf(error)}`, { cause: error });
    }
  }

  // What a plugin that was killed left half written, once.
  async #tidy(): Promise<void> {
    if (this.#isTidy) return;
    this.#isTidy = true;
    await removeTemporaries(this.#dir, { olderThanMs: TEMPORARY_MS }).catch(() => {});
  }

  async findNetns(containerId: ContainerId): Promise<NetnsPath | undefined> {
    const { netns } = await this.#read(containerId);
    const path = netns === undefined ? undefined : parseNetnsPath(netns);
    return typeof path === 'string' ? path : undefined;
  }

  async postpone(containerId: ContainerId): Promise<boolean> {
    const path = this.#pathOf(containerId);
    const time = new Date((await this.#read(containerId)).unpinNotBefore ?? '');
    // Not so for a date that is none.
    if (!(time.getTime() > Date.now())) return false;
    try {
      await utimes(path, time, time);
      return true;
    } catch (error) {
      throw new StoreError(`postponing the removal ${path}: ${messageOf(error)}`, { cause: error });
    }
  }

  has(containerId: ContainerId): boolean {
    try {
      // Asked at every ADD, and there is hardly ever one: a look takes microseconds.
      return lstatSync(this.#pathOf(containerId), { throwIfNoEntry: false })?.isFile() ?? false;
    } catch {
      return true;
    }
  }

  async destroy(containerId: ContainerId): Promise<void> {
    if (this.has(containerId)) await removeFileDurably(this.#pathOf(containerId));
  }

  #pathOf(containerId: ContainerId): string {
    return join(this.#dir, `${containerId}${SUFFIX}`);
  }

  // One that was cut holds nothing.
  async #read(containerId: ContainerId): Promise<{ readonly netns?: string; readonly unpinNotBefore?: string }> {
    try {
      const value: unknown = JSON.parse(await readFile(this.#pathOf(containerId), 'utf8'));
      if (typeof value !== 'object' || value === null) return {};
      return {
        ...('netns' in value ? { netns: String(value.netns) } : {}),
        ...('unpinNotBefore' in value ? { unpinNotBefore: String(value.unpinNotBefore) } : {}),
      };
    } catch {
      return {};
    }
  }
}
