// One delta ADS stream as a state machine, in dialogue with a fake Envoy: what is sent, and in which order it is taken away.
// Texts like `cluster +a@1 -b` are responses. Virtual hosts: ads-hosts.test.ts.
import t from 'tap';
import type { Snapshot } from '../../src/xds/resource.ts';
import { FakeEnvoy } from '../support/fake-envoy.ts';
import { makeSnapshot } from '../support/xds-snapshots.ts';

const NODE = [
  'cluster a 1 eds-a',
  'cluster b 1 eds-b',
  'endpoints eds-a 1',
  'endpoints eds-b 1',
  'listener l 1',
  'routes r 1',
  'secret s 1',
];

/** An Envoy that has taken everything of NODE. */
function settled(): FakeEnvoy {
  const envoy = new FakeEnvoy(makeSnapshot(...NODE));
  envoy.ask('cluster');
  envoy.ack('cluster');
  envoy.ask('endpoints', { subscribe: ['eds-a', 'eds-b'] });
  envoy.ack('endpoints');
  envoy.ask('listener');
  envoy.ack('listener');
  envoy.ask('routes', { subscribe: ['r'] });
  envoy.ack('routes');
  envoy.ask('secret', { subscribe: ['s'] });
  envoy.ack('secret');
  return envoy;
}

t.test('AdsSession answers the opening dialogue', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot(...NODE));
  t.same(envoy.ask('cluster'), ['cluster +a@1 +b@1']);
  t.same(envoy.ask('endpoints', { subscribe: ['eds-a', 'eds-b'] }), ['endpoints +eds-a@1 +eds-b@1']);
  t.same(envoy.ack('cluster'), []);
  t.same(envoy.ack('endpoints'), []);
  t.same(envoy.ask('listener'), ['listener +l@1']);
  t.same(envoy.ask('routes', { subscribe: ['r'] }), ['routes +r@1']);
  t.same(envoy.ask('secret', { subscribe: ['s'] }), ['secret +s@1']);
  for (const kind of ['listener', 'routes', 'secret'] as const) t.same(envoy.ack(kind), []);
  t.end();
});

t.test('AdsSession answers the first wildcard request though there is nothing', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot());
  t.same(envoy.ask('cluster'), ['cluster']);
  t.same(envoy.ask('listener', { subscribe: ['*'] }), ['listener']);
  t.same(envoy.ack('cluster'), [], 'once');
  t.end();
});

t.test('AdsSession stays silent without a snapshot, then answers', (t) => {
  const envoy = new FakeEnvoy(undefined);
  t.same(envoy.ask('cluster'), []);
  t.same(envoy.publish(makeSnapshot('cluster a 1')), ['cluster +a@1']);
  t.end();
});

t.test('AdsSession sends nothing that Envoy brought along from an earlier stream', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot(...NODE));
  t.same(envoy.ask('cluster', { initial: { a: '1', b: '1' } }), ['cluster']);
  envoy.ack('cluster');
  t.same(envoy.ask('endpoints', { subscribe: ['eds-a', 'eds-b'], initial: { 'eds-a': '1', 'eds-b': '0' } }), [
    'endpoints +eds-b@1',
  ]);
  envoy.ack('endpoints');
  t.same(envoy.session.stateOf({ kind: 'endpoints', name: 'eds-a' }), { kind: 'acknowledged' });
  t.end();
});

t.test('AdsSession removes what Envoy brought along and nobody has any more', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('cluster a 1'));
  t.same(envoy.ask('cluster', { initial: { a: '1', gone: '1' } }), ['cluster']);
  t.same(envoy.ack('cluster'), ['cluster -gone']);
  t.end();
});

t.test('AdsSession has one response in flight for each type', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('cluster a 1'));
  envoy.ask('cluster');
  t.same(envoy.publish(makeSnapshot('cluster a 2')), []);
  t.same(envoy.publish(makeSnapshot('cluster a 3')), []);
  t.same(envoy.ack('cluster'), ['cluster +a@3'], 'the last version only');
  t.same(envoy.ack('cluster'), []);
  t.end();
});

t.test('AdsSession takes an unknown nonce for no acknowledgement', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('cluster a 1'));
  envoy.ask('cluster');
  t.same(
    envoy.session.receive({ kind: 'cluster', subscribe: [], unsubscribe: [], initialVersions: {}, nonce: '999' }),
    { responses: [], rejections: [] },
  );
  t.same(envoy.session.stateOf({ kind: 'cluster', name: 'a' }), { kind: 'waiting' });
  t.end();
});

