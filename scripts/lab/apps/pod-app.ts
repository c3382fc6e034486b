// The application of a lab pod. `node pod-app.ts NAME http=8080 echo=9000 banner=5432`; listens on every address.
//   http    200 with JSON {app, port, host, peer}; peer is the client's identity as the mesh hands it on
//   echo    sends back what it gets behind "NAME:PORT "
//   banner  a server-first protocol: greets with "HELLO from NAME:PORT" before it reads a byte
//   tls     the same within TLS; certificate and key are the files in LAB_TLS_CERT and LAB_TLS_KEY
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

const [name = 'app', ...specs] = process.argv.slice(2);

for (const spec of specs) {
  const [kind, portText] = spec.split('=');
  const port = Number(portText);
  makeServer(kind, port).listen(port, '::');
}

function makeServer(kind: string | undefined, port: number): Server {
  if (kind === 'http') return httpApp(port);
  if (kind === 'tls') return tlsApp(port);
  return createServer(tcpApp(kind, port));
}

function tlsApp(port: number): Server {
  const read = (name: string) => readFileSync(process.env[name] ?? '');
  const server = createTlsServer({ cert: read('LAB_TLS_CERT'), key: read('LAB_TLS_KEY') }, tcpApp('banner', port));
  server.on('tlsClientError', () => {});
  return server;
}

function httpApp(port: number): Server {
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
