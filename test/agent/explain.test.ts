// Spelling by spelling, what a user is told: verdict, hint, notes, kernel rule. Only the plan is looked at; what Envoy has
// taken of it is explain-obstacles.test.ts.
import t from 'tap';
import { explainDestination } from '../../src/agent/explain.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { InputError } from '../../src/core/errors.ts';
import { parseIpRange } from '../../src/core/ip.ts';
import type { Explanation } from '../../src/mesh/explanation.ts';
import { exampleServices, makeView } from '../support/services.ts';

const { shop, db, web, idle } = exampleServices();
const tired = makeView(
  'demo/tired',
  ['10.96.0.90'],
  (['draining', 'unhealthy'] as const).map((health, index) => ({
    ...{ ip: `10.1.3.${index}`, primary: 8080, ports: { 8080: 'http' as const } },
    overrides: { health },
  })),
);
const SERVICES = [db, idle, shop, tired, web];
const ALL: CapturePolicy = { redirectAll: true, excludePorts: [], excludeRanges: [] };
const SCOPED: CapturePolicy = { ...ALL, redirectAll: false };
const NODE = { meshDomain: 'aether.internal', trustDomain: 'aether.internal', identity: 'mtls' } as const;

const POD = { namespace: 'demo', name: 'client-0', resourceName: 'demo_client-0', policy: SCOPED };

function explain(destination: string, policy = ALL, identity: 'mtls' | 'none' = 'mtls'): Explanation {
  const pod = { ...POD, policy };
  return explainDestination(destination, pod, { node: { ...NODE, identity }, services: SERVICES, problems: ['p'] });
}

/** `yes`/`no`, then the verdict. */
const judge = ({ resolved, verdict }: Explanation): string => `${resolved ? 'yes' : 'no'}: ${verdict}`;
const D = 'demo.aether.internal';

t.test('explainDestination() follows a spelling to its endpoints', (t) => {
  t.strictSame(explain(`shop.${D}:9000`).dials[0], {
    address: '10.96.0.50',
    port: 9000,
    rule: 'ip daddr . tcp dport @mesh_tcp4 redirect to :18002',
    table: 'aether_mesh',
    outcome: 'mesh',
    listener: 'capture_tcp_demo_client-0',
    listenerPort: 18002,
    chain: 'cap_tcp',
    status: 0,
    cluster: 'tcp:10.96.0.50:9000',
    target: {
      service: 'demo/shop',
      port: 9000,
      protocol: 'tcp',
      serverName: '9000',
      serverIdentities: ['spiffe://aether.internal/ns/demo/sa/shop'],
      endpoints: [{ ip: '10.1.2.3', pod: 'demo/pod-10.1.2.3', node: 'node1', health: 'healthy', available: true }],
    },
    resolved: true,
    verdict: 'over the mesh to demo/shop, port 9000 (TCP); 1 of 1 endpoint available',
    hint: '',
  });
  t.match(explain(`shop.${D}:9000`), {
    ...{ pod: 'demo/client-0', captureMode: 'redirect-all', bytes: 'raw', authority: '', notes: ['p'] },
    name: 'demo/shop, at 10.96.0.50 and fd96::50',
    dials: [{ address: '10.96.0.50' }, { address: 'fd96::50', cluster: 'tcp:fd96::50:9000' }],
  });
  t.end();
});

