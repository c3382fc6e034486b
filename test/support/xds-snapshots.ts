// Snapshots of made-up resources for tests of the stream: `cluster a 1` is resource "a" at version "1".
import { PUSH_ORDER, type Resource, type ResourceKind, type Snapshot } from '../../src/xds/resource.ts';

/**
 * `['cluster a 1 eds-a', 'endpoints eds-a 1']`: kind, name, version, and of a cluster the assignment it waits for; a version
 * that ends in `?` is sent on demand only.
 */
export function makeSnapshot(...specs: readonly string[]): Snapshot {
  const resources: Record<ResourceKind, Map<string, Resource>> = {
    cluster: new Map(),
    endpoints: new Map(),
    listener: new Map(),
    routes: new Map(),
    host: new Map(),
    secret: new Map(),
  };
  for (const spec of specs) {
    const [kindText, name = '', versionText = '', edsName] = spec.split(' ');
    const version = versionText.replace('?', '');
    const kind = PUSH_ORDER.find((candidate) => candidate === kindText);
    if (kind === undefined) throw new Error(`no kind: ${spec}`);
    const resource: Resource = { kind, name, version, bytes: new TextEncoder().encode(`${name}@${version}`) };
    const onDemand = version === versionText ? {} : { isOnDemand: true };
    resources[kind].set(name, { ...resource, ...onDemand, ...(edsName === undefined ? {} : { edsName }) });
  }
  return { resources, meshSets: { tcp: [], vip: [], shim: [] } };
}
