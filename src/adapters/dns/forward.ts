// Hands a query on to the node's own resolvers, byte for byte, and brings the answer back.
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createConnection } from 'node:net';
import type { SocketAddress } from '../../core/socket-address.ts';

export interface ForwardOptions {
  readonly upstreams: readonly SocketAddress[];
  readonly transport: 'udp' | 'tcp';
  /** For each upstream. */
  readonly timeoutMs: number;
}

/** Asks one upstream after the other; undefined when none answered in time. */
export async function forwardQuery(query: Buffer, options: ForwardOptions): Promise<Buffer | undefined> {
  const ask = options.transport === 'udp' ? askUdp : askTcp;
  for (const upstream of options.upstreams) {
    // Another id and port than the client's, both random: whoever wants to forge the answer has to guess them.
    const id = randomInt(0x10000);
    const sent = Buffer.from(query);
    sent.writeUInt16BE(id, 0);
    const reply = await ask(sent, upstream, options.timeoutMs);
    if (reply === undefined) continue;
    query.copy(reply, 0, 0, 2);
    return reply;
  }
  return undefined;
}

/** Whether the bytes answer this query: its id, a response, the same question. */
function isAnswerTo(query: Buffer, reply: Buffer): boolean {
  if (reply.length < 12 || reply.readUInt16BE(0) !== query.readUInt16BE(0)) return false;
  if ((reply.readUInt16BE(2) & 0x8000) === 0) return false;
  // A refusal may come without the question.
  if (reply.readUInt16BE(4) === 0) return true;
  const end = questionEnd(query);
  const asked = query.subarray(12, end).toString('latin1').toLowerCase();
  return reply.subarray(12, end).toString('latin1').toLowerCase() === asked;
}

// A question's name is never compressed: it is the first name of the packet.
function questionEnd(query: Buffer): number {
  let at = 12;
  while (at < query.length && query[at] !== 0) at += (query[at] ?? 0) + 1;
  return at + 5;
}

function askUdp(query: Buffer, upstream: SocketAddress, timeoutMs: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(upstream.address.family === 4 ? 'udp4' : 'udp6');
    const finish = (reply?: Buffer): void => {
      clearTimeout(timer);
      socket.removeAllListeners('message');
      socket.close();
      resolve(reply);
    };
    const timer = setTimeout(finish, timeoutMs);
    // Connected, so that only the upstream can answer and a closed port is heard of at once.
    socket.on('error', () => finish());
    socket.on('message', (reply) => {
      if (isAnswerTo(query, reply)) finish(Buffer.from(reply));
    });
    // Never as connect's callback: that is called with the error, too, where there is no route to the upstream.
    socket.on('connect', () => socket.send(query));
    socket.connect(upstream.port, upstream.address.text);
  });
}

function askTcp(query: Buffer, upstream: SocketAddress, timeoutMs: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const socket = createConnection({ port: upstream.port, host: upstream.address.text });
    let received = Buffer.alloc(0);
    const finish = (reply?: Buffer): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reply);
    };
    const timer = setTimeout(finish, timeoutMs);
    socket.on('error', () => finish());
    socket.on('close', () => finish());
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const reply = received.subarray(2, 2 + received.readUInt16BE(0));
      finish(isAnswerTo(query, reply) ? Buffer.from(reply) : undefined);
    });
    const length = Buffer.alloc(2);
    length.writeUInt16BE(query.length);
    socket.on('connect', () => socket.write(Buffer.concat([length, query])));
  });
}