t.test('explainDestination() gives each spelling its verdict', (t) => {
  const cases: readonly (readonly [string, CapturePolicy, string])[] = [
    [`http://shop.${D}/`, ALL, 'yes: over the mesh to demo/shop, port 8080 (HTTP); 1 of 1 endpoint available'],
    [`http://shop.${D}:9090/`, ALL, 'yes: over the mesh to demo/shop, port 9090 (HTTP); 1 of 1 endpoint available'],
    [`http://shop.${D}:18081/`, SCOPED, 'yes: over the mesh to demo/shop, port 8080 (HTTP); 1 of 1 endpoint available'],
    [`db.${D}:9999`, ALL, 'yes: over the mesh to demo/db, port 5432 (TCP); 1 of 1 endpoint available'],
    [
      'http://shop.demo.svc.cluster.local/',
      ALL,
      'yes: over the mesh to demo/shop, port 8080 (HTTP); 1 of 1 endpoint available',
    ],
    ['http://example.com/', ALL, "yes: passes through to example.com:80 as it is, from the pod's own address"],
    ['[2001:db8::1]:25', ALL, "yes: passes through to [2001:db8::1]:25 as it is, from the pod's own address"],
    [
      'example.com:25',
      SCOPED,
      'yes: leaves the pod as dialled: in scoped mode only ports 18081 and 18082 are captured',
    ],
    ['127.0.0.1:9000', ALL, 'yes: leaves the pod as dialled: it stays in the pod'],
    [
      `http://tired.${D}/`,
      ALL,
      'no: nowhere: the mesh leads to demo/tired, port 8080 (HTTP), but none of its 2 endpoints is available',
    ],
    [`http://db.${D}/`, ALL, 'no: refused with HTTP 421: demo/db has no HTTP port'],
    [`http://idle.${D}/`, ALL, 'no: refused with HTTP 503: demo/idle has no endpoints'],
    [`http://shop.${D}:4444/`, ALL, 'no: refused with HTTP 503: nobody registered port 4444 of demo/shop as HTTP'],
    [`shop.${D}:18081`, SCOPED, 'no: refused with HTTP 400: port 18081 takes HTTP only'],
    [`web.${D}:18082`, ALL, 'no: refused at once: demo/web has no TCP port'],
    ['10.0.0.9:18082', SCOPED, 'no: closed at once: port 18082 means the mesh, and 10.0.0.9:18082 is not in it'],
    ['127.0.0.1:18001', ALL, 'no: closed at once: a capture listener is for what the kernel leads to it'],
    [`ghost.${D}:80`, ALL, 'no: nowhere: the name has no address'],
    ['http://aether.internal/', ALL, 'no: nowhere: the name has no address'],
    [
      `https://web.${D}/`,
      ALL,
      "no: nowhere: passes through as dialled, but the address is demo/web's in the mesh, and nobody answers there outside of it",
    ],
    [
      `http://shop.${D}/`,
      SCOPED,
      "no: nowhere: leaves the pod as dialled (in scoped mode only ports 18081 and 18082 are captured), but the address is demo/shop's in the mesh, and nobody answers there outside of it",
    ],
  ];
  for (const [destination, policy, want] of cases) {
    t.test(`${destination}, ${policy.redirectAll ? 'redirect-all' : 'scoped'}`, (t) => {
      t.equal(judge(explain(destination, policy)), want);
      t.end();
    });
  }
  t.end();
});

t.test('explainDestination() names the rule that resets what a scoped pod dials of the own service addresses', (t) => {
  const unanswered = ['10.96.0.0/16', 'fd96::/112'].flatMap((text) => parseIpRange(text) ?? []);
  const explainScoped = (text: string) => explainDestination(text, POD, { node: NODE, services: SERVICES, unanswered });
  const found = explainScoped(`shop.${D}:9000`);
  t.equal(
    judge(found),
    "no: refused at once: the address is demo/shop's in the mesh, and in scoped mode only ports 18081 and 18082 are captured",
  );
  t.match(found.dials, [
    { rule: 'ip daddr 10.96.0.0/16 meta l4proto tcp reject with tcp reset', table: 'aether_mesh', outcome: 'reset' },
    { rule: 'ip6 daddr fd96::/112 meta l4proto tcp reject with tcp reset', table: 'aether_mesh', outcome: 'reset' },
  ]);
  t.equal(judge(explainScoped('10.96.200.1:80')), 'no: refused at once: no service of the mesh has this address');
  t.equal(judge(explainScoped(`web.${D}:18082`)), 'no: refused at once: demo/web has no TCP port');
  t.match(judge(explainScoped(`http://shop.${D}:18081/`)), /^yes: over the mesh to demo\/shop/);
  t.end();
});

