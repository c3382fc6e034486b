// A pod of this node as the agent keeps it: everything that follows from its record, worked out once.

import { parseExclusionAnnotations } from '../capture/parse-exclusions.ts';
import type { CapturePolicy } from '../capture/policy.ts';
import { type NetnsPath, parseNetnsPath } from '../core/identifiers.ts';
import { type Parsed, type Problem, ProblemList } from '../core/problems.ts';
import {
  ANNOTATION_MANAGED,
  ANNOTATION_REDIRECT_ALL,
  ANNOTATION_SERVICE_ACCOUNT,
  DEFAULT_SERVICE_ACCOUNT,
} from '../mesh/constants.ts';
import type { Endpoint } from '../mesh/endpoint.ts';
import { podResourceName, spiffeId } from '../mesh/names.ts';
import { listProtocols, type Protocol, type WorkloadPorts } from '../mesh/port-protocols.ts';
import { resolveUdsSocket } from '../mesh/uds-socket.ts';
import { type PodRecord, parseWorkload, type Workload } from '../mesh/workload.ts';
import type { PodRequest } from '../plugin/deps.ts';
import type { NodePod } from '../xds/input.ts';

/** What this node adds to its pods. */
export interface NodeFacts {
  readonly nodeName: string;
  readonly clusterName: string;
  readonly region: string;
  readonly zone: string;
  readonly hostIp: string;
  readonly trustDomain: string;
  /** Capture mode of a pod whose annotation says neither `true` nor `false`. */
  readonly redirectAllDefault: boolean;
  /** Where the kubelet keeps the pods' volumes; undefined: nothing is delivered to Unix sockets. */
  readonly kubeletPodsDir?: string;
}

export interface AgentPod {
  readonly workload: Workload;
  readonly netns: NetnsPath;
  readonly policy: CapturePolicy;
  /** The same object as long as the pod lives: what is built of it is built once. */
  readonly node: NodePod;
  /** What is registered under each of `protocols`, HTTP first; undefined: it has no address to be sent to. */
  readonly endpoint: Endpoint | undefined;
  readonly protocols: readonly Protocol[];
  /** Legal, but most likely not meant. */
  readonly warnings: readonly Problem[];
}

/** Namespace and name that the runtime did not give. */
const NOT_GIVEN: ReadonlySet<string> = new Set(['', '-']);

/**
 * The record of a pod by the pod source `cni`, where annotations alone decide; undefined: it is not managed. A call
 * without a namespace or name is no Kubernetes pod.
 */
export function recordOfRequest(request: PodRequest): PodRecord | undefined {
  const { annotations } = request;
  if (annotations[ANNOTATION_MANAGED] !== 'true') return undefined;
  if (NOT_GIVEN.has(request.namespace) || NOT_GIVEN.has(request.name)) return undefined;
  return {
    name: request.name,
    namespace: request.namespace,
    networkNamespace: request.networkNamespace,
    containerId: request.containerId,
    ips: request.ips,
    labels: {},
    annotations,
    serviceAccount: annotations[ANNOTATION_SERVICE_ACCOUNT] || DEFAULT_SERVICE_ACCOUNT,
    terminating: false,
    uid: request.uid,
  };
}

/** Reads the record completely. All problems are collected; nothing is stored or registered before this succeeded. */
export function parseAgentPod(record: PodRecord, facts: NodeFacts): Parsed<AgentPod> {
  const list = new ProblemList();
  const workload = list.take(parseWorkload(record));
  const exclusions = list.take(parseExclusionAnnotations(record.annotations));
  const netns = parseNetnsPath(record.networkNamespace);
  if (typeof netns === 'object') list.add('networkNamespace', netns.problem);
  if (workload === undefined || exclusions === undefined || typeof netns === 'object') {
    return { kind: 'problems', problems: list.problems };
  }
  const redirectAll = readRedirectAll(record, facts);
  const udsPath = findUdsPath(workload, facts, list);
  return list.finish(() => ({
    workload,
    netns,
    policy: { redirectAll, excludePorts: exclusions.ports, excludeRanges: exclusions.ranges },
    node: {
      resourceName: podResourceName(record),
      netnsPath: netns,
      identity: spiffeId(workload.service, facts.trustDomain),
      ports: workload.ports,
      redirectAll,
      healthPath: workload.healthPath,
      ...(udsPath === undefined ? {} : { udsPath }),
    },
    endpoint: buildEndpoint(workload, facts),
    protocols: listProtocols(workload.ports),
    warnings: list.warnings,
  }));
}

function findUdsPath({ udsSocket, record }: Workload, { kubeletPodsDir }: NodeFacts, list: ProblemList) {
  if (udsSocket === undefined) return undefined;
  return resolveUdsSocket(udsSocket, { podsDir: kubeletPodsDir, uid: record.uid }, list);
}

// As the Go mesh: exactly these two words count, anything else is the node's default.
function readRedirectAll(record: PodRecord, facts: NodeFacts): boolean {
  const text = record.annotations[ANNOTATION_REDIRECT_ALL];
  return text === 'true' || (text !== 'false' && facts.redirectAllDefault);
}

function buildEndpoint(workload: Workload, facts: NodeFacts): Endpoint | undefined {
  const { record, ports } = workload;
  const [ip] = workload.ips;
  if (ip === undefined) return undefined;
  return {
    ip: ip.text,
    clusterName: facts.clusterName,
    port: ports.primary,
    ports: ports.served.map(({ port }) => port),
    portProtocols: typedPorts(ports),
    weight: workload.weight,
    locality: { region: facts.region, zone: facts.zone },
    metadata: workload.metadata,
    containerId: record.containerId,
    netnsPath: record.networkNamespace,
    namespace: record.namespace,
    podName: record.name,
    nodeName: facts.nodeName,
    nodeIp: facts.hostIp,
    health: 'healthy',
    healthCheckMode: workload.healthCheckMode,
  };
}

function typedPorts(ports: WorkloadPorts): ReadonlyMap<number, Protocol> {
  return new Map(ports.served.map(({ port, protocol }) => [port, protocol]));
}
