import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { readPeerCredentials } from '../../../src/adapters/kernel/peer-credentials.ts';
import { openNative } from '../../support/native.ts';

const native = openNative();

/** Node has no public way to a socket's descriptor. */
function descriptorOf(socket: Socket): number {
  return (socket as unknown as { _handle: { fd: number } })._handle.fd;
}

t.test('readPeerCredentials() gives the process that connected', async (t) => {
  const directory = mkdtempSync('/tmp/ae-peer-');
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const path = join(directory, 's');
  const server = createServer().listen(path);
  t.teardown(() => server.close());
  await once(server, 'listening');
  const client = connect(path);
  const [peer] = (await once(server, 'connection')) as [Socket];
  t.teardown(() => {
    client.destroy();
    peer.destroy();
  });
  const wanted = { pid: process.pid, uid: process.getuid?.(), gid: process.getgid?.() };
  t.strictSame(readPeerCredentials(native, descriptorOf(peer)), wanted);
});

t.test('readPeerCredentials() refuses what is no socket', (t) => {
  const fd = openSync('/dev/null', 'r');
  t.teardown(() => closeSync(fd));
  t.throws(() => readPeerCredentials(native, fd), { code: 'E_KERNEL', errnoName: 'ENOTSOCK' });
  t.throws(() => readPeerCredentials(native, -1), { code: 'E_KERNEL', errnoName: 'EBADF' });
  t.end();
});
