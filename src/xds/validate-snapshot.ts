// What must hold of a snapshot before it is published. Envoy itself would refuse a whole listener, wait for what never
// comes, or not notice at all.
import type { IpAddress } from '../core/ip.ts';
import { type Problem, ProblemList } from '../core/problems.ts';
import { TCP_MESH_PORT } from '../mesh/constants.ts';
import { tcpClusterName } from '../mesh/names.ts';
import type { Resource, Snapshot } from './resource.ts';
import { clusterFacts, listenerFacts, routesFacts } from './resource-facts.ts';

/** All problems, each with the resource as its path (`cluster tcp:10.96.0.50:9000`); empty: fit to publish. */
export function validateSnapshot(snapshot: Snapshot): readonly Problem[] {
  const list = new ProblemList();
  for (const conflict of snapshot.conflicts ?? []) list.add(conflict, 'is built twice: two owners of one name');
  checkClusters(snapshot, list);
  checkListeners(snapshot, list);
  checkRoutes(snapshot, list);
  checkSets(snapshot, list);
  return list.problems;
}

const isTcp = (cluster: string): boolean => cluster.startsWith('tcp:');

function checkClusters({ resources }: Snapshot, list: ProblemList): void {
  const owners = new Map<string, string>();
  for (const cluster of resources.cluster.values()) {
    const { edsName, pins } = clusterFacts(cluster);
    const path = pathOf(cluster);
    if (pins?.length === 0) list.add(path, 'is TLS without a pinned server identity: any workload could answer');
    if (pins === undefined && isTcp(cluster.name)) list.add(path, 'is raw TCP without TLS');
    if (edsName === undefined) continue;
    if (!resources.endpoints.has(edsName)) list.add(path, `waits for endpoints "${edsName}", which are not there`);
    const owner = owners.get(edsName);
    if (owner === undefined) owners.set(edsName, cluster.name);
    else if (isTcp(owner) !== isTcp(cluster.name)) {
      list.add(path, `shares endpoints "${edsName}" with "${owner}", which is of the other protocol`);
    }
  }
}

function checkListeners({ resources }: Snapshot, list: ProblemList): void {
  const taken = new Map<string, string>();
  for (const listener of resources.listener.values()) {
    const facts = listenerFacts(listener);
    const path = pathOf(listener);
    for (const address of facts.addresses) {
      const other = taken.get(address);
      if (other === undefined) taken.set(address, listener.name);
      else list.add(path, `listens on "${address}", as "${other}" does`);
    }
    reportTwice(facts.chains, 'chain', { path, list });
    reportTwice(facts.serverNames, 'server name', { path, list });
    reportMissing(facts.chosenChains, new Set(facts.chains), { path, list, what: 'chain' });
    reportMissing(facts.clusters, resources.cluster, { path, list, what: 'cluster' });
    reportMissing(facts.routes, resources.routes, { path, list, what: 'route table' });
  }
}

function checkRoutes({ resources }: Snapshot, list: ProblemList): void {
  for (const table of resources.routes.values()) {
    const facts = routesFacts(table);
    const path = pathOf(table);
    reportTwice(facts.hosts, 'virtual host', { path, list });
    reportTwice(facts.domains, 'domain', { path, list });
    reportMissing(facts.clusters, resources.cluster, { path, list, what: 'cluster' });
    for (const domain of facts.domains) {
      if (domain.endsWith(`:${TCP_MESH_PORT}`)) list.add(path, `domain "${domain}" spells the TCP mesh port as HTTP`);
    }
  }
}

function checkSets({ resources, meshSets }: Snapshot, list: ProblemList): void {
  const check = (address: IpAddress, port: number, set: string): void => {
    const cluster = tcpClusterName(address.text, port);
    if (!resources.cluster.has(cluster)) list.add(`set ${set}`, `holds ${address.text}, but there is no "${cluster}"`);
  };
  for (const { address, port } of meshSets.tcp) check(address, port, 'mesh_tcp');
  for (const address of meshSets.shim) check(address, TCP_MESH_PORT, 'mesh_shim');
}

interface Report {
  readonly path: string;
  readonly list: ProblemList;
}

function reportTwice(names: readonly string[], what: string, { path, list }: Report): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) list.add(path, `has the ${what} "${name}" twice`);
    seen.add(name);
  }
}

interface Known {
  has(name: string): boolean;
}

function reportMissing(names: readonly string[], known: Known, report: Report & { readonly what: string }): void {
  for (const name of new Set(names)) {
    if (!known.has(name)) report.list.add(report.path, `names the ${report.what} "${name}", which is not there`);
  }
}

function pathOf({ kind, name }: Resource): string {
  return `${kind} ${name}`;
}