t.test('AdsSession pushes updates in order, all at once', (t) => {
  const envoy = settled();
  t.same(envoy.publish(makeSnapshot(...NODE.map((spec) => spec.replace(' 1', ' 2')))), [
    'cluster +a@2 +b@2',
    'endpoints +eds-a@2 +eds-b@2',
    'listener +l@2',
    'routes +r@2',
    'secret +s@2',
  ]);
  t.end();
});

t.test(
  'AdsSession removes listeners first, then in reverse order, each kind when the one before is acknowledged',
  (t) => {
    const envoy = settled();
    t.same(envoy.publish(makeSnapshot('cluster b 1 eds-b', 'endpoints eds-b 1')), ['listener -l']);
    t.same(envoy.ack('listener'), ['secret -s']);
    t.same(envoy.ack('secret'), ['routes -r']);
    t.same(envoy.ack('routes'), ['endpoints -eds-a']);
    t.same(envoy.ack('endpoints'), ['cluster -a']);
    t.same(envoy.session.stateOf({ kind: 'cluster', name: 'a' }), { kind: 'waiting' });
    t.same(envoy.ack('cluster'), []);
    t.same(envoy.session.stateOf({ kind: 'cluster', name: 'a' }), { kind: 'acknowledged' });
    t.end();
  },
);

t.test('AdsSession removes nothing before every update is acknowledged', (t) => {
  const envoy = settled();
  const next = makeSnapshot('cluster b 1 eds-b', 'endpoints eds-b 1', 'listener l 2', 'routes r 1', 'secret s 1');
  t.same(envoy.publish(next), ['listener +l@2']);
  t.same(envoy.ack('listener'), ['endpoints -eds-a']);
  t.same(envoy.ack('endpoints'), ['cluster -a']);
  t.end();
});

t.test('AdsSession removes a listener with the update of others, whatever else is not acknowledged', (t) => {
  const envoy = settled();
  const others = NODE.filter((spec) => !spec.startsWith('listener') && !spec.startsWith('routes'));
  t.same(envoy.publish(makeSnapshot(...others, 'routes r 2', 'listener l 1', 'listener m 1')), [
    'listener +m@1',
    'routes +r@2',
  ]);
  t.same(envoy.publish(makeSnapshot(...others, 'routes r 2', 'listener m 2')), [], 'one response in flight');
  t.same(envoy.ack('listener'), ['listener +m@2 -l']);
  t.same(envoy.session.stateOf({ kind: 'listener', name: 'l' }), { kind: 'waiting' });
  t.same(envoy.ack('listener'), []);
  t.same(envoy.session.stateOf({ kind: 'listener', name: 'l' }), { kind: 'acknowledged' });
  t.end();
});

t.test('AdsSession sends the assignment again right behind its changed cluster', (t) => {
  const envoy = settled();
  t.same(envoy.publish(makeSnapshot(...NODE.slice(1), 'cluster a 2 eds-a')), ['cluster +a@2', 'endpoints +eds-a@1']);
  t.end();
});

t.test('AdsSession sends the assignment again behind a second cluster of the same name', (t) => {
  const envoy = settled();
  t.same(envoy.publish(makeSnapshot(...NODE, 'cluster twin 1 eds-a')), ['cluster +twin@1', 'endpoints +eds-a@1']);
  t.end();
});

t.test('AdsSession sends the assignment again later when another response is in flight', (t) => {
  const envoy = settled();
  t.same(envoy.publish(makeSnapshot(...NODE, 'endpoints eds-b 2')), ['endpoints +eds-b@2']);
  t.same(envoy.publish(makeSnapshot(...NODE, 'endpoints eds-b 2', 'cluster a 2 eds-a')), ['cluster +a@2']);
  t.same(envoy.ack('endpoints'), ['endpoints +eds-a@1']);
  t.end();
});

t.test('AdsSession leaves the assignment of a new cluster until Envoy asks', (t) => {
  const envoy = settled();
  t.same(envoy.publish(makeSnapshot(...NODE, 'cluster c 1 eds-c', 'endpoints eds-c 1')), ['cluster +c@1']);
  t.same(envoy.ask('endpoints', { subscribe: ['eds-c'] }), ['endpoints +eds-c@1']);
  t.end();
});

t.test('AdsSession answers a name asked for on demand', (t) => {
  const envoy = settled();
  t.same(envoy.ask('cluster', { subscribe: ['nobody.demo.aether.internal'] }), [
    'cluster -nobody.demo.aether.internal',
  ]);
  envoy.ack('cluster');
  t.same(envoy.publish(makeSnapshot(...NODE, 'cluster nobody.demo.aether.internal 1')), [
    'cluster +nobody.demo.aether.internal@1',
  ]);
  t.end();
});

t.test('AdsSession sends a name again that is asked for again', (t) => {
  const envoy = settled();
  t.same(envoy.ask('routes', { subscribe: ['r'] }), ['routes +r@1']);
  t.end();
});

