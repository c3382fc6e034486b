// Whose socket file is taken away: only one that certainly has no server. And who may connect to ours, at any moment.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { listenOnUnixSocket, removeStaleSocket } from '../../../src/adapters/host/unix-listener.ts';
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

t.test('removeStaleSocket() tells somebody who may not use the socket to be root', async (t) => {
  const path = await makePath(t);
  await startBusyServer(t, path);
  chmodSync(path, 0o600);
  chmodSync(dirname(path), 0o755);
  process.seteuid?.(65534);
  t.teardown(() => process.seteuid?.(0));
  await t.rejects(removeStaleSocket(path), { message: /EACCES: the socket there is not ours to use; run .* as root/ });
  process.seteuid?.(0);
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

t.test(
  'listenOnUnixSocket() makes the socket private, and leaves the umask as it was, also of two at once',
  async (t) => {
    const before = process.umask(0o022);
    t.teardown(() => process.umask(before));
    const modes: number[] = [];
    const umasks: number[] = [];
    const socketPaths = await Promise.all([makePath(t), makePath(t)]);
    const bound = socketPaths.map((socketPath) => {
      const server = createServer();
      t.teardown(() => server.close());
      const listen = server.listen.bind(server);
      // What others see before it is over.
      server.listen = (...given: unknown[]) => {
        const listening = Reflect.apply(listen, server, given);
        modes.push(statSync(socketPath).mode & 0o777);
        queueMicrotask(() => umasks.push(process.umask()));
        return listening;
      };
      return listenOnUnixSocket(server, { socketPath, mode: 0o660 });
    });
    await Promise.all(bound);
    t.strictSame(modes, [0o600, 0o600], 'until it has its mode');
    t.strictSame(umasks, [0o022, 0o022]);
    for (const path of socketPaths) t.equal(statSync(path).mode & 0o777, 0o660);
  },
);

t.test('listenOnUnixSocket() refuses a path that is too long, and one on which somebody answers', async (t) => {
  const path = await makePath(t);
  const [one, other] = [createServer(), createServer()];
  t.teardown(() => one.close());
  const long = { socketPath: `${path}${'x'.repeat(108)}`, mode: 0o600 };
  await t.rejects(listenOnUnixSocket(one, long), { code: 'E_STORE', message: /107 bytes at most/ });
  await listenOnUnixSocket(one, { socketPath: path, mode: 0o600 });
  const answered = listenOnUnixSocket(other, { socketPath: path, mode: 0o600 });
  await t.rejects(answered, { code: 'E_STORE', message: /another agent answers there/ });
  t.ok(one.listening);
});
