// What Envoy is told of an endpoint: the mesh port, health, weight, a priority by locality, and metadata in which a pod's
// author cannot pass for another pod.
import t from 'tap';
import type { Endpoint } from '../../src/mesh/endpoint.ts';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import type { NodeSettings } from '../../src/xds/input.ts';
import { makeView } from '../support/services.ts';
import { EXAMPLE_NODE, exampleInput, hash, jsonOf } from '../support/xds-example.ts';

/** The endpoints of `demo/web`, one entry a locality, as JSON. */
function endpointsOf(overrides: readonly Partial<Endpoint>[], node: Partial<NodeSettings> = {}) {
  const specs = overrides.map((override, index) => ({
    ip: `10.1.0.${9 - index}`,
    primary: 8080,
    ports: { 8080: 'http' } as const,
    overrides: override,
  }));
  const input = exampleInput({
    node: { ...EXAMPLE_NODE, ...node },
    services: [makeView('demo/web', ['10.96.0.51'], specs)],
  });
  const { endpoints } = jsonOf(buildSnapshot(input, { hash }), 'endpoints', 'demo/web');
  return endpoints as unknown as readonly LocalityJson[]; // as the message is defined
}

interface LocalityJson {
  readonly locality?: unknown;
  readonly priority?: number;
  readonly lb_endpoints: readonly [
    {
      readonly endpoint: {
        readonly address: { readonly socket_address: { readonly address: string; readonly port_value: number } };
      };
      readonly health_status: string;
      readonly load_balancing_weight: number;
      readonly metadata: { readonly filter_metadata: { readonly 'envoy.lb': Readonly<Record<string, string>> } };
    },
  ];
}

t.test('encodeLoadAssignments() sorts by address and sends to the mesh port', (t) => {
  const addresses = endpointsOf([{}, {}, {}]).map(({ lb_endpoints: [one] }) => one.endpoint.address.socket_address);
  t.same(addresses, [
    { address: '10.1.0.7', port_value: 18008 },
    { address: '10.1.0.8', port_value: 18008 },
    { address: '10.1.0.9', port_value: 18008 },
  ]);
  t.end();
});

const HEALTH = [
  ['unspecified', 'HEALTHY'],
  ['healthy', 'HEALTHY'],
  ['unhealthy', 'UNHEALTHY'],
  ['draining', 'DRAINING'],
] as const;
for (const [health, status] of HEALTH) {
  t.test(`encodeLoadAssignments() gives ${health} as ${status}`, (t) => {
    t.equal(endpointsOf([{ health }])[0]?.lb_endpoints[0].health_status, status);
    t.end();
  });
}

t.test('encodeLoadAssignments() passes the weight on, at least 1', (t) => {
  t.same(
    endpointsOf([{ weight: 0 }, { weight: 7 }]).map(({ lb_endpoints: [one] }) => one.load_balancing_weight),
    [7, 1],
  );
  t.end();
});

t.test('encodeLoadAssignments() lets no author set what chooses endpoints', (t) => {
  const metadata = {
    ip: '10.9.9.9',
    pod: 'other',
    namespace: 'other',
    cluster: 'other',
    waypoint: 'true',
    version: '2',
  };
  const [endpoint] = endpointsOf([{ metadata, podName: 'web-0' }]);
  t.same(endpoint?.lb_endpoints[0].metadata.filter_metadata['envoy.lb'], {
    cluster: 'local',
    ip: '10.1.0.9',
    namespace: 'demo',
    pod: 'web-0',
    version: '2',
  });
  t.end();
});

const NEAR: NodeSettings['locality'] = { region: 'r1', zone: 'z1' };
const PRIORITIES: readonly (readonly [string, NodeSettings['locality'], Endpoint['locality'], number])[] = [
  ['the same zone', NEAR, { region: 'r1', zone: 'z1' }, 0],
  ['another zone', NEAR, { region: 'r1', zone: 'z2' }, 1],
  ['another region', NEAR, { region: 'r2', zone: 'z1' }, 2],
  ['an endpoint that does not know', NEAR, { region: '', zone: '' }, 0],
  ['a node that does not know its zone', { region: 'r1', zone: '' }, { region: 'r1', zone: 'z2' }, 0],
  ['a node that knows nothing', undefined, { region: 'r2', zone: 'z2' }, 0],
];
for (const [title, own, locality, priority] of PRIORITIES) {
  t.test(`encodeLoadAssignments() gives ${title} priority ${priority}`, (t) => {
    const [endpoint] = endpointsOf([{ locality }], own === undefined ? {} : { locality: own });
    t.equal(endpoint?.priority ?? 0, priority);
    t.same(endpoint?.locality, locality.zone === '' ? undefined : locality);
    t.end();
  });
}