t.test('AdsSession is silent about a certificate that is being issued', async (t) => {
  t.test('until it is there', (t) => {
    const envoy = settled();
    envoy.pending.add('id');
    t.same(envoy.ask('secret', { subscribe: ['id'] }), []);
    t.same(envoy.publish(makeSnapshot(...NODE, 'secret id 1')), ['secret +id@1']);
    t.end();
  });
  t.test('until it is known that it never will be', (t) => {
    const envoy = settled();
    envoy.pending.add('id');
    envoy.ask('secret', { subscribe: ['id'] });
    envoy.pending.delete('id');
    t.same(envoy.took(envoy.session.refresh()), ['secret -id']);
    t.same(envoy.took(envoy.session.refresh()), [], 'once');
    t.end();
  });
});

t.test('AdsSession forgets what Envoy no longer asks for', (t) => {
  const envoy = settled();
  envoy.ask('endpoints', { unsubscribe: ['eds-a'] });
  t.same(envoy.publish(makeSnapshot(...NODE, 'endpoints eds-a 2')), []);
  t.same(envoy.ask('endpoints', { subscribe: ['eds-a'] }), ['endpoints +eds-a@2']);
  t.end();
});

t.test('AdsSession keeps a refusal by resource', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('listener bad 1', 'listener good 1'));
  envoy.ask('listener');
  const message = 'Error adding/updating listener(s) bad: why not\n';
  t.same(envoy.nack('listener', message), []);
  t.same(envoy.session.stateOf({ kind: 'listener', name: 'good' }), { kind: 'acknowledged' });
  t.same(envoy.session.listRejections(), [{ kind: 'listener', name: 'bad', message: message.trim() }]);
  t.match(envoy.session.stateOf({ kind: 'listener', name: 'bad' }), { kind: 'rejected', message: /why not/ });

  t.same(envoy.publish(makeSnapshot('listener bad 1', 'listener good 1')), [], 'not sent again unchanged');
  t.same(envoy.publish(makeSnapshot('listener bad 2', 'listener good 1')), ['listener +bad@2']);
  t.same(envoy.session.stateOf({ kind: 'listener', name: 'bad' }), { kind: 'waiting' });
  envoy.ack('listener');
  t.same(envoy.session.listRejections(), []);
  t.end();
});

t.test('AdsSession takes a resource away and sends it again', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('listener bad 1'));
  envoy.ask('listener');
  envoy.nack('listener', 'Error adding/updating listener(s) bad: failed to open netns file');
  t.same(envoy.took(envoy.session.resend({ kind: 'listener', name: 'bad' })), ['listener -bad']);
  t.same(envoy.ack('listener'), ['listener +bad@1']);
  t.same(envoy.ack('listener'), []);
  t.same(envoy.session.stateOf({ kind: 'listener', name: 'bad' }), { kind: 'acknowledged' });
  t.end();
});

t.test('AdsSession says where a resource stands', async (t) => {
  const envoy = settled();
  const CASES = [
    ['cluster', 'a', 'acknowledged'],
    ['cluster', 'never-there', 'acknowledged'],
    ['endpoints', 'eds-a', 'acknowledged'],
    ['secret', 's', 'acknowledged'],
  ] as const;
  for (const [kind, name, state] of CASES) {
    t.test(`${kind} ${name}: ${state}`, (t) => {
      t.equal(envoy.session.stateOf({ kind, name }).kind, state);
      t.end();
    });
  }
  t.test('endpoints that Envoy has not asked for yet: waiting', (t) => {
    const fresh = new FakeEnvoy(makeSnapshot(...NODE));
    t.equal(fresh.session.stateOf({ kind: 'endpoints', name: 'eds-a' }).kind, 'waiting');
    t.equal(fresh.session.stateOf({ kind: 'listener', name: 'l' }).kind, 'waiting');
    t.end();
  });
  t.test('a secret that no connection needed yet: acknowledged', (t) => {
    t.equal(new FakeEnvoy(makeSnapshot(...NODE)).session.stateOf({ kind: 'secret', name: 's' }).kind, 'acknowledged');
    t.end();
  });
});

