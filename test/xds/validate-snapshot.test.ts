// A good snapshot with one thing spoilt at a time: each fault is found, at its resource. And what all pods need is no pod's
// fault.
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import t from 'tap';
import { type Cluster, ClusterSchema } from '../../src/gen/envoy/config/cluster/v3/cluster_pb.js';
import { type Listener, ListenerSchema } from '../../src/gen/envoy/config/listener/v3/listener_pb.js';
import { VirtualHostSchema } from '../../src/gen/envoy/config/route/v3/route_components_pb.js';
import { UpstreamTlsContextSchema } from '../../src/gen/envoy/extensions/transport_sockets/tls/v3/tls_pb.js';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { ResourceKind, Snapshot } from '../../src/xds/resource.ts';
import { validateSnapshot } from '../../src/xds/validate-snapshot.ts';
import { makeIp } from '../support/services.ts';
import { exampleInput, hash } from '../support/xds-example.ts';

const good = buildSnapshot(exampleInput(), { hash });

/** The snapshot with one resource replaced; without bytes it is gone. */
function replace(kind: ResourceKind, name: string, bytes?: Uint8Array): Snapshot {
  const resources = new Map(good.resources[kind]);
  if (bytes === undefined) resources.delete(name);
  else resources.set(name, { kind, name, version: 'mutated', bytes });
  return { ...good, resources: { ...good.resources, [kind]: resources } };
}

function bytesOf(kind: ResourceKind, name: string): Uint8Array {
  const resource = good.resources[kind].get(name);
  if (resource === undefined) throw new Error(`no ${kind} "${name}"`);
  return resource.bytes;
}

function mutateListener(name: string, mutate: (listener: Listener) => void): Snapshot {
  const listener = fromBinary(ListenerSchema, bytesOf('listener', name));
  mutate(listener);
  return replace('listener', name, toBinary(ListenerSchema, listener));
}

function mutateCluster(name: string, mutate: (cluster: Cluster) => void): Snapshot {
  const cluster = fromBinary(ClusterSchema, bytesOf('cluster', name));
  mutate(cluster);
  return replace('cluster', name, toBinary(ClusterSchema, cluster));
}

function addDomain(name: string, domain: string): Snapshot {
  const host = fromBinary(VirtualHostSchema, bytesOf('host', name));
  host.domains.push(domain);
  return replace('host', name, toBinary(VirtualHostSchema, host));
}

function at<T>(list: readonly T[], index: number): T {
  const item = list[index];
  if (item === undefined) throw new RangeError(`nothing at ${index}`);
  return item;
}

t.test('validateSnapshot() finds nothing wrong with what buildSnapshot makes', (t) => {
  t.same(validateSnapshot(good), []);
  t.end();
});

