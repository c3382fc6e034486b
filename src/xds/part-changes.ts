// Which parts of a snapshot are others than before, and which resources that makes others.
import { compareText } from '../core/compare.ts';
import { findExchanged } from '../core/exchanged-list.ts';
import type { Steps } from '../core/steps.ts';
import { PUSH_ORDER, type Resource, type ResourceKind, type Snapshot } from './resource.ts';
import type { Part } from './snapshot-parts.ts';

/** `out` and `come`: what is not in the other list any more, or yet; of what is made anew both. */
export interface PartChanges<P> {
  readonly parts: readonly P[];
  readonly out: readonly P[];
  readonly come: readonly P[];
}

interface Changing<S, P> {
  /** In order of `nameOf`, as the sources. */
  readonly before: readonly P[];
  /** What `before` was made of. */
  readonly made?: readonly S[];
  readonly nameOf: (source: S) => string;
  /** Undefined: not like this. */
  readonly make: (source: S, before: P | undefined) => P | undefined;
}

/** A part of the same object stays; the others are made, one a step. Undefined: one was not. */
export function* changeParts<S, P extends Part<S>>(
  sources: readonly S[],
  { before, made = [], nameOf, make }: Changing<S, P>,
): Steps<PartChanges<P> | undefined> {
  const places = findExchanged(sources, made);
  const parts: P[] = places === undefined ? [] : before.slice();
  const out: P[] = [];
  const come: P[] = [];
  function* step(source: S, earlier: P | undefined): Steps<P | undefined> {
    const part = make(source, earlier);
    if (part === undefined) return undefined;
    come.push(part);
    if (earlier !== undefined) out.push(earlier);
    yield;
    return part;
  }
  for (const place of places ?? []) {
    const [source, earlier] = [sources[place], before[place]];
    if (source === undefined || earlier?.source === source) continue;
    const part = earlier && nameOf(earlier.source) === nameOf(source) ? yield* step(source, earlier) : undefined;
    if (part === undefined) return undefined;
    parts[place] = part;
  }
  if (places !== undefined) return { parts, out, come };
  let next = 0;
  for (const source of sources) {
    let earlier = before[next];
    while (
      earlier !== undefined &&
      earlier.source !== source &&
      compareText(nameOf(earlier.source), nameOf(source)) < 0
    ) {
      out.push(earlier);
      next += 1;
      earlier = before[next];
    }
    const isOfIt = earlier !== undefined && (earlier.source === source || nameOf(earlier.source) === nameOf(source));
    if (isOfIt) next += 1;
    const part = earlier?.source === source ? earlier : yield* step(source, isOfIt ? earlier : undefined);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  out.push(...before.slice(next));
  return { parts, out, come };
}

/** Resources by kind and name, undefined where one is gone; and those objects that went and came for it. */
export interface ResourceChanges {
  readonly changes: Readonly<Record<ResourceKind, ReadonlyMap<string, Resource | undefined>>>;
  readonly left: readonly Resource[];
  readonly come: readonly Resource[];
}

/** What makes of `previous` a snapshot without the parts `out` and with those that `come`. Undefined: a name has two owners. */
export function changeResources(
  { resources }: Snapshot,
  parts: { readonly out: readonly Part<unknown>[]; readonly come: readonly Part<unknown>[] },
): ResourceChanges | undefined {
  const fresh = new Set(parts.come.flatMap((part) => part.resources));
  const leaving = byKind(() => new Map<string, Resource>());
  for (const resource of parts.out.flatMap((part) => part.resources)) {
    // The same object in both parts.
    if (!fresh.delete(resource)) leaving[resource.kind].set(resource.name, resource);
  }
  const changes = byKind(() => new Map<string, Resource | undefined>());
  const come: Resource[] = [];
  for (const resource of fresh) {
    const { kind, name } = resource;
    const before = resources[kind].get(name);
    const isOurs = leaving[kind].has(name);
    if (changes[kind].has(name) || (before !== undefined && !isOurs)) return undefined;
    if (before !== undefined && isSameResource(before, resource)) {
      leaving[kind].delete(name);
      continue;
    }
    changes[kind].set(name, resource);
    come.push(resource);
  }
  for (const kind of PUSH_ORDER) {
    for (const name of leaving[kind].keys()) if (!changes[kind].has(name)) changes[kind].set(name, undefined);
  }
  return { changes, left: PUSH_ORDER.flatMap((kind) => [...leaving[kind].values()]), come };
}

/** Whether Envoy could not tell one from the other. */
export function isSameResource(a: Resource, b: Resource): boolean {
  return a === b || (a.version === b.version && a.isOnDemand === b.isOnDemand);
}

export function byKind<T>(make: () => T): Record<ResourceKind, T> {
  return { cluster: make(), endpoints: make(), listener: make(), routes: make(), host: make(), secret: make() };
}
