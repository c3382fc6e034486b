// The application of a test pod: `node xds-app.ts NAME http=8080 banner=5432 echo=9000`.
//   http    200 with JSON {app, port, from, headers}; a WebSocket upgrade is taken, and what comes is sent back
//   h2      the same over HTTP/2 with prior knowledge, as gRPC speaks
//   banner  speaks first: "HELLO from NAME:PORT <client address>"
//   echo    sends back what it gets behind "NAME:PORT "
import { createServer as createHttpServer } from 'node:http';
import { createServer as createH2Server } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';

const [name = 'app', ...specs] = process.argv.slice(2);

for (const spec of specs) {
  const [kind, portText] = spec.split('=');
  const port = Number(portText);
  makeServer(kind, port).listen(port, '::', () => process.stdout.write(`listening ${spec}\n`));
}

function makeServer(kind: string | undefined, port: number): Server {
  switch (kind) {
    case 'http':
      return createHttpServer((request, response) => {
        const from = request.socket.remoteAddress?.replace('::ffff:', '');
        response.end(JSON.stringify({ app: name, port, from, headers: request.headers }));
      }).on('upgrade', (_request, socket) => {
        socket.on('error', () => {});
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
        socket.pipe(socket);
      });
    case 'h2':
      return createH2Server((request, response) => {
        response.end(JSON.stringify({ app: name, port, headers: request.headers }));
      });
    case 'banner':
      return createServer((socket) => {
        quiet(socket).resume();
        socket.write(`HELLO from ${name}:${port} ${socket.remoteAddress?.replace('::ffff:', '')}\n`);
      });
    case 'echo':
      return createServer((socket) => {
        quiet(socket).on('data', (bytes) => socket.write(Buffer.concat([Buffer.from(`${name}:${port} `), bytes])));
      });
    default:
      throw new Error(`unknown application "${kind}"`);
  }
}

function quiet(socket: Socket): Socket {
  return socket.on('error', () => {});
}
