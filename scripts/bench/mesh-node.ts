// The agent in this process, with as many services and pods as a question needs, and all that it sends to Envoy noted.
import { join } from 'node:path';
import { DELTA_METHOD } from '../../src/adapters/grpc/ads-messages.ts';
import { systemClock } from '../../src/adapters/host/clock.ts';
import { openEmbeddedAuthority } from '../../src/adapters/identity/embedded-authority.ts';
import { FileRecordStore } from '../../src/adapters/store/record-store.ts';
import { FileRemovalQueue } from '../../src/adapters/store/removal-queue.ts';
import { FileVipStore } from '../../src/adapters/store/vip-store.ts';
import type { AdsResponse } from '../../src/agent/ads-protocol.ts';
import type { MeshTables } from '../../src/agent/deps.ts';
import { NodeAgent } from '../../src/agent/node-agent.ts';
import { PodLife } from '../../src/agent/pod-life.ts';
import { type AdsStream, SnapshotCache } from '../../src/agent/snapshot-cache.ts';
import { type ContainerId, parseContainerId } from '../../src/core/identifiers.ts';
import { parseIpRange } from '../../src/core/ip.ts';
import type { Log } from '../../src/core/log.ts';
import type { Endpoint, Health } from '../../src/mesh/endpoint.ts';
import type { Protocol } from '../../src/mesh/port-protocols.ts';
import type { Namespaces, PodRequest } from '../../src/plugin/deps.ts';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';

const DOMAIN = 'aether.internal';
const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => SILENT };

/** The cache, with every response that goes to Envoy. */
class NotingCache extends SnapshotCache {
  #sent: AdsResponse[] = [];

  override openStream(send: (response: AdsResponse) => void): AdsStream {
    return super.openStream((response) => {
      this.#sent.push(response);
      send(response);
    });
  }

  /** What was sent since the last call. */
  take(): readonly AdsResponse[] {
    const sent = this.#sent;
    this.#sent = [];
    return sent;
  }
}

export interface MeshNode extends AsyncDisposable {
  readonly agent: NodeAgent;
  readonly life: PodLife;
  readonly registry: EmbeddedRegistry;
  readonly cache: NotingCache;
  /** Everything that was asked of the agent has been done. */
  settle(): Promise<void>;
}

export interface MeshNodeOptions {
  /** Empty, for the agent's files. */
  readonly dir: string;
  readonly tables: MeshTables;
  readonly namespaces: Namespaces;
}

/** Not started yet: services that are registered before are there from its first snapshot on. */
export async function openMeshNode({ dir, tables, namespaces }: MeshNodeOptions): Promise<MeshNode> {
  const registry = new EmbeddedRegistry();
  const authority = await openEmbeddedAuthority({
    ...{ caDir: join(dir, 'ca'), trustDomain: DOMAIN, clock: systemClock, lifetimeMs: 24 * 60 * 60 * 1000 },
  });
  const cache: NotingCache = new NotingCache({
    ...{ clock: systemClock, log: SILENT },
    isPending: (kind, name) => agent.isPending(kind, name),
  });
  const agent: NodeAgent = new NodeAgent(
    {
      records: new FileRecordStore(join(dir, 'registry')),
      vips: new FileVipStore(join(dir, 'vips.json')),
      removals: new FileRemovalQueue(join(dir, 'delete-queue')),
      ...{ registry, authority, namespaces, tables, publisher: cache, clock: systemClock, log: SILENT },
    },
    {
      facts: {
        ...{ nodeName: 'bench', clusterName: 'bench', region: '', zone: '', hostIp: '192.0.2.10' },
        ...{ trustDomain: DOMAIN, redirectAllDefault: true },
      },
      node: { meshDomain: DOMAIN, trustDomain: DOMAIN, identity: 'mtls' },
      vipRanges: ['10.254.0.0/16', 'fd0a:e7e0::/112'].flatMap((text) => parseIpRange(text) ?? []),
      ...{ pins: new Map(), pinDir: join(dir, 'netns') },
    },
  );
  const settle = async (): Promise<void> => {
    await new Promise(setImmediate);
    await agent.runner.idle();
  };
  return {
    ...{ agent, life: new PodLife(agent), registry, cache, settle },
    [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose](),
  };
}

/** Bytes on the wire. */
export function wireBytes(responses: readonly AdsResponse[]): number {
  return responses.reduce((sum, response) => sum + DELTA_METHOD.responseSerialize(response).length, 0);
}

/** `{ 8080: 'http', 9000: 'tcp' }`; the first is the primary. */
export type Ports = Readonly<Record<number, Protocol>>;

export const FOUR_PORTS: Ports = { 8080: 'http', 9090: 'http', 9000: 'tcp', 5432: 'tcp' };

export interface EndpointSpec {
  readonly service: string;
  readonly ip: string;
  readonly ports: Ports;
  /** Default healthy. */
  readonly health?: Health;
}

/** As an agent of another node registers a pod: under each of its protocols. */
export async function register(registry: EmbeddedRegistry, spec: EndpointSpec): Promise<void> {
  const { service, ip, ports, health = 'healthy' } = spec;
  const protocols = new Map(Object.entries(ports).map(([port, protocol]) => [Number(port), protocol] as const));
  const [primary = 0] = protocols.keys();
  const endpoint: Endpoint = {
    ...{ ip, clusterName: 'bench', nodeName: 'other', locality: { region: '', zone: '' } },
    ...{ weight: 1024, namespace: 'demo', podName: `${service}-${ip}`, health, healthCheckMode: 'eds' },
    ...{ port: primary, ports: [...protocols.keys()], portProtocols: protocols, metadata: {} },
    ...{ containerId: '', netnsPath: '', nodeIp: '192.0.2.11' },
  };
  for (const protocol of new Set(protocols.values())) {
    await registry.registerEndpoint({ namespace: 'demo', serviceAccount: service }, protocol, endpoint);
  }
}

/** `svc-0`, `svc-1`, … each with `endpoints` pods. */
export async function registerMany(
  registry: EmbeddedRegistry,
  { services, endpoints, ports }: { readonly services: number; readonly endpoints: number; readonly ports: Ports },
): Promise<void> {
  for (let s = 0; s < services; s++) {
    for (let e = 0; e < endpoints; e++) await register(registry, { service: `svc-${s}`, ip: ipOf(s, e), ports });
  }
}

/** Of another node: nobody is there. */
export function ipOf(service: number, endpoint: number): string {
  return `10.${100 + (service >> 8)}.${service & 255}.${1 + endpoint}`;
}

/** An ADD of a managed pod `demo/<name>` of service `account`. */
export function podRequest(options: {
  readonly name: string;
  readonly account: string;
  readonly netns: string;
  readonly ip: string;
  readonly ports?: string;
}): PodRequest {
  const { name, account, netns, ip, ports = '8080' } = options;
  const containerId = parseContainerId(`c-${name}`);
  if (typeof containerId !== 'string') throw new TypeError(containerId.problem);
  return {
    ...{ name, namespace: 'demo', containerId: containerId as ContainerId, networkNamespace: netns, ips: [ip] },
    annotations: {
      ...{ 'aether.io/managed': 'true', 'aether.io/service-account': account },
      ...{ 'endpoint.aether.io/ports': ports, 'capture.aether.io/redirect-all': 'true' },
    },
    uid: `uid-${name}`,
  };
}
