// What must hold of a snapshot before it is published. Envoy itself would refuse a whole listener, wait for what never
// comes, or not notice at all.
import type { IpAddress } from '../core/ip.ts';
import type { Problem } from '../core/problems.ts';
import { runSteps, type Steps } from '../core/steps.ts';
import { TCP_MESH_PORT } from '../mesh/constants.ts';
import {
  BLACKHOLE_CLUSTER,
  CHAIN_ANYPORT,
  CHAIN_TCP,
  isTcpClusterName,
  tableOfHost,
  tcpClusterName,
} from '../mesh/names.ts';
import type { Resource, ResourceKind, Snapshot } from './resource.ts';
import { clusterFacts, listenerFacts, routeFacts } from './resource-facts.ts';

/** What is at fault: a resource (`cluster tcp:10.96.0.50:9000`), an address (`address 10.96.0.50`). */
export type Subject = `${ResourceKind | 'address'} ${string}`;

export interface SnapshotProblem extends Problem {
  /** Empty: no pod and no service is to blame, the node's own resources are not what they should be. */
  readonly subjects: readonly Subject[];
}

/** All problems, each with the resource as its path (`cluster tcp:10.96.0.50:9000`); empty: fit to publish. */
export function validateSnapshot(snapshot: Snapshot): readonly SnapshotProblem[] {
  return runSteps(validateSnapshotInSteps(snapshot));
}

/** The same, a resource at a time. */
export function* validateSnapshotInSteps(snapshot: Snapshot): Steps<readonly SnapshotProblem[]> {
  const list = new Findings();
  for (const conflict of snapshot.conflicts ?? []) {
    list.add(conflict, 'is built twice: two owners of one name', conflict);
  }
  yield* checkClusters(snapshot, list);
  yield* checkListeners(snapshot, list);
  yield* checkRoutes(snapshot, list);
  yield* checkSets(snapshot, list);
  return list.problems;
}

class Findings {
  readonly problems: SnapshotProblem[] = [];

  add(path: string, message: string, ...subjects: readonly Subject[]): void {
    this.problems.push({ path, message, subjects });
  }
}

function* checkClusters({ resources }: Snapshot, list: Findings): Steps<void> {
  const owners = new Map<string, string>();
  for (const cluster of resources.cluster.values()) {
    yield;
    const { edsName, pins } = clusterFacts(cluster);
    const add = (message: string): void => list.add(pathOf(cluster), message, pathOf(cluster));
    if (pins?.length === 0) add('is TLS without a pinned server identity: any workload could answer');
    if (pins === undefined && isTcpClusterName(cluster.name)) add('is raw TCP without TLS');
    if (edsName === undefined) continue;
    if (!resources.endpoints.has(edsName)) add(`waits for endpoints "${edsName}", which are not there`);
    const owner = owners.get(edsName);
    if (owner === undefined) owners.set(edsName, cluster.name);
    else if (isTcpClusterName(owner) !== isTcpClusterName(cluster.name)) {
      const message = `shares endpoints "${edsName}" with "${owner}", which is of the other protocol`;
      list.add(pathOf(cluster), message, `cluster ${owner}`, pathOf(cluster));
    }
  }
}

function* checkListeners({ resources }: Snapshot, list: Findings): Steps<void> {
  const taken = new Map<string, Subject>();
  for (const listener of resources.listener.values()) {
    yield;
    const facts = listenerFacts(listener);
    const path = pathOf(listener);
    const add = (message: string): void => list.add(path, message, path);
    for (const address of facts.addresses) {
      const other = taken.get(address);
      if (other === undefined) taken.set(address, path);
      else list.add(path, `listens on "${address}", as ${other} does`, other, path);
    }
    for (const name of listTwice(facts.chains)) add(`has the chain "${name}" twice`);
    for (const name of facts.portlessChains) {
      const service = portlessService(name);
      if (!resources.endpoints.has(service)) continue;
      // Without a port the chain would take HTTP too, of which there is some.
      list.add(path, `takes any port of ${service} as TCP by "${name}", but it has HTTP`, `endpoints ${service}`);
    }
    for (const name of listTwice(facts.serverNames)) add(`has the server name "${name}" twice`);
    for (const name of listMissing(facts.chosenChains, new Set(facts.chains))) add(absent('chain', name));
    for (const name of listMissing(facts.clusters, resources.cluster)) {
      if (name === BLACKHOLE_CLUSTER) list.add(path, absent('cluster', name));
      else add(absent('cluster', name));
    }
    for (const name of listMissing(facts.routes, resources.routes)) list.add(path, absent('route table', name));
  }
}

// `demo/db` of `cap_tcp_anyport_demo/db` and `cap_tcp_demo/db`: also the name of its HTTP endpoints.
function portlessService(chain: string): string {
  return [`${CHAIN_ANYPORT}_`, `${CHAIN_TCP}_`].reduce(
    (name, prefix) => (name.startsWith(prefix) ? name.slice(prefix.length) : name),
    chain,
  );
}

function* checkRoutes({ resources, fetchable }: Snapshot, list: Findings): Steps<void> {
  const tables = new Map([...resources.routes.keys()].map((name) => [name, new Map<string, Resource>()]));
  for (const host of [...resources.routes.values(), ...resources.host.values()]) {
    yield;
    const table = host.kind === 'host' ? tableOfHost(host.name) : host.name;
    const add = (message: string): void => list.add(pathOf(host), message, pathOf(host));
    const taken = tables.get(table);
    if (taken === undefined) list.add(pathOf(host), absent('route table', table));
    const { domains, clusters } = routeFacts(host);
    for (const name of domains) {
      if (name.endsWith(TCP_SPELLING)) add(`domain "${name}" spells the TCP mesh port as HTTP`);
      const other = taken?.get(name);
      if (other === undefined) taken?.set(name, host);
      else list.add(pathOf(host), `has the domain "${name}", as ${pathOf(other)} has`, pathOf(other), pathOf(host));
    }
    for (const name of clusters) {
      if (!resources.cluster.has(name) && !fetchable?.has(name)) add(absent('cluster', name));
    }
  }
}

const TCP_SPELLING = `:${TCP_MESH_PORT}`;

function* checkSets({ resources, meshSets }: Snapshot, list: Findings): Steps<void> {
  const check = ({ text }: IpAddress, port: number, set: string): void => {
    const cluster = tcpClusterName(text, port);
    if (resources.cluster.has(cluster)) return;
    list.add(`set ${set}`, `holds ${text}, but there is no "${cluster}"`, `address ${text}`);
  };
  for (const { address, port } of meshSets.tcp) {
    check(address, port, 'mesh_tcp');
    yield;
  }
  for (const address of meshSets.shim) check(address, TCP_MESH_PORT, 'mesh_shim');
}

function absent(what: string, name: string): string {
  return `names the ${what} "${name}", which is not there`;
}

function listTwice(names: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  return names.filter((name) => seen.has(name) || !seen.add(name));
}

interface Known {
  has(name: string): boolean;
}

function listMissing(names: readonly string[], known: Known): readonly string[] {
  return [...new Set(names)].filter((name) => !known.has(name));
}

function pathOf({ kind, name }: Resource): Subject {
  return `${kind} ${name}`;
}
