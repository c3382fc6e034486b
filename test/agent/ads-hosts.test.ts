// Virtual hosts on a delta ADS stream (VHDS). Envoy names none of them: it has those of the tables that it asks for.
import t from 'tap';
import type { Snapshot } from '../../src/xds/resource.ts';
import { FakeEnvoy } from '../support/fake-envoy.ts';
import { makeSnapshot } from '../support/xds-snapshots.ts';

const NODE = ['routes cap 1', 'routes out 1', 'host cap/a 1', 'host cap/b 1', 'host out/a 1'];
const after = (...changes: readonly string[]): Snapshot => makeSnapshot(...NODE, ...changes);

/** An Envoy that has taken table `cap` and its hosts. */
function settled(snapshot = makeSnapshot(...NODE)): FakeEnvoy {
  const envoy = new FakeEnvoy(snapshot);
  envoy.ask('routes', { subscribe: ['cap'] });
  envoy.ack('routes');
  envoy.ask('host');
  envoy.ack('host');
  return envoy;
}

t.test('AdsSession sends the hosts of the tables that Envoy holds', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot(...NODE));
  t.same(envoy.ask('routes', { subscribe: ['cap'] }), ['routes +cap@1']);
  t.same(envoy.ack('routes'), [], 'not before Envoy has asked for hosts at all');
  t.same(envoy.ask('host'), ['host +cap/a@1 +cap/b@1']);
  envoy.ack('host');
  t.same(envoy.session.stateOf({ kind: 'host', name: 'cap/a' }), { kind: 'acknowledged' });
  t.same(envoy.session.stateOf({ kind: 'host', name: 'out/a' }), { kind: 'acknowledged' }, 'nobody waits for it');
  t.same(envoy.ask('routes', { subscribe: ['out'] }), ['routes +out@1', 'host +out/a@1'], 'behind their table');
  t.end();
});

t.test('AdsSession sends the hosts that changed alone, and takes away what is gone in the same response', (t) => {
  const envoy = settled();
  t.same(envoy.publish(after('host cap/b 2', 'host cap/c 1')), ['host +cap/b@2 +cap/c@1']);
  envoy.ack('host');
  t.same(envoy.publish(makeSnapshot('routes cap 1', 'host cap/a 2')), ['host +cap/a@2 -cap/b -cap/c']);
  t.same(envoy.ack('host'), []);
  t.end();
});

t.test('AdsSession says something of a table without hosts: Envoy waits for the first word', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('routes cap 1'));
  envoy.ask('routes', { subscribe: ['cap'] });
  t.same(envoy.ask('host'), ['host -cap/*']);
  t.same(envoy.ack('host'), []);
  t.same(envoy.publish(makeSnapshot('routes cap 1', 'host cap/a 1')), ['host +cap/a@1']);
  t.end();
});

t.test('AdsSession sends no host again that Envoy brought along with its table', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot(...NODE));
  t.same(envoy.ask('routes', { subscribe: ['cap'], initial: { cap: '1' } }), []);
  t.same(envoy.ask('host', { initial: { 'cap/a': '1', 'cap/b': '0', 'cap/gone': '1' } }), ['host +cap/b@1 -cap/gone']);
  t.end();
});

t.test('AdsSession trusts no host that Envoy names of a table that it asks for anew', (t) => {
  const stale = { 'cap/a': '1', 'cap/b': '1' };
  t.test('in the first request', (t) => {
    const envoy = new FakeEnvoy(makeSnapshot(...NODE));
    t.same(envoy.ask('routes', { subscribe: ['cap'] }), ['routes +cap@1']);
    t.same(envoy.ask('host', { initial: stale }), ['host +cap/a@1 +cap/b@1']);
    t.end();
  });
  t.test('later', (t) => {
    const envoy = new FakeEnvoy(makeSnapshot(...NODE));
    envoy.ask('routes', { initial: { out: '1' }, subscribe: ['out'] });
    t.same(envoy.ask('host', { initial: { ...stale, 'out/a': '1' } }), ['host']);
    envoy.ack('host');
    t.same(envoy.ask('routes', { subscribe: ['cap'] }), ['routes +cap@1', 'host +cap/a@1 +cap/b@1']);
    t.end();
  });
  t.test('after it let go of it', (t) => {
    const envoy = settled();
    t.same(envoy.ask('routes', { unsubscribe: ['cap'] }), []);
    t.same(envoy.publish(after('host cap/a 2')), []);
    t.same(envoy.ask('routes', { subscribe: ['cap'] }), ['routes +cap@1', 'host +cap/a@2 +cap/b@1']);
    t.end();
  });
  t.end();
});

t.test('AdsSession answers a table that Envoy brought along without any host', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('routes cap 1'));
  envoy.ask('routes', { subscribe: ['cap'], initial: { cap: '1' } });
  t.same(envoy.ask('host'), ['host -cap/*']);
  t.end();
});

t.test('AdsSession takes a refusal of hosts for one of all of them, and sends them with the next change', (t) => {
  const envoy = settled();
  t.same(envoy.publish(makeSnapshot('routes cap 1', 'host cap/a 2', 'host cap/c 1')), [
    'host +cap/a@2 +cap/c@1 -cap/b',
  ]);
  t.same(envoy.nack('host', 'Duplicate entry of domain x, of cap/a'), [], 'not by itself');
  t.match(envoy.session.stateOf({ kind: 'host', name: 'cap/c' }), { kind: 'rejected', message: /Duplicate/ });
  t.same(envoy.session.listRejections().length, 2);
  t.same(envoy.publish(makeSnapshot('routes cap 1', 'host cap/a 3', 'host cap/c 1')), [
    'host +cap/a@3 +cap/c@1 -cap/b',
  ]);
  t.same(envoy.ack('host'), []);
  t.same(envoy.session.listRejections(), []);
  t.end();
});

t.test('AdsSession sends clusters before the hosts that name them, and takes them away after', (t) => {
  const envoy = settled(after('cluster x 1'));
  envoy.ask('cluster');
  envoy.ack('cluster');
  t.same(envoy.publish(after('cluster x 1', 'cluster y 1', 'host cap/a 2')), ['cluster +y@1', 'host +cap/a@2']);
  envoy.ack('cluster');
  envoy.ack('host');
  t.same(envoy.publish(after('cluster x 1', 'host cap/a 3')), ['host +cap/a@3']);
  t.same(envoy.ack('host'), ['cluster -y']);
  t.end();
});

t.test('AdsSession spends nothing on tables that a client makes up', (t) => {
  const envoy = settled(makeSnapshot(...NODE, ...Array.from({ length: 5000 }, (_, i) => `host cap/h${i} 1`)));
  const made = Array.from({ length: 50_000 }, (_, i) => `made-up-${i}`);
  const begun = performance.now();
  envoy.ask('routes', { subscribe: made });
  envoy.ask('routes', { unsubscribe: made });
  // Each of them held against each host: minutes.
  t.ok(performance.now() - begun < 10_000);
  t.same(envoy.publish(makeSnapshot(...NODE)).length, 1, 'its own hosts are still known');
  t.end();
});
