// The next snapshot by what has changed: pods, services, certificates that came, went or are others. It costs what they are, not
// what the node has, and so does its check. What is more than that, or wrong, is left to a build (build-fit-snapshot.ts).
import { runSteps, type Steps } from '../core/steps.ts';
import { TCP_MESH_PORT } from '../mesh/constants.ts';
import { type MeshSets, withoutShared } from '../mesh/mesh-sets.ts';
import { formatServiceKey, HEALTH_GATEWAY, isTcpClusterName, tcpClusterName } from '../mesh/names.ts';
import { changeMeshSets } from '../mesh/plan-mesh-sets.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { type BuildOptions, findMemo, healthGateway, keepMemo, type Memo } from './build-snapshot.ts';
import type { SnapshotInput } from './input.ts';
import { isWorn, overlayMap } from './overlay-map.ts';
import { byKind, changeParts, changeResources, type PartChanges, type ResourceChanges } from './part-changes.ts';
import { PUSH_ORDER, type Resource, type ResourceKind, type Snapshot } from './resource.ts';
import { findServiceFaults } from './service-faults.ts';
import { SnapshotIndex } from './snapshot-index.ts';
import {
  type Build,
  buildCertificatePart,
  buildPodPart,
  buildServicePart,
  type Part,
  type ServicePart,
} from './snapshot-parts.ts';
import { isSound } from './validate-snapshot.ts';

/** Of the snapshot that was made of another one last: the other's is no more. */
const indexes = new WeakMap<Snapshot, SnapshotIndex>();

/** Undefined: to be built. `previous` was fit, and made of everything in its input. */
export function editSnapshot(input: SnapshotInput, options: BuildOptions): Snapshot | undefined {
  return runSteps(editSnapshotInSteps(input, options));
}

/** The same, a pod or a service at a time. */
export function* editSnapshotInSteps(input: SnapshotInput, options: BuildOptions): Steps<Snapshot | undefined> {
  const { previous, hash } = options;
  const memo = findMemo(input, options);
  if (previous === undefined || memo === undefined || !isOfSame(input, memo)) return undefined;
  if (PUSH_ORDER.some((kind) => isWorn(previous.resources[kind]))) return undefined;
  const { settings, single } = memo;
  const parts = yield* changeAll(input, memo, { node: input.node, settings, hash, ...(single && { single }) });
  if (parts === undefined) return undefined;
  const { pods, services, certificates } = parts;
  const next = {
    ...memo,
    ...{ pods: pods.parts, services: services.parts, certificates: certificates.parts, views: input.services },
  };
  const gateway = changeGateway(next, memo, { input, previous });
  yield;
  const all = [pods, services, certificates, gateway];
  const resources = changeResources(previous, {
    out: all.flatMap(({ out }) => out),
    come: all.flatMap(({ come }) => come),
  });
  yield;
  const meshSets = resources && changeSets(input, { previous, services });
  yield;
  if (meshSets === undefined || resources === undefined) return undefined;
  const snapshot = keepMemo(applyChanges(previous, { meshSets, changes: resources.changes }), next);
  return (yield* isFit(snapshot, { previous, memo, services, resources })) ? snapshot : undefined;
}

function isOfSame({ others = [], trustBundlePem }: SnapshotInput, memo: Memo): boolean {
  if (trustBundlePem !== memo.trustBundlePem || others.length !== memo.others.length) return false;
  return memo.others.every(({ source }, index) => source === others[index]);
}

interface AllChanges {
  readonly pods: PartChanges<Memo['pods'][number]>;
  readonly services: PartChanges<ServicePart>;
  readonly certificates: PartChanges<Memo['certificates'][number]>;
}

function* changeAll(input: SnapshotInput, memo: Memo, build: Build): Steps<AllChanges | undefined> {
  const services = yield* changeParts(input.services, {
    before: memo.services,
    made: memo.views,
    nameOf: ({ key }) => formatServiceKey(key),
    make: (view, before) => (findServiceFaults(view).length > 0 ? undefined : buildServicePart(view, before, build)),
  });
  const pods = yield* changeParts(input.pods, {
    before: memo.pods,
    nameOf: ({ resourceName }) => resourceName,
    make: (pod, before) => buildPodPart(pod, before, build),
  });
  const certificates = yield* changeParts(input.certificates, {
    before: memo.certificates,
    nameOf: ({ identity }) => identity,
    make: (certificate, before) => buildCertificatePart(certificate, before, build),
  });
  return services && pods && certificates && { services, pods, certificates };
}

