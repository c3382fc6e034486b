// Answers on every port of its namespace at once: `node resolve-app.ts NAME PORT [FIRST_PORT]`, with rules that lead all
// ports to one of the two. HTTP/1 and HTTP/2 get a response, other bytes a line; on FIRST_PORT the line comes unasked. All of
// them hold JSON {app, from, caller}: who answers, whom it sees, and the identity that the mesh told it.
import { createServer as createH2Server } from 'node:http2';
import { connect, createServer, type Socket } from 'node:net';

const [name = 'app', ...ports] = process.argv.slice(2);
// Abstract: of this network namespace, and beyond the rule that leads ports here.
const H2_SOCKET = '\0resolve-app-h2';

const h2 = createH2Server((request, response) => {
  response.end(describe('', String(request.headers['x-forwarded-client-cert'])));
});
h2.on('sessionError', () => {});
h2.listen({ path: H2_SOCKET });

for (const [index, port] of ports.entries()) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    if (index === 1) socket.write(`${describe(addressOf(socket))}\n`);
    // Again and again: Envoy keeps connections for the next request.
    socket.on('data', (bytes) => answer(socket, bytes));
  });
  server.listen(Number(port), '::', 4096, () => process.stdout.write(`listening ${port}\n`));
}

// HTTP/1 by hand: Node's server refuses requests that Envoy lets through, such as one without Host.
function answer(socket: Socket, bytes: Buffer): void {
  const text = bytes.toString('latin1');
  if (text.startsWith('PRI ')) {
    passToH2(socket.removeAllListeners('data'), bytes);
    return;
  }
  const body = describe(addressOf(socket), /^x-forwarded-client-cert:(.*)$/im.exec(text)?.[1]);
  const head = text.startsWith('GET ') ? `HTTP/1.1 200 OK\r\nContent-Length: ${body.length + 1}\r\n\r\n` : '';
  socket.write(`${head}${body}\n`);
}

function passToH2(socket: Socket, bytes: Buffer): void {
  const inner = connect({ path: H2_SOCKET });
  inner.on('error', () => socket.destroy());
  inner.write(bytes);
  socket.pipe(inner).pipe(socket);
}

function addressOf(socket: Socket): string {
  return socket.remoteAddress?.replace('::ffff:', '') ?? '';
}

function describe(from: string, certificate = ''): string {
  const caller = /URI=([^;,"]+)/.exec(certificate)?.[1]?.trim();
  return JSON.stringify({ app: name, from, caller });
}
