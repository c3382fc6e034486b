// Mesh DNS: what the pods' rules send their queries to. It answers names of the mesh itself and forwards all others to
// the node's resolvers. UDP and TCP on each address.
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { createServer, type Server, type Socket } from 'node:net';
import { messageOf } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { formatSocketAddress, type SocketAddress } from '../../core/socket-address.ts';
import { answerQuery, type MeshNames, replyServfail } from './answer.ts';
import { forwardQuery } from './forward.ts';

export interface MeshDnsOptions {
  /** Port 0 lets the kernel choose one, the same for UDP and TCP. */
  readonly listen: readonly SocketAddress[];
  readonly domain: string;
  readonly names: MeshNames;
  /** Asked at each query: the node's resolvers may change. */
  readonly upstreams: () => readonly SocketAddress[];
  readonly log: Log;
  /** For each upstream; default 2 s. */
  readonly forwardTimeoutMs?: number;
}

export interface MeshDns {
  /** Where it listens, with the ports chosen. */
  readonly addresses: readonly SocketAddress[];
  close(): Promise<void>;
}

/** More queries than this wait for upstreams only when these are away: they are refused at once. */
const MAX_FORWARDED = 512;
const MAX_CONNECTIONS = 256;
const TCP_IDLE_MS = 10_000;

/** Binds every address, or none. Throws the bind's error (`EADDRINUSE`). */
export async function openMeshDns(options: MeshDnsOptions): Promise<MeshDns> {
  const open: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => void (await Promise.all(open.map((one) => one.close())));
  const resolver = new Resolver(options);
  const addresses: SocketAddress[] = [];
  try {
    for (const wanted of options.listen) {
      const tcp = await listenTcp(wanted, resolver, options.log);
      open.push(tcp);
      const address = { ...wanted, port: tcp.port };
      open.push(await listenUdp(address, resolver, options.log));
      addresses.push(address);
      options.log.info('dns.listening', { address: formatSocketAddress(address), domain: options.domain });
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { addresses, close };
}

class Resolver {
  readonly #options: MeshDnsOptions;
  #forwarded = 0;

  constructor(options: MeshDnsOptions) {
    this.#options = options;
  }

  /** The reply to any bytes; undefined: none is due. Never rejects. */
  async resolve(query: Buffer, transport: 'udp' | 'tcp'): Promise<Buffer | undefined> {
    const { domain, names } = this.#options;
    const outcome = answerQuery(query, { domain, names, transport });
    if (outcome.kind === 'drop') return undefined;
    if (outcome.kind === 'reply') return outcome.bytes;
    if (this.#forwarded >= MAX_FORWARDED) return replyServfail(query);
    this.#forwarded++;
    try {
      const timeoutMs = this.#options.forwardTimeoutMs ?? 2000;
      const reply = await forwardQuery(query, { upstreams: this.#options.upstreams(), transport, timeoutMs });
      return reply ?? replyServfail(query);
    } catch (error) {
      this.#options.log.debug('dns.forward.failed', { reason: messageOf(error) });
      return replyServfail(query);
    } finally {
      this.#forwarded--;
    }
  }
}

async function listenUdp(at: SocketAddress, resolver: Resolver, log: Log): Promise<{ close(): Promise<void> }> {
  const socket: UdpSocket = createSocket(at.address.family === 4 ? { type: 'udp4' } : { type: 'udp6', ipv6Only: true });
  let isOpen = true;
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.bind({ port: at.port, address: at.address.text, exclusive: true }, () => {
      socket.off('error', reject);
      resolve();
    });
  });
  socket.on('error', (error) => log.warn('dns.udp.error', { reason: error.message }));
  socket.on('message', (query, from) => {
    void resolver.resolve(query, 'udp').then((reply) => {
      // A client that is gone by now is no error of ours.
      if (reply !== undefined && isOpen) socket.send(reply, from.port, from.address, () => {});
    });
  });
  return {
    close: () => {
      isOpen = false;
      return new Promise((resolve) => socket.close(() => resolve()));
    },
  };
}

async function listenTcp(
  at: SocketAddress,
  resolver: Resolver,
  log: Log,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const connections = new Set<Socket>();
  const server: Server = createServer((connection) => {
    connections.add(connection);
    connection.on('close', () => connections.delete(connection));
    serveConnection(connection, resolver);
  });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: at.port, host: at.address.text, ipv6Only: true }, () => {
      server.off('error', reject);
      resolve();
    });
  });
  server.on('error', (error) => log.warn('dns.tcp.error', { reason: error.message }));
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : at.port,
    close: () => {
      for (const connection of connections) connection.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

// Each message has its length in two bytes before it (RFC 1035, 4.2.2). Queries of one connection may overlap.
function serveConnection(connection: Socket, resolver: Resolver): void {
  let received = Buffer.alloc(0);
  connection.setTimeout(TCP_IDLE_MS, () => connection.destroy());
  connection.on('error', () => connection.destroy());
  connection.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      const end = 2 + received.readUInt16BE(0);
      const query = received.subarray(2, end);
      received = received.subarray(end);
      void resolver.resolve(query, 'tcp').then((reply) => {
        if (reply === undefined) return connection.destroy();
        const length = Buffer.alloc(2);
        length.writeUInt16BE(reply.length);
        return connection.write(Buffer.concat([length, reply]));
      });
    }
  });
}
