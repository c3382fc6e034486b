// What the mesh makes of a Host header, spelling by spelling. That the real Envoy does the same is held by
// test/e2e/resolve-agreement.test.ts.
import t from 'tap';
import { type AuthorityAnswer, resolveAuthority } from '../../src/mesh/resolve-authority.ts';
import { makeView } from '../support/services.ts';

const SHOP = 'shop.demo.aether.internal';
const DOMAIN = 'aether.internal';

function show(answer: AuthorityAnswer): string {
  if (answer.kind === 'mesh') return `${answer.cluster} -> ${answer.bucket.port}`;
  return answer.kind === 'status' ? String(answer.status) : answer.kind;
}

t.test('resolveAuthority() reads an authority as the route table does', (t) => {
  const services = [
    makeView(
      'demo/shop',
      ['10.96.0.50'],
      [{ ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9090: 'http', 18082: 'http', 9000: 'tcp' } }],
    ),
    makeView('demo/db', ['10.96.0.60'], [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }]),
    makeView('demo/odd', ['10.96.0.61'], [{ ip: '10.1.2.5', primary: 18082, ports: { 18082: 'http' } }]),
    makeView('demo/idle', ['10.96.0.70'], []),
  ];
  const cases: readonly (readonly [string, string])[] = [
    [SHOP, `${SHOP} -> 8080`],
    [`${SHOP}.`, `${SHOP} -> 8080`],
    ['SHOP.Demo.Aether.Internal', `${SHOP} -> 8080`],
    [`${SHOP}:18081`, `${SHOP} -> 8080`],
    [`${SHOP}.:18081`, `${SHOP} -> 8080`],
    [`${SHOP}:8080`, `${SHOP}:8080 -> 8080`],
    [`${SHOP.toUpperCase()}.:9090`, `${SHOP}:9090 -> 9090`],
    ['shop.demo.svc.cluster.local', `${SHOP} -> 8080`],
    ['shop.demo.svc.cluster.local:18081', `${SHOP} -> 8080`],
    ['shop.demo.svc.cluster.local:8080', 'foreign'],
    ['ghost.demo.svc.cluster.local', 'foreign'],
    // The TCP mesh port is no port of its own, even of a service that serves HTTP there.
    [`${SHOP}:18082`, '503'],
    ['odd.demo.aether.internal:18082', '503'],
    ['odd.demo.aether.internal', 'odd.demo.aether.internal -> 18082'],
    [`${SHOP}:9000`, '503'],
    [`${SHOP}:4444`, '503'],
    [`${SHOP}:0`, '503'],
    [`${SHOP}:08080`, '503'],
    [`${SHOP}:018081`, '503'],
    [`${SHOP}:123456`, '503'],
    [`${SHOP}:`, 'foreign'],
    [`${SHOP}..`, 'foreign'],
    ['db.demo.aether.internal', '421'],
    ['db.demo.aether.internal:18081', '421'],
    ['db.demo.svc.cluster.local', '421'],
    ['db.demo.aether.internal:5432', '503'],
    ['idle.demo.aether.internal', '503'],
    ['idle.demo.svc.cluster.local:18081', '503'],
    ['ghost.demo.aether.internal', '503'],
    ['under_score.demo.aether.internal', 'foreign'],
    ['demo.aether.internal', 'foreign'],
    [`a.${SHOP}`, 'foreign'],
    ['example.com:18081', 'foreign'],
    ['', 'foreign'],
    ['[fd96::50]:80', 'foreign'],
  ];
  for (const [authority, want] of cases) {
    t.test(authority === '' ? '(empty)' : authority, (t) => {
      t.equal(show(resolveAuthority(authority, { services, domain: DOMAIN })), want);
      t.end();
    });
  }
  t.end();
});
