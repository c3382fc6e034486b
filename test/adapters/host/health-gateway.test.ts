// The client of Envoy's health gateway, which an HTTP server plays on a Unix socket: when a kept connection is believed, and
// when a fresh one is asked.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createHealthGateway } from '../../../src/adapters/host/health-gateway.ts';

async function start(t: Test, answer: (path: string, response: ServerResponse) => void) {
  const dir = mkdtempSync('/tmp/ae-health-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const socketPath = join(dir, 'health.sock');
  const sockets: Socket[] = [];
  const server: Server = createServer((request, response) => answer(request.url ?? '', response));
  server.on('connection', (socket: Socket) => void sockets.push(socket));
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  t.teardown(() => server.close());
  t.teardown(() => server.closeAllConnections());
  const gateway = createHealthGateway(socketPath);
  t.teardown(() => gateway[Symbol.dispose]());
  return { gateway, sockets, dir };
}

t.test('ask() gives the status, over one connection', async (t) => {
  const { gateway, sockets } = await start(t, (path, response) => {
    response.statusCode = path === '/well' ? 200 : 503;
    response.end('body');
  });
  t.equal(await gateway.ask('/well'), 200);
  t.equal(await gateway.ask('/ill'), 503);
  t.equal(sockets.length, 1);
});

t.test('ask() asks again when a kept connection turns out to be closed', async (t) => {
  let count = 0;
  const { gateway, sockets } = await start(t, (_path, response) => {
    count += 1;
    if (count === 2) response.socket?.destroy();
    else response.end();
  });
  t.equal(await gateway.ask('/'), 200);
  t.equal(await gateway.ask('/'), 200);
  t.equal(sockets.length, 2);
});

t.test('ask() believes no 404 of a kept connection, and none about all pods', async (t) => {
  const first = new Set<unknown>();
  // A connection knows the pods that were there when it was made, as Envoy's do.
  const { gateway, sockets } = await start(t, (path, response) => {
    if (sockets.length === 1) first.add(response.socket);
    response.statusCode = path === '/here' || !first.has(response.socket) ? 200 : 404;
    response.end();
  });
  t.equal(await gateway.ask('/here'), 200);
  t.equal(await gateway.ask('/came-later'), 200);
  t.equal(sockets.length, 2);
  t.equal(await gateway.ask('/healthz/all'), 200);
  t.equal(sockets.length, 3);
});

t.test('ask() rejects when a fresh connection is closed without an answer', async (t) => {
  const { gateway } = await start(t, (_path, response) => response.socket?.destroy());
  await t.rejects(gateway.ask('/'), { code: 'ECONNRESET' });
});

t.test('ask() rejects when nobody listens, and when nobody answers', async (t) => {
  const { gateway, dir } = await start(t, () => {});
  await t.rejects(gateway.ask('/'), { message: /no answer in 2000 ms/ });
  const nobody = createHealthGateway(join(dir, 'nobody.sock'));
  await t.rejects(nobody.ask('/'), { code: 'ENOENT' });
});
