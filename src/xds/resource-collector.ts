// Gathers the resources of a snapshot: one of a kind and name, and the previous object wherever nothing changed.
import type { Steps } from '../core/steps.ts';
import { byKind, isSameResource } from './part-changes.ts';
import { PUSH_ORDER, type Resource, type ResourceKind, type Snapshot } from './resource.ts';

type Collected = Required<Pick<Snapshot, 'resources' | 'conflicts'>> & Pick<Snapshot, 'change'>;

export class ResourceCollector {
  readonly #previous: Snapshot | undefined;
  readonly #resources = byKind(() => new Map<string, Resource>());
  /** Names that are new, or of which the resource is another than before. */
  readonly #changed = byKind((): string[] => []);
  readonly #added = byKind(() => ({ count: 0 }));
  readonly #conflicts: `${ResourceKind} ${string}`[] = [];

  constructor(previous: Snapshot | undefined) {
    this.#previous = previous;
  }

  /** A name that is there already is a conflict; the first one stays. */
  add(resource: Resource): void {
    const { kind, name } = resource;
    if (this.#resources[kind].has(name)) {
      this.#conflicts.push(`${kind} ${name}`);
      return;
    }
    const before = this.#previous?.resources[kind].get(name);
    const isKept = before !== undefined && isSameResource(before, resource);
    if (!isKept) this.#changed[kind].push(name);
    if (before === undefined) this.#added[kind].count += 1;
    this.#resources[kind].set(name, isKept ? before : resource);
  }

  addAll(resources: readonly Resource[]): void {
    for (const resource of resources) this.add(resource);
  }

  /** A kind of which nothing changed is the previous map itself. */
  *finish(): Steps<Collected> {
    const previous = this.#previous?.resources;
    const conflicts = this.#conflicts;
    if (previous === undefined) return { resources: this.#resources, conflicts };
    const resources: Record<ResourceKind, ReadonlyMap<string, Resource>> = { ...this.#resources };
    const removed = byKind((): string[] => []);
    for (const kind of PUSH_ORDER) {
      const [before, now] = [previous[kind], this.#resources[kind]];
      if (before.size > now.size - this.#added[kind].count) {
        for (const name of before.keys()) {
          if (!now.has(name)) removed[kind].push(name);
          yield;
        }
      } else if (this.#changed[kind].length === 0) resources[kind] = before;
    }
    return { resources, conflicts, change: { since: previous, changed: this.#changed, removed } };
  }
}
