// Where a pod's mesh port leads: chains by server name, for h2 and for the rest, and each demands a certificate of
// the trust domain.
import t from 'tap';
import { buildSnapshot } from '../../src/xds/build-snapshot.ts';
import { exampleInput, hash, jsonOf, makePod, type PodSpec } from '../support/xds-example.ts';

interface ChainJson {
  readonly name: string;
  readonly filter_chain_match?: {
    readonly server_names?: readonly string[];
    readonly application_protocols?: readonly string[];
  };
  readonly filters: readonly { readonly typed_config: Readonly<Record<string, unknown>> }[];
  readonly transport_socket: unknown;
}

/** `chain [match] -> cluster`, in order. */
function chainsOf(spec: PodSpec): readonly string[] {
  const snapshot = buildSnapshot(exampleInput({ pods: [makePod('p', 'sa', spec)] }), { hash });
  const { filter_chains } = jsonOf(snapshot, 'listener', 'inbound_demo_p');
  return (filter_chains as unknown as readonly ChainJson[]).map((chain) => {
    const { server_names = [], application_protocols = [] } = chain.filter_chain_match ?? {};
    const cluster = /"cluster":"([^"]+)"/.exec(JSON.stringify(chain.filters))?.[1];
    return `${chain.name} [${[...server_names, ...application_protocols].join()}] -> ${cluster}`;
  });
}

const CASES: readonly (readonly [string, PodSpec, readonly string[]])[] = [
  [
    'a mixed pod (worked example)',
    { port: '8080', ports: '8080,9090=h2,9000=tcp,5432=tcp' },
    [
      'in_tcp_demo_p [] -> app_demo_p_8080',
      'in_demo_p [h2] -> app_demo_p_8080',
      'in_tcp_demo_p_5432 [5432] -> app_demo_p_5432',
      'in_demo_p_8080 [8080] -> app_demo_p_8080',
      'in_tcp_demo_p_9000 [9000] -> app_demo_p_9000',
      'in_demo_p_9090 [9090] -> app_demo_p_9090',
    ],
  ],
  [
    'a pure-TCP pod (worked example)',
    { port: '5432', protocol: 'tcp' },
    [
      'in_tcp_demo_p [] -> app_demo_p_5432',
      'in_demo_p [h2] -> app_demo_p_5432',
      'in_tcp_demo_p_5432 [5432] -> app_demo_p_5432',
    ],
  ],
  [
    'a pod whose primary is TCP beside HTTP: h2 goes to its default HTTP port',
    { port: '5432', ports: '5432=tcp,9090=h1,8081=h1' },
    [
      'in_tcp_demo_p [] -> app_demo_p_5432',
      'in_demo_p [h2] -> app_demo_p_8081',
      'in_tcp_demo_p_5432 [5432] -> app_demo_p_5432',
      'in_demo_p_8081 [8081] -> app_demo_p_8081',
      'in_demo_p_9090 [9090] -> app_demo_p_9090',
    ],
  ],
];
for (const [title, spec, chains] of CASES) {
  t.test(`buildInboundListener() gives the chains of ${title}`, (t) => {
    t.same(chainsOf(spec), chains);
    t.end();
  });
}

t.test('buildInboundListener() wants a certificate of the trust domain on every chain', (t) => {
  const snapshot = buildSnapshot(exampleInput(), { hash });
  const { filter_chains } = jsonOf(snapshot, 'listener', 'inbound_demo_shop-0');
  for (const chain of filter_chains as unknown as readonly ChainJson[]) {
    const tls = JSON.stringify(chain.transport_socket);
    t.match(tls, /"require_client_certificate":true/, chain.name);
    t.match(tls, /"san_type":"URI","matcher":\{"prefix":"spiffe:\/\/aether\.internal\/ns\/"\}/, chain.name);
    t.match(tls, /"name":"spiffe:\/\/aether\.internal\/ns\/demo\/sa\/shop"/, chain.name);
  }
  t.end();
});
