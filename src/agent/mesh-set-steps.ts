// The order in which kernel sets and clusters change: an address leaves the kernel before its cluster goes, and enters
// it after its cluster is there. In between both sides agree on what is common.
import { compareText } from '../core/compare.ts';
import { type MeshSets, withoutShared } from '../mesh/mesh-sets.ts';
import { tcpClusterName } from '../mesh/names.ts';
import type { Snapshot } from '../xds/resource.ts';
import type { ResourceName } from './publisher.ts';

/** What is in both, in the order of `a`; `a` itself where `b` has all of it. */
export function intersectMeshSets(a: MeshSets, b: MeshSets): MeshSets {
  const [lost, gained] = [withoutShared(a, b), withoutShared(b, a)];
  const tcp = new Set(gained.tcp.map(nameOf));
  const vip = new Set(gained.vip.map(({ text }) => text));
  const shim = new Set(gained.shim.map(({ text }) => text));
  // The same element may be another object.
  const gone = new Set<object>([
    ...lost.tcp.filter((item) => !tcp.has(nameOf(item))),
    ...lost.vip.filter(({ text }) => !vip.has(text)),
  ]);
  const goneShim = new Set(lost.shim.filter(({ text }) => !shim.has(text)));
  if (gone.size + goneShim.size === 0) return a;
  return {
    tcp: a.tcp.filter((item) => !gone.has(item)),
    vip: a.vip.filter((item) => !gone.has(item)),
    shim: a.shim.filter((item) => !goneShim.has(item)),
  };
}

function nameOf({ address, port }: MeshSets['tcp'][number]): string {
  return tcpClusterName(address.text, port);
}

/** How many elements all sets have together. */
export function countElements(sets: MeshSets): number {
  return sets.tcp.length + sets.vip.length + sets.shim.length;
}

/** The clusters, and their endpoints, that Envoy must have before the kernel may send connections to them. */
export function listAwaited(before: MeshSets, snapshot: Snapshot): readonly ResourceName[] {
  if (before === snapshot.meshSets) return [];
  const known = new Set(withoutShared(before, snapshot.meshSets).tcp.map(nameOf));
  const clusters = withoutShared(snapshot.meshSets, before)
    .tcp.map(nameOf)
    // One that is fetched at the first dial is not there before.
    .filter((name) => !known.has(name) && snapshot.resources.cluster.get(name)?.isOnDemand !== true);
  const endpoints = clusters.flatMap((name) => snapshot.resources.cluster.get(name)?.edsName ?? []);
  return [
    ...clusters.map((name): ResourceName => ({ kind: 'cluster', name })),
    ...[...new Set(endpoints)].sort(compareText).map((name): ResourceName => ({ kind: 'endpoints', name })),
  ];
}
