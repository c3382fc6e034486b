// Gathers the resources of a snapshot: one of a kind and name, and the previous object wherever nothing changed.
import type { Resource, ResourceKind, Snapshot } from './resource.ts';

export class ResourceCollector {
  readonly #previous: Snapshot | undefined;
  readonly #resources: Record<ResourceKind, Map<string, Resource>> = {
    cluster: new Map(),
    endpoints: new Map(),
    listener: new Map(),
    routes: new Map(),
    host: new Map(),
    secret: new Map(),
  };
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
    this.#resources[kind].set(name, before !== undefined && isSame(before, resource) ? before : resource);
  }

  addAll(resources: readonly Resource[]): void {
    for (const resource of resources) this.add(resource);
  }

  get resources(): Snapshot['resources'] {
    return this.#resources;
  }

  get conflicts(): readonly `${ResourceKind} ${string}`[] {
    return this.#conflicts;
  }
}

function isSame(a: Resource, b: Resource): boolean {
  return a.version === b.version && a.isOnDemand === b.isOnDemand;
}
