// The application of a lab pod. `node pod-app.ts NAME http=8080 echo=9000 banner=5432`; listens on every address.
//   http    200 with JSON {app, port, host, peer}; peer is the client's identity as the mesh hands it on
//   echo    sends back what it gets behind "NAME:PORT "
//   banner  a server-first protocol: greets with "HELLO from NAME:PORT" before it reads a byte
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Socket } from 'node:net';

const [name = 'app', ...specs] = process.argv.slice(2);

for (const spec of specs) {
  const [kind, portText] = spec.split('=');
  const port = Number(portText);
  const server = kind === 'http' ? httpApp(port) : createServer({ allowHalfOpen: false }, tcpApp(kind, port));
  server.listen(port, '::');
}

function httpApp(port: number) {
  return createHttpServer((request, response) => {
    const peer = request.headers['x-forwarded-client-cert'];
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ app: name, port, host: request.headers.host, peer }));
  });
}

function tcpApp(kind: string | undefined, port: number): (socket: Socket) => void {
  if (kind === 'echo') {
    return (socket) => {
      socket.on('error', () => {});
      socket.on('data', (bytes) => socket.write(Buffer.concat([Buffer.from(`${name}:${port} `), bytes])));
    };
  }
  if (kind === 'banner') {
    return (socket) => {
      socket.on('error', () => {});
      socket.resume();
      socket.write(`HELLO from ${name}:${port}\n`);
    };
  }
  throw new Error(`unknown application "${kind}"`);
}
