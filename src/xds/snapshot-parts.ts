// What a snapshot is put together from: all resources of one pod, of one service, of one certificate. A part of the same
// object is taken over as it is.

import { RecentMap } from '../core/recent-map.ts';
import type { Cluster } from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { HTTP_MESH_PORT } from '../mesh/constants.ts';
import { isTcpClusterName } from '../mesh/names.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import { buildCaptureListeners } from './capture-listeners.ts';
import { encodeCluster, encodeHost, encodeListener, encodeSecret, type Hash, makeResource } from './encode-resource.ts';
import { buildInboundListener } from './inbound-listener.ts';
import type { NodePod, NodeSettings, WorkloadCertificate } from './input.ts';
import { encodeLoadAssignments } from './load-assignments.ts';
import { buildOutboundListener } from './outbound-listener.ts';
import { buildPodClusters } from './pod-clusters.ts';
import { podResources } from './pod-templates.ts';
import type { Resource } from './resource.ts';
import { buildCertificateSecret } from './secrets.ts';
import { buildServiceClusters } from './service-clusters.ts';
import type { SingleForm } from './single-form.ts';
import { buildSingleListener } from './single-listener.ts';
import { captureHosts, outboundHosts, routeShape } from './virtual-hosts.ts';

/** What all parts of one build share. */
export interface Build {
  readonly node: NodeSettings;
  /** As text. */
  readonly settings: string;
  readonly hash: Hash;
  /** Only in the single form; the same object while it says the same. */
  readonly single?: SingleForm;
}

/** The resources of one object of the input. */
export interface Part<T> {
  readonly source: T;
  readonly resources: readonly Resource[];
}

/** Of a pod also what its capture listener knew of services. */
export interface PodPart extends Part<NodePod> {
  readonly single: SingleForm | undefined;
}

/** Of a service its virtual hosts alone; while `shape` (what decides them) stays, the same objects. */
export interface HostsPart extends Part<ServiceView> {
  readonly shape: string;
  readonly hosts: readonly Resource[];
}

/** Of a service all there is; its clusters stay the same objects as well. */
export interface ServicePart extends HostsPart {
  readonly clusters: Clusters;
}

interface Clusters {
  readonly shape: string;
  readonly resources: readonly Resource[];
}

export function buildPodPart(pod: NodePod, before: PodPart | undefined, build: Build): PodPart {
  const { hash, single } = build;
  if (before?.source === pod) return before.single === single ? before : withCapture(before, build);
  const key = `${build.settings} ${single?.shape ?? ''}`;
  return { source: pod, resources: podResources(pod, { key, hash, build: (each) => encodePod(each, build) }), single };
}

function encodePod(pod: NodePod, { node, hash, single }: Build): readonly Resource[] {
  const capture = single === undefined ? buildCaptureListeners(pod, node) : [buildSingleListener(pod, node, single)];
  const listeners = [...capture, buildOutboundListener(pod, node), buildInboundListener(pod, node)];
  return [
    ...buildPodClusters(pod, node).map((cluster) => encodeCluster(cluster, hash)),
    ...listeners.map((listener) => encodeListener(listener, hash)),
  ];
}

// The services changed, not the pod: one listener is built anew.
function withCapture(before: PodPart, { node, hash, single }: Build): PodPart {
  if (single === undefined) return before;
  const listener = encodeListener(buildSingleListener(before.source, node, single), hash);
  const isIt = ({ kind, name }: Resource): boolean => kind === 'listener' && name === listener.name;
  return { ...before, resources: before.resources.map((each) => (isIt(each) ? listener : each)), single };
}

export function buildServicePart(view: ServiceView, before: ServicePart | undefined, build: Build): ServicePart {
  if (before?.source === view) return before;
  const isSame = before !== undefined && isAlike(before.source, view);
  const part = isSame ? { ...before, source: view } : buildHostsPart(view, before, build);
  const clusters = isSame ? before.clusters : encodeServiceClusters(view, before?.clusters, build);
  const assignments = encodeLoadAssignments(view, build.node);
  const resources = [
    ...clusters.resources,
    ...assignments.map((assignment) => makeResource({ kind: 'endpoints', ...assignment }, build.hash)),
    ...part.hosts,
  ];
  return { ...part, resources, clusters };
}

/** Of a service that Envoy is not given: the hosts name clusters that it asks for when it needs them. */
export function buildHostsPart(view: ServiceView, before: HostsPart | undefined, { hash }: Build): HostsPart {
  if (before?.source === view) return before;
  const decisive = routeShape(view);
  const shape = JSON.stringify(decisive);
  const make = () => [...captureHosts(decisive), ...outboundHosts(decisive)].map((host) => encodeHost(host, hash));
  const hosts = before?.shape === shape ? before.hosts : recentOf(hash).hosts.getOrMake(shape, make);
  return { source: view, resources: hosts, shape, hosts };
}

interface Recent {
  readonly clusters: RecentMap<readonly Resource[]>;
  readonly hosts: RecentMap<readonly Resource[]>;
}

/** Services that change one after the other, as those of pods that start together. */
const RECENT_SERVICES = 256;
const recents = new WeakMap<Hash, Recent>();

function recentOf(hash: Hash): Recent {
  const known = recents.get(hash);
  if (known !== undefined) return known;
  const recent = {
    clusters: new RecentMap<readonly Resource[]>(RECENT_SERVICES),
    hosts: new RecentMap<readonly Resource[]>(RECENT_SERVICES),
  };
  recents.set(hash, recent);
  return recent;
}

// Endpoints come and go, and a service with its last one: its clusters are made once.
function encodeServiceClusters(view: ServiceView, before: Clusters | undefined, build: Build): Clusters {
  const { node, settings, hash } = build;
  const shape = JSON.stringify(view, (name, value: unknown) => (NO_SHAPE.has(name) ? undefined : value));
  if (before?.shape === shape) return before;
  const make = () => buildServiceClusters(view, node).map((cluster) => encodeServiceCluster(cluster, build));
  return { shape, resources: recentOf(hash).clusters.getOrMake(`${settings} ${shape}`, make) };
}

/** Members of a view that no cluster and no host depends on: who serves a port, and an address's other spelling. */
const NO_SHAPE: ReadonlySet<string> = new Set(['endpoints', 'bytes']);

// The same but for those: told without writing it all down.
function isAlike(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  const [names, others] = [Object.keys(a), Object.keys(b)];
  if (names.length !== others.length) return false;
  return names.every(
    (name) => NO_SHAPE.has(name) || (Object.hasOwn(b, name) && isAlike(Reflect.get(a, name), Reflect.get(b, name))),
  );
}

function encodeServiceCluster(cluster: Cluster, { node, hash }: Build): Resource {
  const resource = encodeCluster(cluster, hash);
  const isTcp = isTcpClusterName(cluster.name);
  const isOnDemand = isTcp ? node.onDemandTcp : cluster.name.endsWith(NAMED_BY_NO_ROUTE);
  return isOnDemand ? { ...resource, isOnDemand: true } : resource;
}

/** Hosts lead the spelling with the mesh port to the name's own cluster; the alias is there for whoever asks for it. */
const NAMED_BY_NO_ROUTE = `:${HTTP_MESH_PORT}`;

export function buildCertificatePart(
  certificate: WorkloadCertificate,
  before: Part<WorkloadCertificate> | undefined,
  { hash }: Build,
): Part<WorkloadCertificate> {
  if (before?.source === certificate) return before;
  return { source: certificate, resources: [encodeSecret(buildCertificateSecret(certificate), hash)] };
}