t.test('explainDestination() says what would lead somewhere', (t) => {
  const hint = (destination: string, policy = ALL) => explain(destination, policy).dials[0]?.hint;
  t.equal(hint(`http://db.${D}/`), `TCP at db.${D}:5432, db.${D}:18082`);
  t.equal(hint(`http://db.${D}:18081/`, SCOPED), `TCP at db.${D}:18082`);
  t.equal(
    hint(`https://shop.${D}/`),
    `HTTP at http://shop.${D}/, http://shop.${D}:9090/; TCP at shop.${D}:5432, shop.${D}:9000, shop.${D}:18082`,
  );
  t.equal(hint(`http://shop.${D}/`, SCOPED), `HTTP at http://shop.${D}:18081/; TCP at shop.${D}:18082`);
  t.equal(hint(`http://idle.${D}/`), '');
  t.end();
});

t.test('explainDestination() notes what surprises', (t) => {
  const notes = (destination: string, policy = ALL) =>
    explain(destination, policy).notes.filter((note) => note !== 'p');
  t.strictSame(notes(`http://shop.${D}:9000/`), [
    'port 9000 of demo/shop is TCP: HTTP arrives there as it is, without routing or retries',
  ]);
  t.strictSame(notes(`shop.${D}:8080`), [
    'a client that waits for the server to speak first is held for 1 s before this is decided',
    `as http://shop.${D}:8080/: over the mesh to demo/shop, port 8080 (HTTP); 1 of 1 endpoint available`,
  ]);
  t.match(notes(`shop.${D}:18081`, SCOPED)[0], /, and then: nothing happens: port 18081 takes HTTP/);
  t.strictSame(notes('http://shop.demo/'), [`did you mean shop.${D}?`]);
  t.strictSame(notes('http://shop/'), [`did you mean shop.${D}?`]);
  t.strictSame(notes('http://web.demo.svc.cluster.local/'), [
    'the address is taken for one outside the mesh; in the mesh the service has 10.96.0.51 and fd96::51',
  ]);
  t.end();
});

t.test('explainDestination() tells the families apart where they differ', (t) => {
  const range = parseIpRange('10.96.0.0/16');
  if (range === undefined) throw new Error('no range');
  const { dials, resolved, verdict } = explain(`shop.${D}:9000`, { ...ALL, excludeRanges: [range] });
  t.strictSame(
    dials.map(({ outcome, rule }) => `${outcome}: ${rule}`),
    ['direct: ip daddr @exclude4 accept', 'mesh: ip6 daddr . tcp dport @mesh_tcp6 redirect to :18002'],
  );
  t.notOk(resolved);
  t.match(verdict, /^nowhere: .*; over the mesh to demo\/shop/);
  t.end();
});

t.test('explainDestination() without identities: clear text, and no TCP', (t) => {
  const { dials } = explain(`http://shop.${D}/`, ALL, 'none');
  t.match(dials[0]?.target, { serverName: '', serverIdentities: [] });
  t.match(explain(`db.${D}:18082`, ALL, 'none').verdict, /^refused at once: this node has no identities/);
  t.end();
});

t.test('explainDestination() in the single form: one table, one listener, a chain for each service and port', (t) => {
  const node = { ...NODE, captureForm: 'single' } as const;
  const single = (text: string, policy = ALL) =>
    explainDestination(text, { ...POD, policy }, { node, services: SERVICES });
  t.match(single(`shop.${D}:9000`).dials[0], {
    ...{ table: 'aether', listener: 'capture_demo_client-0', listenerPort: 18001, chain: 'cap_tcp_demo/shop_9000' },
    ...{ cluster: `tcp:shop.${D}:9000`, target: { port: 9000, serverName: '9000' } },
  });
  t.match(single(`shop.${D}:9000`).notes, [/is held for 1 s before this is decided/]);
  t.equal(judge(single(`web.${D}:18082`)), 'no: closed at once: demo/web has no TCP port');
  t.match(single(`web.${D}:18082`).dials[0]?.hint, /^HTTP at http/);
  t.match(judge(single(`shop.${D}:9000`, SCOPED)), /^no: nowhere: leaves the pod as dialled/);
  t.end();
});

t.test('explainDestination() refuses what is no destination, naming the forms', (t) => {
  t.throws(() => explain('shop'), InputError);
  t.throws(() => explain('shop'), {
    message:
      'DEST: must be http://name[:port]/, https://name[:port]/, name:port or ip:port, got "shop": it names no port; raw TCP needs one, and HTTP is written http://name/',
  });
  t.end();
});
