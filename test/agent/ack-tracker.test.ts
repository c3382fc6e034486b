// Waiting for Envoy's word, with a clock and answers that the test moves: taken, refused, too late, or nobody connected.
import t from 'tap';
import { AckTracker } from '../../src/agent/ack-tracker.ts';
import type { AckState } from '../../src/agent/ads-protocol.ts';
import type { ResourceName } from '../../src/agent/publisher.ts';
import { ManualClock } from '../support/xds-clock.ts';

const A: ResourceName = { kind: 'cluster', name: 'a' };
const B: ResourceName = { kind: 'listener', name: 'b' };
const DONE: AckState = { kind: 'acknowledged' };
const WAITING: AckState = { kind: 'waiting' };

function setUp() {
  const clock = new ManualClock();
  const states = new Map<string, AckState>([
    ['a', WAITING],
    ['b', WAITING],
  ]);
  const connected = { value: true };
  const tracker = new AckTracker({
    clock,
    stateOf: ({ name }) => (connected.value ? states.get(name) : undefined),
  });
  return { clock, states, connected, tracker };
}

t.test('AckTracker resolves when all are taken', async (t) => {
  const { clock, states, tracker } = setUp();
  const result = tracker.wait([A, B], { timeoutMs: 100 });
  states.set('a', DONE);
  tracker.check();
  t.equal(clock.pending, 1, 'still waiting for b');
  states.set('b', DONE);
  tracker.check();
  t.same(await result, { kind: 'acknowledged' });
  t.equal(clock.pending, 0, 'no timer is left');
});

t.test('AckTracker resolves at once where nothing is to wait for', async (t) => {
  const { clock, tracker } = setUp();
  t.same(await tracker.wait([], { timeoutMs: 100 }), { kind: 'acknowledged' });
  t.equal(clock.pending, 0);
});

t.test('AckTracker resolves as soon as one is refused, with its words', async (t) => {
  const { states, tracker } = setUp();
  const result = tracker.wait([A, B], { timeoutMs: 100 });
  states.set('b', { kind: 'rejected', message: 'no' });
  tracker.check();
  t.same(await result, { kind: 'rejected', resources: [{ name: 'b', message: 'no' }] });
});

t.test('AckTracker names what it waited for when the time is over', async (t) => {
  const { clock, states, tracker } = setUp();
  const result = tracker.wait([A, B], { timeoutMs: 100 });
  states.set('a', DONE);
  tracker.check();
  clock.advance(99);
  t.equal(clock.pending, 1);
  clock.advance(1);
  t.same(await result, { kind: 'timeout', waitingFor: ['b'] });
});

t.test('AckTracker says that no Envoy is connected only when none came in time', async (t) => {
  const { clock, connected, states, tracker } = setUp();
  connected.value = false;
  const never = tracker.wait([A], { timeoutMs: 100 });
  clock.advance(100);
  t.same(await never, { kind: 'disconnected' });

  const late = tracker.wait([A], { timeoutMs: 100 });
  connected.value = true;
  states.set('a', DONE);
  tracker.check();
  t.same(await late, { kind: 'acknowledged' });
});
