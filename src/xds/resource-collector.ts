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
  /** Kinds of which something is not what it was. */
  readonly #changed = new Set<ResourceKind>();
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
    const isKept = before !== undefined && isSame(before, resource);
    if (!isKept) this.#changed.add(kind);
    this.#resources[kind].set(name, isKept ? before : resource);
  }

  addAll(resources: readonly Resource[]): void {
    for (const resource of resources) this.add(resource);
  }

  /** A kind of which nothing changed is the previous map itself. */
  get resources(): Snapshot['resources'] {
    const same = (kind: ResourceKind): ReadonlyMap<string, Resource> => {
      const before = this.#previous?.resources[kind];
      const now = this.#resources[kind];
      return before !== undefined && !this.#changed.has(kind) && before.size === now.size ? before : now;
    };
    return {
      cluster: same('cluster'),
      endpoints: same('endpoints'),
      listener: same('listener'),
      routes: same('routes'),
      host: same('host'),
      secret: same('secret'),
    };
  }

  get conflicts(): readonly `${ResourceKind} ${string}`[] {
    return this.#conflicts;
  }
}

function isSame(a: Resource, b: Resource): boolean {
  if (a === b) return true;
  return a.version === b.version && a.isOnDemand === b.isOnDemand;
}
