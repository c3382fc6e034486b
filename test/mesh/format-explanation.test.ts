// The text of an explanation to the letter; the explanations are made by the real code.
import t from 'tap';
import { explainDestination } from '../../src/agent/explain.ts';
import { formatExplanation } from '../../src/mesh/format-explanation.ts';
import { exampleServices, makeView } from '../support/services.ts';

const { db, idle, shop } = exampleServices();
const web = makeView(
  'demo/web',
  ['10.96.0.51', 'fd96::51'],
  [
    { ip: '10.1.2.5', primary: 8080, ports: { 8080: 'http' } },
    { ip: '10.1.2.15', primary: 8080, ports: { 8080: 'http' }, overrides: { health: 'draining', podName: 'old' } },
  ],
);

function print(destination: string, redirectAll = true): string {
  const pod = {
    ...{ namespace: 'demo', name: 'client-0', resourceName: 'demo_client-0' },
    policy: { redirectAll, excludePorts: [], excludeRanges: [] },
  };
  const node = { meshDomain: 'aether.internal', trustDomain: 'aether.internal', identity: 'mtls' } as const;
  const services = [db, idle, shop, web];
  return formatExplanation(
    explainDestination(destination, pod, { node, services, problems: ['no proxy\nis connected'] }),
  );
}

t.test('formatExplanation() prints the way in order, then the verdict; families that go the same way share it', (t) => {
  t.equal(
    print('http://web.demo.aether.internal:18081/'),
    `demo/client-0 -> http://web.demo.aether.internal:18081/
  capture    redirect-all: every TCP connection of the pod
  sends      HTTP, Host web.demo.aether.internal:18081
  name       demo/web, at 10.96.0.51 and fd96::51
  dials      10.96.0.51:18081, [fd96::51]:18081
  kernel     inet aether: tcp dport 18081 redirect to :18001
  listener   capture_demo_client-0 (18001), chain capture
  cluster    web.demo.aether.internal
  hop        mTLS, SNI 8080, server spiffe://aether.internal/ns/demo/sa/web
  endpoints  10.1.2.15  demo/old           on node1  draining, not used
             10.1.2.5   demo/pod-10.1.2.5  on node1  healthy
  port       8080 of demo/web, HTTP
=> over the mesh to demo/web, port 8080 (HTTP); 1 of 2 endpoints available
note: no proxy is connected
`,
  );
  t.end();
});

t.test('formatExplanation() of TCP names the rule and the cluster of each family', (t) => {
  t.match(
    print('shop.demo.aether.internal:9000'),
    `  kernel     inet aether_mesh: ip daddr . tcp dport @mesh_tcp4 redirect to :18002
             inet aether_mesh: ip6 daddr . tcp dport @mesh_tcp6 redirect to :18002
  listener   capture_tcp_demo_client-0 (18002), chain cap_tcp
  cluster    tcp:10.96.0.50:9000, tcp:fd96::50:9000
`,
  );
  t.end();
});

t.test('formatExplanation() of a refusal says what would work', (t) => {
  t.equal(
    print('http://db.demo.aether.internal:18081/', false),
    `demo/client-0 -> http://db.demo.aether.internal:18081/
  capture    scoped: the mesh ports 18081 and 18082 only
  sends      HTTP, Host db.demo.aether.internal:18081
  name       demo/db, at 10.96.0.60 and fd96::60
  dials      10.96.0.60:18081, [fd96::60]:18081
  kernel     inet aether_mesh: tcp dport 18081 ip daddr @mesh_shim4 redirect to :18003
             inet aether_mesh: tcp dport 18081 ip6 daddr @mesh_shim6 redirect to :18003
  listener   capture_shim_demo_client-0 (18003), chain capture
  answer     HTTP 421, by Envoy
=> refused with HTTP 421: demo/db has no HTTP port
try: TCP at db.demo.aether.internal:18082
note: no proxy is connected
`,
  );
  t.end();
});

t.test('formatExplanation() of a foreign name says so, and that no rule takes it', (t) => {
  t.match(
    print('example.com:25', false),
    `  name       no name of the mesh: other DNS has its address
  dials      port 25 of an address outside the mesh
  kernel     no rule takes it
=> leaves the pod as dialled`,
  );
  t.end();
});