t.test('AdsSession leaves what is on demand out of the wildcard', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('cluster a 1', 'cluster tcp:x 1? eds-x', 'endpoints eds-x 1'));
  t.strictSame(envoy.ask('cluster'), ['cluster +a@1']);
  t.strictSame(envoy.ack('cluster'), []);
  t.strictSame(
    envoy.session.stateOf({ kind: 'cluster', name: 'tcp:x' }),
    { kind: 'acknowledged' },
    'nobody waits for it',
  );
  t.strictSame(envoy.publish(makeSnapshot('cluster a 1', 'cluster tcp:x 2? eds-x', 'endpoints eds-x 1')), []);
  t.test('until it is asked for, and from then on keeps it up to date', (t) => {
    t.strictSame(envoy.ask('cluster', { subscribe: ['tcp:x', 'tcp:none'] }), ['cluster +tcp:x@2 -tcp:none']);
    t.strictSame(envoy.session.stateOf({ kind: 'cluster', name: 'tcp:x' }), { kind: 'waiting' });
    envoy.ack('cluster');
    t.strictSame(envoy.publish(makeSnapshot('cluster a 1', 'cluster tcp:x 3? eds-x', 'endpoints eds-x 1')), [
      'cluster +tcp:x@3',
    ]);
    envoy.ack('cluster');
    t.strictSame(envoy.publish(makeSnapshot('cluster a 1')), ['cluster -tcp:x'], 'withdrawn');
    envoy.ack('cluster');
    t.strictSame(envoy.publish(makeSnapshot('cluster a 1', 'cluster tcp:x 3? eds-x', 'endpoints eds-x 1')), [
      'cluster +tcp:x@3',
    ]);
    t.end();
  });
  t.test('and keeps up to date what Envoy brings along from an earlier stream', (t) => {
    const back = new FakeEnvoy(makeSnapshot('cluster a 1', 'cluster tcp:x 2? eds-x', 'cluster tcp:y 1?'));
    t.strictSame(back.ask('cluster', { initial: { a: '1', 'tcp:x': '1' } }), ['cluster +tcp:x@2']);
    t.end();
  });
  t.end();
});

t.test('AdsSession takes nothing from an Envoy that is back while it may still come', (t) => {
  const envoy = new FakeEnvoy(makeSnapshot('cluster a 1', 'endpoints eds-a 1'));
  envoy.pending.add('far').add('eds-far');
  const initial = { a: '1', far: '1', gone: '1' };
  t.strictSame(envoy.ask('cluster', { subscribe: ['*', 'far'], initial }), ['cluster']);
  t.strictSame(envoy.ack('cluster'), ['cluster -gone']);
  t.strictSame(envoy.ack('cluster'), []);
  t.strictSame(envoy.ask('endpoints', { subscribe: ['eds-far'], initial: { 'eds-far': '1' } }), []);
  envoy.pending.clear();
  t.strictSame(envoy.took(envoy.session.refresh()), ['cluster -far', 'endpoints -eds-far']);
  t.end();
});

t.test('AdsSession looks at the assignments alone that a snapshot says it changed', (t) => {
  const envoy = settled();
  const base = makeSnapshot(...NODE);
  t.same(envoy.publish(base), []);
  const patch = (since: Snapshot, endpoints: readonly string[], ...specs: readonly string[]): Snapshot => ({
    ...makeSnapshot(...NODE, ...specs),
    change: { since: since.resources, changed: { endpoints }, removed: {} },
  });
  const one = patch(base, ['eds-a', 'eds-nobody-asked'], 'endpoints eds-a 2', 'endpoints eds-nobody-asked 1');
  t.same(envoy.publish(one), ['endpoints +eds-a@2']);
  const two = patch(one, ['eds-b'], 'endpoints eds-a 2', 'endpoints eds-b 2');
  t.same(envoy.publish(two), [], 'one is in flight');
  t.same(envoy.ack('endpoints'), ['endpoints +eds-b@2']);
  t.same(envoy.ack('endpoints'), []);
  // Said of another snapshot than Envoy has: all is looked at.
  t.same(envoy.publish(patch(base, [], 'endpoints eds-a 3', 'endpoints eds-b 2')), ['endpoints +eds-a@3']);
  envoy.ack('endpoints');
  t.same(envoy.publish(makeSnapshot('endpoints eds-a 3')).length, 1, 'and what goes is taken away after');
  t.end();
});

t.test(
  'AdsSession looks at what a snapshot says it changed, of every kind, and takes away what it says is gone',
  (t) => {
    const envoy = settled();
    const base = makeSnapshot(...NODE);
    t.same(envoy.publish(base), []);
    const next = makeSnapshot(...NODE.filter((spec) => !spec.startsWith('cluster b')), 'cluster a 2', 'cluster new 1');
    const removed = [...base.resources.cluster.keys()].filter((name) => !next.resources.cluster.has(name));
    const change = { since: base.resources, changed: { cluster: ['a', 'new'] }, removed: { cluster: removed } };
    t.same(envoy.publish({ ...next, change }), ['cluster +a@2 +new@1']);
    t.same(envoy.ack('cluster'), ['cluster -b']);
    t.same(envoy.ack('cluster'), []);
    t.end();
  },
);
