// A signal may come at any moment, in the middle of a system call.
import { spawn } from 'node:child_process';
import t from 'tap';
import { call, openWorld } from './relay-world.ts';

const CALLS = 2000;

t.test('a signal takes no call from its caller', async (t) => {
  let heard = 0;
  process.on('SIGUSR2', () => void heard++);
  await using world = await openWorld(async () => ({ stdout: 'fine', exitCode: 0 }));
  const sender = spawn('sh', ['-c', 'while kill -USR2 "$0" 2>/dev/null; do :; done', String(process.pid)]);
  t.teardown(() => sender.kill('SIGKILL'));
  const kinds = new Map<string, number>();
  for (let i = 0; i < CALLS; i++) {
    const { kind } = await call(world.socketPath, { CNI_COMMAND: 'ADD', CNI_CONTAINERID: `c${i}` });
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  sender.kill('SIGKILL');
  t.same([...kinds], [['answer', CALLS]]);
  t.ok(heard > 0);
});
