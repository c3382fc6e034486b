// The order in which kernel sets and clusters change: an address leaves the kernel before its cluster goes, and enters
// it after its cluster is there. In between both sides agree on what is common.
import { compareText } from '../core/compare.ts';
import { type MeshSets, withoutShared } from '../mesh/mesh-sets.ts';
import { tcpClusterName } from '../mesh/names.ts';
import type { Snapshot } from '../xds/resource.ts';
import type { ResourceName } from './publisher.ts';

export const NO_SETS: MeshSets = { tcp: [], vip: [], shim: [] };

/** What is in both, in the order of `a`; `a` itself where `b` has all of it. */
export function intersectMeshSets(a: MeshSets, b: MeshSets): MeshSets {
  if (a === b) return a;
  const lost = withoutShared(a, b);
  if (countElements(lost) === 0) return a;
  const tcp = new Set(b.tcp.map(({ address, port }) => tcpClusterName(address.text, port)));
  const vip = new Set(b.vip.map(({ text }) => text));
  const shim = new Set(b.shim.map(({ text }) => text));
  const common = {
    tcp: a.tcp.filter(({ address, port }) => tcp.has(tcpClusterName(address.text, port))),
    vip: a.vip.filter(({ text }) => vip.has(text)),
    shim: a.shim.filter(({ text }) => shim.has(text)),
  };
  return countElements(common) === countElements(a) ? a : common;
}

/** How many elements all sets have together. */
export function countElements(sets: MeshSets): number {
  return sets.tcp.length + sets.vip.length + sets.shim.length;
}

/** The clusters, and their endpoints, that Envoy must have before the kernel may send connections to them. */
export function listAwaited(before: MeshSets, snapshot: Snapshot): readonly ResourceName[] {
  if (before === snapshot.meshSets) return [];
  const known = new Set(before.tcp.map(({ address, port }) => tcpClusterName(address.text, port)));
  const clusters = withoutShared(snapshot.meshSets, before)
    .tcp.map(({ address, port }) => tcpClusterName(address.text, port))
    // One that is fetched at the first dial is not there before.
    .filter((name) => !known.has(name) && snapshot.resources.cluster.get(name)?.isOnDemand !== true);
  const endpoints = clusters.flatMap((name) => snapshot.resources.cluster.get(name)?.edsName ?? []);
  return [
    ...clusters.map((name): ResourceName => ({ kind: 'cluster', name })),
    ...[...new Set(endpoints)].sort(compareText).map((name): ResourceName => ({ kind: 'endpoints', name })),
  ];
}
