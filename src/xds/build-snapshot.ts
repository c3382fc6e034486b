// Pods of the node and services of the mesh -> every resource of the node's Envoy, and the kernel sets that go with them.
// Work is proportional to change: what was built of an unchanged pod or service is taken over from the previous snapshot.
import { runSteps, type Steps } from '../core/steps.ts';
import { type MeshSets, NO_SETS } from '../mesh/mesh-sets.ts';
import { formatServiceKey, HEALTH_GATEWAY } from '../mesh/names.ts';
import { planMeshSets } from '../mesh/plan-mesh-sets.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { buildCollectorCluster } from './collector-cluster.ts';
import { encodeCluster, encodeRoutes, encodeSecret, type Hash, makeResource } from './encode-resource.ts';
import { encodeHealthGateway, healthGatewayFacts } from './health.ts';
import type { NodePod, NodeSettings, SnapshotInput, WorkloadCertificate } from './input.ts';
import { buildBlackholeCluster } from './pod-clusters.ts';
import type { Resource, Snapshot } from './resource.ts';
import { ResourceCollector } from './resource-collector.ts';
import { knowListener, routeFacts } from './resource-facts.ts';
import { buildCaptureRoutes, buildOutboundRoutes } from './routes.ts';
import { buildTrustBundleSecret } from './secrets.ts';
import { planSingleForm, type SingleForm } from './single-form.ts';
import {
  type Build,
  buildCertificatePart,
  buildHostsPart,
  buildPodPart,
  buildServicePart,
  type HostsPart,
  type Part,
  type PodPart,
  type ServicePart,
} from './snapshot-parts.ts';

export interface BuildOptions {
  /** Hash of a resource's bytes, short text (16 hex digits); the same in every process. */
  readonly hash: Hash;
  /** What to build on: unchanged pods and services (the same objects) cost nothing, unchanged resources stay the same objects. */
  readonly previous?: Snapshot;
}

// What a snapshot was built from, piece by piece; lives as long as the snapshot.
export interface Memo {
  readonly settings: string;
  readonly hash: Hash;
  readonly pods: readonly PodPart[];
  readonly services: readonly ServicePart[];
  /** What those were made of. */
  readonly views: readonly ServiceView[];
  readonly single: SingleForm | undefined;
  /** Of services that Envoy is not given. */
  readonly others: readonly HostsPart[];
  readonly certificates: readonly Part<WorkloadCertificate>[];
  readonly trustBundlePem: string | undefined;
  readonly nodes: readonly Resource[];
}

const memos = new WeakMap<Snapshot, Memo>();

/** What a snapshot was built from, in its order; undefined for one that was not built here. */
export function listParts(
  snapshot: Snapshot,
): { readonly pods: readonly Part<NodePod>[]; readonly services: readonly ServicePart[] } | undefined {
  return memos.get(snapshot);
}

/** The snapshot was made from that. */
export function keepMemo(snapshot: Snapshot, memo: Memo): Snapshot {
  memos.set(snapshot, memo);
  return snapshot;
}

/** Builds all resources. The same input gives the same bytes, whatever `previous` is. */
export function buildSnapshot(input: SnapshotInput, options: BuildOptions): Snapshot {
  return runSteps(buildSnapshotInSteps(input, options));
}

/** The same, a pod or a service at a time. */
export function* buildSnapshotInSteps(input: SnapshotInput, options: BuildOptions): Steps<Snapshot> {
  const { previous, hash } = options;
  const before = findMemo(input, options);
  const single = planSingle(input, before);
  const settings = before?.settings ?? JSON.stringify(input.node);
  const memo = yield* buildParts(input, before, { node: input.node, settings, hash, ...(single && { single }) });
  const collector = new ResourceCollector(previous);
  for (const part of [...memo.pods, ...memo.services, ...memo.others, ...memo.certificates]) {
    collector.addAll(part.resources);
    yield;
  }
  collector.addAll(memo.nodes);
  yield;
  collector.addAll(healthGateway(memo, before, { node: input.node, previous }));
  yield;
  const meshSets = planSets(input, previous && before && { sets: previous.meshSets, memo: before });
  yield;
  const fetchable = new Set<string>();
  for (const { hosts } of memo.others) {
    for (const host of hosts) for (const cluster of routeFacts(host).clusters) fetchable.add(cluster);
    yield;
  }
  const { resources, change, conflicts } = yield* collector.finish();
  return keepMemo({ resources, meshSets, fetchable, conflicts, ...(change && { change }) }, memo);
}

