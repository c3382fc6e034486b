// Names that must be spelt as the contract has them: service keys, mesh names, SPIFFE ids, keys of statistics.
import t from 'tap';
import { parseServiceFqdn, parseServiceKey, serviceFqdn, spiffeId, tcpStatKey } from '../../src/mesh/names.ts';

const key = { namespace: 'demo', serviceAccount: 'shop' };

t.test('parseServiceKey() takes exactly one slash between two names', (t) => {
  t.same(parseServiceKey('demo/shop'), key);
  for (const bad of ['demo', 'demo/', '/shop', 'a/b/c', ''])
    t.equal(parseServiceKey(bad), undefined, JSON.stringify(bad));
  t.end();
});

t.test('parseServiceFqdn() reads only names of the mesh', (t) => {
  const cases: readonly [string, boolean][] = [
    ['shop.demo.aether.internal', true],
    ['SHOP.demo.Aether.Internal.', true],
    ['demo.aether.internal', false],
    ['a.shop.demo.aether.internal', false],
    ['.demo.aether.internal', false],
    ['shop.demo.aether.internal.example', false],
    ['shop.demo.xaether.internal', false],
    ['aether.internal', false],
  ];
  for (const [name, is] of cases) t.same(parseServiceFqdn(name, 'aether.internal'), is ? key : undefined, name);
  t.same(parseServiceFqdn(serviceFqdn(key, 'aether.internal'), 'aether.internal'), key, 'round trip');
  t.end();
});

t.test('spiffeId() and tcpStatKey() spell as the contract says', (t) => {
  t.equal(spiffeId(key, 'aether.internal'), 'spiffe://aether.internal/ns/demo/sa/shop');
  t.equal(tcpStatKey(key, 18082), 'tcp_demo/shop');
  t.equal(tcpStatKey(key, 9000), 'tcp_demo/shop_9000');
  t.end();
});