const CASES: readonly (readonly [string, () => Snapshot, string, RegExp])[] = [
  [
    'a name that was built twice',
    () => ({ ...good, conflicts: ['cluster tcp:10.96.0.50:9000'] }),
    'cluster tcp:10.96.0.50:9000',
    /two owners/,
  ],
  [
    'an EDS cluster without assignment',
    () => replace('endpoints', 'demo/shop'),
    'cluster shop.demo.aether.internal',
    /waits for endpoints "demo\/shop"/,
  ],
  [
    'an assignment shared by HTTP and TCP',
    () =>
      mutateCluster('tcp:10.96.0.50:9000', (cluster) => {
        if (cluster.edsClusterConfig) cluster.edsClusterConfig.serviceName = 'demo/shop';
      }),
    'cluster tcp:10.96.0.50:9000',
    /of the other protocol/,
  ],
  [
    'a TLS cluster without pin',
    () =>
      mutateCluster('tcp:10.96.0.50:9000', (cluster) => {
        const bare = anyPack(UpstreamTlsContextSchema, create(UpstreamTlsContextSchema, { sni: '9000' }));
        if (cluster.transportSocket) cluster.transportSocket.configType = { case: 'typedConfig', value: bare };
      }),
    'cluster tcp:10.96.0.50:9000',
    /without a pinned server identity/,
  ],
  [
    'raw TCP in clear text',
    () =>
      mutateCluster('tcp:10.96.0.50:9000', (cluster) => {
        delete cluster.transportSocket;
      }),
    'cluster tcp:10.96.0.50:9000',
    /raw TCP without TLS/,
  ],
  [
    'a set element without its cluster',
    () => replace('cluster', 'tcp:10.96.0.50:9000'),
    'set mesh_tcp',
    /there is no "tcp:10\.96\.0\.50:9000"/,
  ],
  [
    'a shim without the default TCP cluster',
    () => ({ ...good, meshSets: { ...good.meshSets, tcp: [], shim: [makeIp('10.96.0.51')] } }),
    'set mesh_shim',
    /there is no "tcp:10\.96\.0\.51:18082"/,
  ],
  [
    'a chain to a cluster that is not there',
    () => replace('cluster', 'app_demo_shop-0_9000'),
    'listener inbound_demo_shop-0',
    /cluster "app_demo_shop-0_9000"/,
  ],
  [
    'an inline route to a cluster that is not there',
    () => replace('cluster', 'app_demo_shop-0_9090'),
    'listener inbound_demo_shop-0',
    /cluster "app_demo_shop-0_9090"/,
  ],
  [
    'a passthrough that is named only by header',
    () => replace('cluster', 'passthrough_demo_db-0'),
    'listener capture_demo_db-0',
    /cluster "passthrough_demo_db-0"/,
  ],
  [
    'a default chain to a cluster that is not there',
    () => replace('cluster', 'blackhole'),
    'listener capture_shim_demo_db-0',
    /cluster "blackhole"/,
  ],
  [
    'a listener whose route table is not there',
    () => replace('routes', 'cap_http'),
    'listener capture_demo_db-0',
    /route table "cap_http"/,
  ],
  [
    'a matcher that names no chain',
    () =>
      mutateListener('capture_demo_db-0', (listener) => {
        listener.filterChains = listener.filterChains.filter((chain) => chain.name !== 'capture');
      }),
    'listener capture_demo_db-0',
    /names the chain "capture", which is not there/,
  ],
  [
    'one server name on two chains',
    () =>
      mutateListener('inbound_demo_shop-0', (listener) => {
        const match = at(listener.filterChains, 2).filterChainMatch;
        match?.serverNames.push('9090');
      }),
    'listener inbound_demo_shop-0',
    /the server name "9090" twice/,
  ],
  [
    'two chains of one name',
    () =>
      mutateListener('inbound_demo_shop-0', (listener) => {
        at(listener.filterChains, 1).name = at(listener.filterChains, 0).name;
      }),
    'listener inbound_demo_shop-0',
    /the chain "in_tcp_demo_shop-0" twice/,
  ],
  [
    'two listeners at one address',
    () =>
      mutateListener('capture_demo_shop-0', (listener) => {
        const second = at(listener.additionalAddresses, 0).address?.address;
        if (second?.case === 'socketAddress') second.value.portSpecifier = { case: 'portValue', value: 18002 };
      }),
    'listener capture_tcp_demo_shop-0',
    /listens on "\/run\/aether\/netns\/shop-0 ::1:18002", as listener capture_demo_shop-0 does/,
  ],
  [
    'the TCP mesh port as a domain',
    () => addDomain('cap_http/db.demo.aether.internal', 'db.demo.aether.internal:18082'),
    'host cap_http/db.demo.aether.internal',
    /spells the TCP mesh port as HTTP/,
  ],
  [
    'one domain on two virtual hosts',
    () => addDomain('cap_http/db.demo.aether.internal', 'shop.demo.aether.internal'),
    'host cap_http/shop.demo.aether.internal',
    /the domain "shop\.demo\.aether\.internal", as host cap_http\/db\.demo\.aether\.internal has/,
  ],
  [
    "a domain of a table's own",
    () => addDomain('out_http/shop.demo.aether.internal', '*'),
    'host out_http/shop.demo.aether.internal',
    /the domain "\*", as routes out_http has/,
  ],
  [
    'a host of a table that is not there',
    () => replace('routes', 'out_http'),
    'host out_http/shop.demo.aether.internal',
    /route table "out_http"/,
  ],
  [
    'a route to a cluster that is not there',
    () => replace('cluster', 'web.demo.aether.internal'),
    'host cap_http/web.demo.aether.internal',
    /cluster "web\.demo\.aether\.internal"/,
  ],
];

for (const [title, mutate, path, message] of CASES) {
  t.test(`validateSnapshot() finds ${title}`, (t) => {
    const problems = validateSnapshot(mutate());
    const found = problems.find((problem) => problem.path === path && message.test(problem.message));
    t.ok(found, JSON.stringify(problems));
    t.end();
  });
}

for (const [title, snapshot] of [
  ['the blackhole', replace('cluster', 'blackhole')],
  ['a route table', replace('routes', 'cap_http')],
] as const) {
  t.test(`validateSnapshot() blames no pod when ${title} is lost: all of them would go down for it`, (t) => {
    const problems = validateSnapshot(snapshot);
    t.ok(problems.length > 0);
    for (const { path, subjects } of problems) t.same(subjects, [], path);
    t.end();
  });
}