// All pods are in it.
function changeGateway(
  next: Memo,
  memo: Memo,
  { input: { node }, previous }: { readonly input: SnapshotInput; readonly previous: Snapshot },
): Pick<PartChanges<Part<unknown>>, 'out' | 'come'> {
  const before = previous.resources.listener.get(HEALTH_GATEWAY);
  const asParts = (resources: readonly Resource[]): readonly Part<unknown>[] => [{ source: undefined, resources }];
  return {
    out: asParts(before === undefined ? [] : [before]),
    come: asParts(healthGateway(next, memo, { node, previous })),
  };
}

interface Made {
  readonly previous: Snapshot;
  readonly services: PartChanges<ServicePart>;
  readonly resources: ResourceChanges;
}

// In the single form the pods' own listeners say what service is where.
function changeSets({ node }: SnapshotInput, { previous, services }: Omit<Made, 'resources'>): MeshSets | undefined {
  if (node.captureForm === 'single') return haveSameShape(services) ? previous.meshSets : undefined;
  const [out, come] = [viewsOf(services.out), viewsOf(services.come)];
  return changeMeshSets(previous.meshSets, { out, come, tcp: node.identity === 'mtls' });
}

// Nothing but who serves them has changed.
function haveSameShape({ out, come }: PartChanges<ServicePart>): boolean {
  const isSame = (a: ServicePart, b: ServicePart | undefined): boolean =>
    a.hosts === b?.hosts && a.clusters === b.clusters;
  return out.length === come.length && out.every((part, index) => isSame(part, come[index]));
}

function viewsOf(parts: readonly ServicePart[]): readonly ServiceView[] {
  return parts.map(({ source }) => source);
}

function applyChanges(
  previous: Snapshot,
  { meshSets, changes }: { readonly meshSets: MeshSets; readonly changes: ResourceChanges['changes'] },
): Snapshot {
  const { change: _, ...same } = previous;
  const resources: Record<ResourceKind, ReadonlyMap<string, Resource>> = { ...previous.resources };
  const [changed, removed] = [byKind((): string[] => []), byKind((): string[] => [])];
  for (const kind of PUSH_ORDER) {
    resources[kind] = overlayMap(previous.resources[kind], changes[kind]);
    for (const [name, resource] of changes[kind]) (resource === undefined ? removed : changed)[kind].push(name);
  }
  return { ...same, meshSets, resources, change: { since: previous.resources, changed, removed } };
}

// What was fit is so still but for what came, what refers to something that went, and what has two owners now.
function* isFit(snapshot: Snapshot, made: Made & { readonly memo: Memo }): Steps<boolean> {
  const { previous, memo, services, resources } = made;
  const removed = snapshot.change?.removed ?? {};
  const index = indexes.get(previous);
  indexes.delete(previous);
  if (haveSameShape(services) && onlyExchangesEndpoints(made)) {
    if (index !== undefined) indexes.set(snapshot, index);
    return true;
  }
  const claims =
    index ?? (yield* SnapshotIndex.make(previous, [...memo.views, ...memo.others.map((part) => part.source)]));
  if (claims === undefined) return false;
  for (const view of viewsOf(services.out)) claims.releaseAddresses(view);
  for (const resource of resources.left) claims.release(resource);
  for (const view of viewsOf(services.come)) if (!claims.claimAddresses(view)) return false;
  for (const resource of resources.come) {
    if (!claims.claim(resource) || !isSound(resource, snapshot)) return false;
    yield;
  }
  for (const kind of ['cluster', 'endpoints'] as const) {
    if (removed[kind]?.some((name) => claims.isNeeded({ kind, name }))) return false;
  }
  if (!areSetsServed(snapshot, previous)) return false;
  indexes.set(snapshot, claims);
  return true;
}

// The commonest change by far: nothing refers to what endpoints are.
function onlyExchangesEndpoints({ previous, resources }: Pick<Made, 'previous' | 'resources'>): boolean {
  const { changes, come } = resources;
  const isExchange = ([name, resource]: [string, Resource | undefined]): boolean =>
    resource !== undefined && previous.resources.endpoints.has(name);
  return (
    come.length === changes.endpoints.size &&
    resources.left.length === come.length &&
    [...changes.endpoints].every(isExchange)
  );
}

// The check of what the kernels are told, of what is other than before.
function areSetsServed({ meshSets, resources, change }: Snapshot, previous: Snapshot): boolean {
  const [lost, gained] = [withoutShared(previous.meshSets, meshSets), withoutShared(meshSets, previous.meshSets)];
  const nameOf = ({ address, port }: MeshSets['tcp'][number]): string => tcpClusterName(address.text, port);
  const wanted = [...gained.tcp.map(nameOf), ...gained.shim.map(({ text }) => tcpClusterName(text, TCP_MESH_PORT))];
  const given = new Set(lost.tcp.map(nameOf));
  const gone = change?.removed.cluster ?? [];
  return (
    wanted.every((name) => resources.cluster.has(name)) &&
    gone.every((name) => !isTcpClusterName(name) || given.has(name))
  );
}
