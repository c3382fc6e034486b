// What Envoy would refuse a service for, found before it is told of it. bad-services.test.ts has the real Envoy.
import t from 'tap';
import { findServiceFaults } from '../../src/xds/service-faults.ts';
import { exampleServices, makeView } from '../support/services.ts';

const endpoint = { ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } } as const;

t.test('findServiceFaults() finds nothing wrong with the example, whatever it serves', (t) => {
  for (const view of Object.values(exampleServices())) t.same(findServiceFaults(view), [], view.fqdn);
  t.end();
});

for (const [title, view, expected] of [
  ['a name of 300 bytes', makeView(`demo/${'a'.repeat(300)}`, [], [endpoint]), /^service account: .*DNS label/],
  ['a wildcard', makeView('demo/*', [], [endpoint]), /^service account: .*DNS label/],
  ['capitals, that Envoy would take for the same domain', makeView('demo/Shop', [], [endpoint]), /DNS label/],
  ['a line break', makeView('de\nmo/shop', [], [endpoint]), /^namespace: /],
  [
    'an endpoint in no namespace that can be',
    makeView('demo/shop', [], [{ ...endpoint, namespace: 'x/y' }]),
    /^namespace of an endpoint: /,
  ],
  ['an address given twice', makeView('demo/shop', ['10.96.0.1', '10.96.0.1'], [endpoint]), /^addresses: .*twice/],
  ['port 0', makeView('demo/shop', [], [{ ip: '10.1.2.3', primary: 0, ports: { 0: 'http' } }]), /^ports: .*got 0/],
  [
    'a port that is none',
    makeView('demo/shop', [], [{ ip: '10.1.2.3', primary: 70000, ports: { 70000: 'tcp' } }]),
    /^ports: .*got 70000/,
  ],
  ['an endpoint without an address', makeView('demo/shop', [], [{ ...endpoint, ip: 'nowhere' }]), /its address/],
  [
    'a weight beyond 32 bits',
    makeView('demo/shop', [], [{ ...endpoint, overrides: { weight: 5_000_000_000 } }]),
    /its weight .*got 5000000000/,
  ],
] as const) {
  t.test(`findServiceFaults() finds ${title}`, (t) => {
    const [fault, ...more] = findServiceFaults(view);
    t.match(`${fault?.path}: ${fault?.message}`, expected);
    t.same(more, []);
    t.equal(findServiceFaults(view), findServiceFaults(view), 'looked at once');
    t.end();
  });
}

t.test('findServiceFaults() finds a name that only its domain makes too long', (t) => {
  const view = makeView('demo/shop', [], [endpoint]);
  const [fault] = findServiceFaults({ ...view, fqdn: `shop.demo.${'x.'.repeat(122)}` });
  t.match(fault, { path: 'name', message: /253 characters at most, got 254/ });
  t.end();
});