// The addresses of all count: what is no TCP port of theirs is refused, whether Envoy has them or not.
function planSets(
  { node, services, others = [] }: SnapshotInput,
  previous: { readonly sets: MeshSets; readonly memo: Memo } | undefined,
): MeshSets {
  if (node.captureForm === 'single') return NO_SETS;
  const all = previous && [...previous.memo.views, ...previous.memo.others.map(({ source }) => source)];
  return planMeshSets([...services, ...others], {
    tcp: node.identity === 'mtls',
    ...(all && { previous: { services: all, sets: previous.sets } }),
  });
}

// While it says the same it is the same object, so that the listeners made of it stay.
function planSingle({ node, services }: SnapshotInput, before: Memo | undefined): SingleForm | undefined {
  if (node.captureForm !== 'single') return undefined;
  const form = planSingleForm(services, node);
  return before?.single?.shape === form.shape ? before.single : form;
}

/** What `previous` was made from. Node settings and hash reach into every resource: with others nothing can be taken over. */
export function findMemo({ node }: SnapshotInput, { previous, hash }: BuildOptions): Memo | undefined {
  const memo = previous === undefined ? undefined : memos.get(previous);
  return memo?.settings === JSON.stringify(node) && memo.hash === hash ? memo : undefined;
}

function* buildParts(input: SnapshotInput, before: Memo | undefined, build: Build): Steps<Memo> {
  const pods = new Map(before?.pods.map((part) => [part.source.resourceName, part]));
  const services = new Map(before?.services.map((part) => [formatServiceKey(part.source.key), part]));
  const others = new Map(before?.others.map((part) => [formatServiceKey(part.source.key), part]));
  const certificates = new Map(before?.certificates.map((part) => [part.source.identity, part]));
  return {
    settings: build.settings,
    trustBundlePem: input.trustBundlePem,
    nodes:
      before !== undefined && before.trustBundlePem === input.trustBundlePem
        ? before.nodes
        : nodeResources(input, build.hash),
    hash: build.hash,
    single: build.single,
    views: input.services,
    others: yield* eachInSteps(input.others ?? [], (view) =>
      buildHostsPart(view, others.get(formatServiceKey(view.key)), build),
    ),
    pods: yield* eachInSteps(input.pods, (pod) => buildPodPart(pod, pods.get(pod.resourceName), build)),
    services: yield* eachInSteps(input.services, (view) =>
      buildServicePart(view, services.get(formatServiceKey(view.key)), build),
    ),
    certificates: yield* eachInSteps(input.certificates, (certificate) =>
      buildCertificatePart(certificate, certificates.get(certificate.identity), build),
    ),
  };
}

function* eachInSteps<T, R>(items: readonly T[], make: (item: T) => R): Steps<R[]> {
  const made: R[] = [];
  for (const item of items) {
    made.push(make(item));
    yield;
  }
  return made;
}

function nodeResources({ node, trustBundlePem }: SnapshotInput, hash: Hash): readonly Resource[] {
  const sink = node.accessLog?.sink;
  const shared = [
    encodeCluster(buildBlackholeCluster(), hash),
    ...(sink?.kind === 'otlp' ? [encodeCluster(buildCollectorCluster(sink.address), hash)] : []),
    ...[buildCaptureRoutes, buildOutboundRoutes].map((build) => encodeRoutes(build(node.meshDomain), hash)),
  ];
  if (node.identity === 'none' || trustBundlePem === undefined) return shared;
  return [...shared, encodeSecret(buildTrustBundleSecret(node.trustDomain, trustBundlePem), hash)];
}

/** All pods are in it, so it is encoded anew only when one came or went. `memo`: with the parts of all pods. */
export function healthGateway(
  memo: Memo,
  before: Memo | undefined,
  { node, previous }: { readonly node: NodeSettings; readonly previous: Snapshot | undefined },
): readonly Resource[] {
  if (node.healthSocket === undefined) return [];
  const pods = memo.pods.map(({ source }) => source);
  const earlier = before?.pods.map(({ source }) => source.resourceName);
  const isSame = earlier?.length === pods.length && pods.every((pod, index) => pod.resourceName === earlier[index]);
  const kept = isSame ? previous?.resources.listener.get(HEALTH_GATEWAY) : undefined;
  if (kept !== undefined) return [kept];
  const bytes = encodeHealthGateway(pods, node.healthSocket);
  const gateway = makeResource({ kind: 'listener', name: HEALTH_GATEWAY, bytes }, memo.hash);
  knowListener(gateway, healthGatewayFacts(pods, node.healthSocket));
  return [gateway];
}
