// The worked example as snapshot input: pods shop-0 and db-0, two clients (one of each capture mode), services shop and db.
import { createHash } from 'node:crypto';
import type { JsonObject } from '@bufbuild/protobuf';
import { parseWorkloadPorts } from '../../src/mesh/port-protocols.ts';
import { formatResource } from '../../src/xds/format-resource.ts';
import type { NodePod, NodeSettings, SnapshotInput } from '../../src/xds/input.ts';
import type { ResourceKind, Snapshot } from '../../src/xds/resource.ts';
import { exampleServices } from './services.ts';

export const EXAMPLE_NODE: NodeSettings = {
  meshDomain: 'aether.internal',
  trustDomain: 'aether.internal',
  identity: 'mtls',
};

/** Ports as the annotations write them; `redirectAll` defaults to true. */
export interface PodSpec {
  readonly port: string;
  readonly ports?: string;
  readonly protocol?: string;
  readonly redirectAll?: boolean;
  readonly netnsPath?: string;
}

/** A pod `<ns>_<name>` whose service account is `account`. */
export function makePod(name: string, account: string, spec: PodSpec): NodePod {
  const parsed = parseWorkloadPorts({
    'endpoint.aether.io/port': spec.port,
    ...(spec.ports === undefined ? {} : { 'endpoint.aether.io/ports': spec.ports }),
    ...(spec.protocol === undefined ? {} : { 'endpoint.aether.io/protocol': spec.protocol }),
  });
  if (parsed.kind === 'problems') throw new TypeError(JSON.stringify(parsed.problems));
  return {
    resourceName: `demo_${name}`,
    netnsPath: spec.netnsPath ?? `/run/aether/netns/${name}`,
    identity: `spiffe://aether.internal/ns/demo/sa/${account}`,
    ports: parsed.value,
    redirectAll: spec.redirectAll ?? true,
  };
}

/** Facts of the worked example; every call gives new objects. */
export function exampleInput(changes: Partial<SnapshotInput> = {}): SnapshotInput {
  const { db, idle, shop, web } = exampleServices();
  return {
    node: EXAMPLE_NODE,
    pods: [
      makePod('client-0', 'client', { port: '8080' }),
      makePod('db-0', 'db', { port: '5432', protocol: 'tcp', redirectAll: false }),
      makePod('shop-0', 'shop', { port: '8080', ports: '8080,9090=h2,9000=tcp,5432=tcp' }),
    ],
    services: [db, idle, shop, web],
    certificates: [],
    trustBundlePem: 'the trust bundle',
    ...changes,
  };
}

/** Names of a kind, in the order of the snapshot. */
export function namesOf(snapshot: Snapshot, kind: ResourceKind): readonly string[] {
  return [...snapshot.resources[kind].keys()];
}

/** The resource as JSON, to look into; throws when it is absent. */
export function jsonOf(snapshot: Snapshot, kind: ResourceKind, name: string): JsonObject {
  const resource = snapshot.resources[kind].get(name);
  if (resource === undefined) throw new Error(`no ${kind} "${name}" in ${namesOf(snapshot, kind).join(', ')}`);
  return formatResource(resource) as JsonObject; // every resource is a message, so an object
}

/** As the agent hashes. */
export function hash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}
