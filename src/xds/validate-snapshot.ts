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

  addAll(resource: Resource, faults: Iterable<Fault>): void {
    const path = pathOf(resource);
    for (const { message, subjects = [path] } of faults) this.add(path, message, ...subjects);
  }
}

/** What is wrong with a resource whatever else there is twice. Without `subjects` it is the resource that is at fault. */
interface Fault {
  readonly message: string;
  readonly subjects?: readonly Subject[];
}

/** No pod and no service. */
const NOBODY = { subjects: [] };

/** Whether nothing is wrong with the resource itself, and all that it names is there. */
export function isSound(resource: Resource, snapshot: Snapshot): boolean {
  return listFaults(resource, snapshot).next().done === true;
}

function* listFaults(resource: Resource, snapshot: Snapshot): Generator<Fault> {
  if (resource.kind === 'cluster') yield* clusterFaults(resource, snapshot);
  else if (resource.kind === 'listener') yield* listenerFaults(resource, snapshot);
  else if (resource.kind === 'routes' || resource.kind === 'host') yield* routeFaults(resource, snapshot);
}

function* clusterFaults(cluster: Resource, { resources }: Snapshot): Generator<Fault> {
  const { edsName, pins } = clusterFacts(cluster);
  if (pins?.length === 0) yield { message: 'is TLS without a pinned server identity: any workload could answer' };
  if (pins === undefined && isTcpClusterName(cluster.name)) yield { message: 'is raw TCP without TLS' };
  if (edsName !== undefined && !resources.endpoints.has(edsName)) {
    yield { message: `waits for endpoints "${edsName}", which are not there` };
  }
}

function* checkClusters(snapshot: Snapshot, list: Findings): Steps<void> {
  const owners = new Map<string, string>();
  for (const cluster of snapshot.resources.cluster.values()) {
    yield;
    list.addAll(cluster, listFaults(cluster, snapshot));
    const { edsName } = clusterFacts(cluster);
    if (edsName === undefined) continue;
    const owner = owners.get(edsName);
    if (owner === undefined) owners.set(edsName, cluster.name);
    else if (isTcpClusterName(owner) !== isTcpClusterName(cluster.name)) {
      const message = `shares endpoints "${edsName}" with "${owner}", which is of the other protocol`;
      list.add(pathOf(cluster), message, `cluster ${owner}`, pathOf(cluster));
    }
  }
}

function* listenerFaults(listener: Resource, { resources }: Snapshot): Generator<Fault> {
  const facts = listenerFacts(listener);
  for (const name of listTwice(facts.chains)) yield { message: `has the chain "${name}" twice` };
  for (const name of facts.portlessChains) {
    const service = portlessService(name);
    if (!resources.endpoints.has(service)) continue;
    // Without a port the chain would take HTTP too, of which there is some.
    const message = `takes any port of ${service} as TCP by "${name}", but it has HTTP`;
    yield { message, subjects: [`endpoints ${service}`] };
  }
  for (const name of listTwice(facts.serverNames)) yield { message: `has the server name "${name}" twice` };
  for (const name of listMissing(facts.chosenChains, new Set(facts.chains))) yield { message: absent('chain', name) };
  for (const name of listMissing(facts.clusters, resources.cluster)) {
    yield { message: absent('cluster', name), ...(name === BLACKHOLE_CLUSTER ? NOBODY : {}) };
  }
  for (const name of listMissing(facts.routes, resources.routes)) {
    yield { message: absent('route table', name), ...NOBODY };
  }
}

function* checkListeners(snapshot: Snapshot, list: Findings): Steps<void> {
  const taken = new Map<string, Subject>();
  for (const listener of snapshot.resources.listener.values()) {
    yield;
    const path = pathOf(listener);
    for (const address of listenerFacts(listener).addresses) {
      const other = taken.get(address);
      if (other === undefined) taken.set(address, path);
      else list.add(path, `listens on "${address}", as ${other} does`, other, path);
    }
    list.addAll(listener, listFaults(listener, snapshot));
  }
}

// `demo/db` of `cap_tcp_anyport_demo/db` and `cap_tcp_demo/db`: also the name of its HTTP endpoints.
function portlessService(chain: string): string {
  return [`${CHAIN_ANYPORT}_`, `${CHAIN_TCP}_`].reduce(
    (name, prefix) => (name.startsWith(prefix) ? name.slice(prefix.length) : name),
    chain,
  );
}

function* routeFaults(host: Resource, { resources, fetchable }: Snapshot): Generator<Fault> {
  const table = tableOf(host);
  if (!resources.routes.has(table)) yield { message: absent('route table', table), ...NOBODY };
  const { domains, clusters } = routeFacts(host);
  for (const name of domains) {
    if (name.endsWith(TCP_SPELLING)) yield { message: `domain "${name}" spells the TCP mesh port as HTTP` };
  }
  for (const name of clusters) {
    if (!resources.cluster.has(name) && !fetchable?.has(name)) yield { message: absent('cluster', name) };
  }
}

function* checkRoutes(snapshot: Snapshot, list: Findings): Steps<void> {
  const { routes, host: hosts } = snapshot.resources;
  const tables = new Map([...routes.keys()].map((name) => [name, new Map<string, Resource>()]));
  for (const host of [...routes.values(), ...hosts.values()]) {
    yield;
    list.addAll(host, listFaults(host, snapshot));
    const taken = tables.get(tableOf(host));
    for (const name of routeFacts(host).domains) {
      const other = taken?.get(name);
      if (other === undefined) taken?.set(name, host);
      else list.add(pathOf(host), `has the domain "${name}", as ${pathOf(other)} has`, pathOf(other), pathOf(host));
    }
  }
}

/** The route table that a host belongs to; a table's own hosts are the table's. */
export function tableOf({ kind, name }: Resource): string {
  return kind === 'host' ? tableOfHost(name) : name;
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
  const missing = names.filter((name) => !known.has(name));
  return missing.length < 2 ? missing : [...new Set(missing)];
}

function pathOf({ kind, name }: Resource): Subject {
  return `${kind} ${name}`;
}
