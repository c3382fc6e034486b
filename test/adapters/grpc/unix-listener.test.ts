// Whose socket file is taken away: only one that certainly has no server.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { removeStaleSocket } from '../../../src/adapters/grpc/unix-listener.ts';
import { StoreError } from '../../../src/core/errors.ts';

/** Listens, and is too busy to accept anybody. */
const BUSY = `require('node:net').createServer().listen({ path: process.argv[1], backlog: 1 }, () => {
  require('node:fs').writeSync(1, 'listening');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
})`;

async function makePath(t: Test): Promise<string> {
  const dir = await mkdtemp('/tmp/ae-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return join(dir, 's');
}

async function startBusyServer(t: Test, path: string): Promise<() => Promise<void>> {
  const child = spawn(process.execPath, ['-e', BUSY, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  t.teardown(end);
  await once(child.stdout, 'data');
  return end;
}

t.test('removeStaleSocket() leaves a server alone that has no room for another client', async (t) => {
  const path = await makePath(t);
  await startBusyServer(t, path);
  let isFull = false;
  while (!isFull) {
    const client = connect(path);
    t.teardown(() => client.destroy());
    isFull = await new Promise<boolean>((resolve) => {
      client.on('connect', () => resolve(false));
      client.on('error', () => resolve(true));
    });
  }
  await t.rejects(removeStaleSocket(path), StoreError);
  t.ok(existsSync(path));
});

t.test('removeStaleSocket() removes the socket of a server that is gone', async (t) => {
  const path = await makePath(t);
  const end = await startBusyServer(t, path);
  await end();
  t.ok(existsSync(path), 'it left its file');
  await removeStaleSocket(path);
  t.notOk(existsSync(path));
  await removeStaleSocket(path);
});

t.test('removeStaleSocket() never removes what is no socket', async (t) => {
  const path = await makePath(t);
  await writeFile(path, '');
  await t.rejects(removeStaleSocket(path), StoreError);
  t.ok(existsSync(path));
});
