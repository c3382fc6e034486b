// The commonest change by far: endpoints come, go and change their health, and nothing else. The snapshot before with other load
// assignments is then what building all anew would give, and nothing in it can be wrong that was not wrong before.
import { findExchanged } from '../core/exchanged-list.ts';
import { formatServiceKey } from '../mesh/names.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { type BuildOptions, findMemo, keepMemo, type Memo } from './build-snapshot.ts';
import type { SnapshotInput } from './input.ts';
import { overlayMap } from './overlay-map.ts';
import type { Resource, Snapshot } from './resource.ts';
import { findServiceFaults } from './service-faults.ts';
import { type Build, buildServicePart, type ServicePart } from './snapshot-parts.ts';

/** Undefined: more than that has changed, or `previous` was not made of everything. */
export function patchSnapshot(input: SnapshotInput, options: BuildOptions): Snapshot | undefined {
  const { previous, hash } = options;
  const memo = findMemo(input, options);
  if (previous === undefined || memo === undefined || !isOfSame(input, memo)) return undefined;
  const { settings, single } = memo;
  const build = { node: input.node, settings, hash, ...(single && { single }) };
  const services = memo.services.slice();
  const changes = new Map<string, Resource>();
  // Most are the same: nothing is made for them, they are not even looked at where that is known.
  for (const index of findExchanged(input.services, memo.views) ?? services.keys()) {
    const view = input.services[index];
    const before = services[index];
    if (before?.source === view) continue;
    const part = before && view && patchPart(view, before, build);
    if (part === undefined) return undefined;
    services[index] = part;
    for (const resource of part.resources) {
      if (resource.kind !== 'endpoints') continue;
      if (previous.resources.endpoints.get(resource.name)?.version !== resource.version) {
        changes.set(resource.name, resource);
      }
    }
  }
  const { change: _, ...same } = previous;
  const resources = { ...previous.resources, endpoints: overlayMap(previous.resources.endpoints, changes) };
  const change = { since: previous.resources, changed: { endpoints: [...changes.keys()] }, removed: {} };
  return keepMemo({ ...same, resources, change }, { ...memo, services, views: input.services });
}

// Everything but the services' own is what it was; a service that was left out is in the input alone.
function isOfSame({ pods, services, others = [], certificates, trustBundlePem }: SnapshotInput, memo: Memo): boolean {
  return (
    trustBundlePem === memo.trustBundlePem &&
    services.length === memo.services.length &&
    isMadeOf(memo.pods, pods) &&
    isMadeOf(memo.others, others) &&
    isMadeOf(memo.certificates, certificates)
  );
}

function isMadeOf<T>(parts: readonly { readonly source: T }[], sources: readonly T[]): boolean {
  return parts.length === sources.length && parts.every(({ source }, index) => source === sources[index]);
}

// The part with other load assignments; undefined where something else differs.
function patchPart(view: ServiceView, before: ServicePart, build: Build): ServicePart | undefined {
  const { key, vips } = before.source;
  if (formatServiceKey(view.key) !== formatServiceKey(key)) return undefined;
  if (view.vips.map(({ text }) => text).join() !== vips.map(({ text }) => text).join()) return undefined;
  if (findServiceFaults(view).length > 0) return undefined;
  const part = buildServicePart(view, before, build);
  const isSame =
    part.resources.length === before.resources.length &&
    part.resources.every((resource, index) => {
      const earlier = before.resources[index];
      if (earlier?.kind !== resource.kind || earlier.name !== resource.name) return false;
      return resource.kind === 'endpoints' || earlier.version === resource.version;
    });
  return isSame ? part : undefined;
}
