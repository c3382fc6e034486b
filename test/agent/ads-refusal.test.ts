// Envoy refuses a response as a whole, in words of its own: which of the resources in it does it mean? All, if it names none.
import t from 'tap';
import { splitRefusal } from '../../src/agent/ads-refusal.ts';

const FQDN = 'shop.demo.aether.internal';

// The texts are Envoy 1.40's own, shortened.
const CASES: readonly (readonly [string, string, readonly string[], readonly string[]])[] = [
  [
    'one listener of three',
    'Error adding/updating listener(s) capture_demo_a: failed to open netns file /run/x: No such file or directory\n',
    ['capture_demo_a', 'capture_demo_b', 'inbound_demo_a'],
    ['capture_demo_a'],
  ],
  [
    'two listeners on two lines',
    'Error adding/updating listener(s) capture_demo_a: why\ncapture_tcp_demo_a: why\n',
    ['capture_demo_a', 'capture_tcp_demo_a', 'capture_shim_demo_a'],
    ['capture_demo_a', 'capture_tcp_demo_a'],
  ],
  [
    'a name that is the beginning of another',
    'capture_demo_a-1: why',
    ['capture_demo_a', 'capture_demo_a-1'],
    ['capture_demo_a-1'],
  ],
  ['a name that is the end of another', 'capture_demo_a: why', ['demo_a', 'capture_demo_a'], ['capture_demo_a']],
  [
    'a cluster named like another and a port',
    `Error adding/updating cluster(s) ${FQDN}:9090: why`,
    [FQDN, `${FQDN}:9090`],
    [`${FQDN}:9090`],
  ],
  ['a cluster before the reason', `Error adding/updating cluster(s) ${FQDN}: why`, [FQDN, `${FQDN}:9090`], [FQDN]],
  ['an IPv6 TCP cluster', 'tcp:fd96::50:9000: why', ['tcp:fd96::50:9000', 'tcp:fd96::50:90'], ['tcp:fd96::50:9000']],
  ['a name in quotes', `duplicate cluster '${FQDN}' found`, [FQDN], [FQDN]],
  ['a text that names nothing refuses all', 'DataSource cannot be empty', ['a', 'b'], ['a', 'b']],
];

for (const [title, text, sent, refused] of CASES) {
  t.test(`splitRefusal() reads ${title}`, (t) => {
    t.same([...splitRefusal(text, sent).keys()], refused);
    t.end();
  });
}

t.test("splitRefusal() gives each resource Envoy's own line", (t) => {
  const refused = splitRefusal('Error adding/updating listener(s) a: first\nb: second\n', ['a', 'b']);
  t.equal(refused.get('a'), 'Error adding/updating listener(s) a: first');
  t.equal(refused.get('b'), 'b: second');
  t.end();
});
