// Which call runs, waits or is refused, with calls that end when they are told to: no socket, no agent. Above all, calls of
// one container, and the DEL that ends its ADDs.
import t from 'tap';
import { CallQueue, type QueuedCall } from '../../../src/adapters/relay/call-queue.ts';

/** A call that ends when told to, and writes down what was done with it. */
class FakeCall implements QueuedCall {
  readonly verb: string;
  readonly containerId: string;
  readonly done: string[] = [];
  readonly #over = Promise.withResolvers<void>();

  constructor(verb: string, containerId: string) {
    this.verb = verb;
    this.containerId = containerId;
  }

  start(): Promise<void> {
    this.done.push('start');
    return this.#over.promise;
  }

  cancel(): void {
    this.done.push('cancel');
  }

  refuse(): void {
    this.done.push('refuse');
  }

  async end(): Promise<void> {
    this.#over.resolve();
    // As many turns as the queue needs to go on.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function submitAll(queue: CallQueue, calls: readonly FakeCall[]): void {
  for (const call of calls) queue.submit(call);
}

t.test('CallQueue runs at most maxRunning calls, in the order of arrival', async (t) => {
  const queue = new CallQueue({ maxRunning: 2, maxWaiting: 10 });
  const calls = ['a', 'b', 'c', 'd'].map((id) => new FakeCall('ADD', id));
  submitAll(queue, calls);
  t.same(
    calls.map((call) => call.done.length),
    [1, 1, 0, 0],
  );
  await calls[1]?.end();
  t.same(
    calls.map((call) => call.done.length),
    [1, 1, 1, 0],
  );
  t.equal(queue.runningCount, 2);
  t.equal(queue.waitingCount, 1);
});

t.test('CallQueue runs calls of one container one after another, and others past them', async (t) => {
  const queue = new CallQueue({ maxRunning: 10, maxWaiting: 10 });
  const [first, second, third, other] = [
    new FakeCall('DEL', 'a'),
    new FakeCall('ADD', 'a'),
    new FakeCall('CHECK', 'a'),
    new FakeCall('ADD', 'b'),
  ] as const;
  submitAll(queue, [first, second, third, other]);
  t.same([first.done, second.done, third.done, other.done], [['start'], [], [], ['start']]);
  await first.end();
  t.same([second.done, third.done], [['start'], []]);
  await second.end();
  t.same(third.done, ['start']);
});

t.test('CallQueue runs calls without a container side by side', (t) => {
  const queue = new CallQueue({ maxRunning: 10, maxWaiting: 10 });
  const calls = [new FakeCall('STATUS', ''), new FakeCall('STATUS', ''), new FakeCall('GC', '')];
  submitAll(queue, calls);
  for (const call of calls) t.same(call.done, ['start']);
  t.end();
});

t.test('CallQueue lets a DEL cancel the ADDs of its container, waiting and running, and no other call', async (t) => {
  const queue = new CallQueue({ maxRunning: 3, maxWaiting: 10 });
  const [running, check, waiting, other, filler, del] = [
    new FakeCall('ADD', 'a'),
    new FakeCall('CHECK', 'a'),
    new FakeCall('ADD', 'a'),
    new FakeCall('ADD', 'b'),
    new FakeCall('STATUS', ''),
    new FakeCall('DEL', 'a'),
  ] as const;
  submitAll(queue, [running, check, waiting, other, filler, del]);
  t.same(running.done, ['start', 'cancel'], 'the ADD at work is told');
  t.same(waiting.done, ['cancel'], 'the ADD in line is never started');
  t.same([check.done, other.done, del.done], [[], ['start'], []]);
  await running.end();
  await check.end();
  t.same(del.done, ['start'], 'the DEL follows the ADD');
  t.same(waiting.done, ['cancel']);
});

t.test('CallQueue refuses what is beyond maxWaiting', (t) => {
  const queue = new CallQueue({ maxRunning: 1, maxWaiting: 1 });
  const calls = ['a', 'b', 'c'].map((id) => new FakeCall('ADD', id));
  submitAll(queue, calls);
  t.same(
    calls.map((call) => call.done),
    [['start'], [], ['refuse']],
  );
  t.end();
});

t.test('withdraw() takes a waiting call out of the line', async (t) => {
  const queue = new CallQueue({ maxRunning: 1, maxWaiting: 5 });
  const [first, gone, last] = [new FakeCall('ADD', 'a'), new FakeCall('ADD', 'b'), new FakeCall('ADD', 'c')] as const;
  submitAll(queue, [first, gone, last]);
  queue.withdraw(gone);
  await first.end();
  t.same([gone.done, last.done], [[], ['start']]);
});

t.test('close() refuses what waits and what comes, and waits for what runs', async (t) => {
  const queue = new CallQueue({ maxRunning: 1, maxWaiting: 5 });
  const [running, waiting, late] = [
    new FakeCall('ADD', 'a'),
    new FakeCall('ADD', 'b'),
    new FakeCall('DEL', 'c'),
  ] as const;
  submitAll(queue, [running, waiting]);
  let closed = false;
  const closing = queue.close().then(() => {
    closed = true;
  });
  queue.submit(late);
  t.same([waiting.done, late.done], [['refuse'], ['refuse']]);
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(closed, false);
  await running.end();
  await closing;
  t.equal(closed, true);
});
