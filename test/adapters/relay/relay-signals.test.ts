// A signal may come at any moment, in the middle of a system call: V8's profiler sends them by the thousand.
import { Session } from 'node:inspector/promises';
import t from 'tap';
import { call, openWorld } from './relay-world.ts';

const CALLS = 3000;

t.test('a signal takes no call from its caller', async (t) => {
  await using world = await openWorld(async () => ({ stdout: 'fine', exitCode: 0 }));
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: 30 });
  await session.post('Profiler.start');
  const kinds = new Map<string, number>();
  for (let i = 0; i < CALLS; i++) {
    const { kind } = await call(world.socketPath, { CNI_COMMAND: 'ADD', CNI_CONTAINERID: `c${i}` });
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  session.disconnect();
  t.same([...kinds], [['answer', CALLS]]);
});
