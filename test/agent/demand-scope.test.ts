// Which services Envoy is given: what its pods are and declare, what has a TCP port, and what it asked for, until an hour
// after it stops asking.
import t from 'tap';
import type { AgentPod } from '../../src/agent/agent-pod.ts';
import { ASKED_RETENTION_MS, DemandScope } from '../../src/agent/demand-scope.ts';
import { exchangeItems, findExchanged } from '../../src/core/exchanged-list.ts';
import { formatServiceKey, parseServiceKey, type ServiceKey } from '../../src/mesh/names.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { TestClock } from '../support/agent-world.ts';
import { makeView } from '../support/services.ts';

const http = { ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http' } } as const;
const VIEWS = [
  makeView('demo/db', [], [{ ip: '10.1.2.4', primary: 5432, ports: { 5432: 'tcp' } }]),
  makeView('demo/far', [], [http]),
  makeView('demo/own', [], [http]),
  makeView('demo/up', [], [http]),
];

const keyOf = (text: string): ServiceKey => {
  const key = parseServiceKey(text);
  if (key === undefined) throw new Error(text);
  return key;
};
/** As far as the scope looks at a pod. */
const pod = (own: string, ...upstreams: readonly string[]): AgentPod =>
  ({ workload: { service: keyOf(own), upstreams: upstreams.map(keyOf) } }) as unknown as AgentPod;

function make() {
  const clock = new TestClock();
  const asked = new Set<string>();
  const scope = new DemandScope({
    clock,
    domain: 'aether.internal',
    listAsked: () => asked,
    isKnown: ({ serviceAccount }) => VIEWS.some(({ key }) => key.serviceAccount === serviceAccount),
  });
  const outlined = new Set<string>();
  const select = (pods: readonly AgentPod[] = [], views: readonly ServiceView[] = VIEWS) => {
    scope.plan(pods);
    return scope.select(views, (key) => outlined.has(formatServiceKey(key)));
  };
  const names = (pods: readonly AgentPod[] = []) => {
    const { services, others } = select(pods);
    return [services, others].map((list) => list.map(({ key }) => key.serviceAccount).join(' '));
  };
  return { clock, asked, outlined, scope, select, names };
}

t.test('DemandScope has what the pods are and declare, and everything with a TCP port', (t) => {
  const { names, select } = make();
  t.strictSame(names(), ['db', 'far own up']);
  const pods = [pod('demo/own', 'demo/up', 'demo/nobody')];
  t.strictSame(names(pods), ['db own up', 'far']);
  t.equal(select(pods), select(pods), 'the same lists while nothing changed');
  t.end();
});

t.test('DemandScope takes in what Envoy asks for, whatever port, and says so until it is told', (t) => {
  for (const name of ['far.demo.aether.internal', 'far.demo.aether.internal:9999']) {
    const { names, scope } = make();
    names();
    t.equal(scope.ask(name), true);
    for (const each of ['far.demo.aether.internal', 'far.demo.aether.internal:18081', 'demo/far']) {
      t.ok(scope.isComing(each), each);
    }
    t.notOk(scope.isComing('own.demo.aether.internal'));
    scope.settle();
    t.ok(scope.isComing(name), 'not selected yet');
    t.strictSame(names(), ['db far', 'own up']);
    scope.settle();
    t.notOk(scope.isComing(name));
    t.equal(scope.ask(name), false, 'it is there');
  }
  t.end();
});

t.test('DemandScope keeps nobody waiting for what nobody knows, and takes it in when it comes', (t) => {
  const { scope, select } = make();
  select();
  for (const name of ['late.demo.aether.internal', 'example.com', 'blackhole', '']) {
    t.equal(scope.ask(name), false, name);
    t.notOk(scope.isComing(name), name);
  }
  const late = makeView('demo/late', [], [http]);
  t.ok(select([], [...VIEWS, late]).services.includes(late), 'Envoy will not ask again');
  t.end();
});

t.test('DemandScope waits for an Envoy that is back before anything was selected', (t) => {
  const { scope, names } = make();
  t.equal(scope.ask('far.demo.aether.internal'), true);
  t.ok(scope.isComing('demo/far'));
  t.strictSame(names(), ['db far', 'own up']);
  t.end();
});

t.test('DemandScope keeps what was asked for while an Envoy asks, and an hour longer', (t) => {
  const { clock, asked, scope, names } = make();
  asked.add('far.demo.aether.internal');
  scope.ask('far.demo.aether.internal');
  clock.advance(10 * ASKED_RETENTION_MS);
  t.strictSame(names(), ['db far', 'own up'], 'that Envoy would never ask again');
  asked.clear();
  clock.advance(ASKED_RETENTION_MS - 1);
  t.strictSame(names(), ['db far', 'own up']);
  clock.advance(1);
  t.strictSame(names(), ['db', 'far own up']);
  t.end();
});

t.test('DemandScope plans before it selects, and gives nothing whose endpoints are not known', (t) => {
  const { scope, outlined, select, names } = make();
  outlined.add('demo/far').add('demo/up').add('demo/own');
  t.strictSame([...scope.plan([pod('demo/own', 'demo/up')])].sort(), ['demo/own', 'demo/up']);
  t.strictSame(names(), ['db', 'far own up']);
  t.equal(scope.ask('far.demo.aether.internal'), true);
  t.ok(scope.plan([]).has('demo/far'));
  t.strictSame(names(), ['db', 'far own up'], 'the registry did not answer');
  scope.settle();
  t.ok(scope.isComing('demo/far'), 'so Envoy waits on');
  outlined.delete('demo/far');
  t.match(select([], [...VIEWS]).services, [{ fqdn: /^db/ }, { fqdn: /^far/ }]);
  scope.settle();
  t.notOk(scope.isComing('demo/far'));
  t.end();
});

t.test('DemandScope exchanges in its lists what was exchanged in the views, and moves what changes sides', (t) => {
  const { select } = make();
  const first = select();
  const [, far, own] = VIEWS;
  if (far === undefined || own === undefined) throw new Error('no views');
  const second = exchangeItems(VIEWS, new Map([[1, { ...far }]]));
  const lists = select([], second);
  t.equal(lists.services, first.services, 'the same list');
  t.strictSame(lists.others, first.others);
  t.equal(lists.others[0], second[1]);
  t.strictSame(findExchanged(lists.others, first.others), [0]);
  const mixed = makeView('demo/own', [], [{ ip: '10.1.2.3', primary: 8080, ports: { 8080: 'http', 9000: 'tcp' } }]);
  const third = exchangeItems(second, new Map([[2, mixed]]));
  t.strictSame(
    select([], third).services.map(({ key }) => key.serviceAccount),
    ['db', 'own'],
    'it has a TCP port now',
  );
  t.end();
});
