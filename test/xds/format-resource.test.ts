// Resources as Envoy's JSON: golden files, and the real Envoy in its validate mode, which is shown to refuse, too.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonValue } from '@bufbuild/protobuf';
import t from 'tap';
import { envoyPath } from '../../scripts/lab/places.ts';
import { tableOfHost } from '../../src/mesh/names.ts';
import { AGENT_CLUSTER, buildBootstrap } from '../../src/xds/bootstrap.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { formatResource } from '../../src/xds/format-resource.ts';
import type { SnapshotInput } from '../../src/xds/input.ts';
import type { ResourceKind, Snapshot } from '../../src/xds/resource.ts';
import { readGolden } from '../support/golden.ts';
import { exampleServices } from '../support/services.ts';
import { EXAMPLE_NODE, exampleInput, hash, jsonOf } from '../support/xds-example.ts';

const list = (snapshot: Snapshot, kind: ResourceKind): JsonValue[] =>
  [...snapshot.resources[kind].values()].map(formatResource);

/** A bootstrap that holds clusters and listeners itself, and the route tables inline with their hosts: Envoy validates all. */
function asBootstrap(snapshot: Snapshot, routes: 'by name' | 'inline'): JsonValue {
  const { node, static_resources } = buildBootstrap({ nodeName: 'node1', xdsSocket: '/run/aether/xds.sock' });
  const { clusters } = static_resources as { clusters: JsonValue[] };
  const tables = routes === 'inline' ? listTables(snapshot).map(tableListener) : [];
  return {
    node: node as JsonValue,
    dynamic_resources: {
      ads_config: {
        api_type: 'DELTA_GRPC',
        transport_api_version: 'V3',
        grpc_services: [{ envoy_grpc: { cluster_name: AGENT_CLUSTER } }],
      },
    },
    static_resources: {
      clusters: [...clusters, ...list(snapshot, 'cluster')],
      listeners: [...list(snapshot, 'listener'), ...tables],
    },
  };
}

function listTables({ resources }: Snapshot): JsonValue[] {
  return [...resources.routes.values()].map((table) => {
    const own = formatResource(table) as { virtual_hosts: JsonValue[] };
    const hosts = [...resources.host.values()].filter(({ name }) => tableOfHost(name) === table.name);
    return { ...own, virtual_hosts: [...hosts.map(formatResource), ...own.virtual_hosts] };
  });
}

function tableListener(table: JsonValue, index: number): JsonValue {
  const type = 'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager';
  const router = { '@type': 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router' };
  return {
    name: `table-${index}`,
    address: { socket_address: { address: '127.0.0.1', port_value: 10_000 + index } },
    filter_chains: [
      {
        filters: [
          {
            name: 'hcm',
            typed_config: {
              '@type': `type.googleapis.com/${type}`,
              stat_prefix: 'table',
              route_config: table,
              http_filters: [{ name: 'router', typed_config: router }],
            },
          },
        ],
      },
    ],
  };
}

function validate(t: Tap, bootstrap: JsonValue): void {
  const dir = mkdtempSync('/tmp/ae-golden-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, 'envoy.json');
  writeFileSync(file, JSON.stringify(bootstrap));
  // Throws, with Envoy's words, unless it takes the configuration.
  execFileSync(envoyPath(), ['--mode', 'validate', '-l', 'error', '-c', file], { stdio: ['ignore', 'pipe', 'pipe'] });
}

type Tap = { teardown(fn: () => unknown): unknown };

const { db, shop } = exampleServices();
const worked = buildSnapshot(exampleInput({ services: [db, shop] }), { hash });

t.test('formatResource() prints the worked example as Envoy reads it', (t) => {
  const printed = `${JSON.stringify(asBootstrap(worked, 'by name'), null, 2)}\n`;
  t.equal(printed, readGolden('xds/worked-example.json', printed));
  validate(t, JSON.parse(printed));
  t.end();
});

for (const kind of ['endpoints', 'routes', 'host', 'secret'] as const) {
  t.test(`formatResource() prints the worked example's ${kind}`, (t) => {
    const printed = `${JSON.stringify(list(worked, kind), null, 2)}\n`;
    t.equal(printed, readGolden(`xds/worked-example-${kind}.json`, printed));
    t.end();
  });
}

const VARIANTS: readonly (readonly [string, Partial<SnapshotInput>])[] = [
  ['with every example service', {}],
  ['without identity', { node: { ...EXAMPLE_NODE, identity: 'none' } }],
  ['on a node without IPv6', { node: { ...EXAMPLE_NODE, ipv6: false } }],
  ['without any service', { services: [] }],
  ['without any pod', { pods: [] }],
];
for (const [title, changes] of VARIANTS) {
  t.test(`Envoy takes a snapshot ${title}, its route tables too`, (t) => {
    validate(t, asBootstrap(buildSnapshot(exampleInput(changes), { hash }), 'inline'));
    t.end();
  });
}

t.test('Envoy refuses what is wrong: the check can fail', (t) => {
  const bootstrap = JSON.stringify(asBootstrap(worked, 'inline')).replace(
    '"request_headers_to_remove"',
    '"no_such_field"',
  );
  t.throws(() => validate(t, JSON.parse(bootstrap)), /no_such_field/);
  t.end();
});

t.test('formatResource() leaves private keys out', (t) => {
  const identity = 'spiffe://aether.internal/ns/demo/sa/shop';
  const certificates = [{ identity, certificateChainPem: 'the chain', privateKeyPem: 'the key' }];
  const snapshot = buildSnapshot(exampleInput({ certificates }), { hash });
  t.same(jsonOf(snapshot, 'secret', identity), {
    name: identity,
    tls_certificate: { certificate_chain: { inline_string: 'the chain' } },
  });
  t.end();
});
