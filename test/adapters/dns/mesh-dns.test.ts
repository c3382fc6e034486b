// The node's resolver: its answers, then real sockets on loopback, both families and transports. Upstreams that are
// silent, closed or forge an answer are played here.
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { type DecodedPacket, decode, encode, RECURSION_DESIRED, type RecordType, streamEncode } from 'dns-packet';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { answerQuery, type MeshNames } from '../../../src/adapters/dns/answer.ts';
import { forwardQuery } from '../../../src/adapters/dns/forward.ts';
import { type MeshDns, openMeshDns } from '../../../src/adapters/dns/mesh-dns.ts';
import { formatSocketAddress, parseSocketAddress, type SocketAddress } from '../../../src/core/socket-address.ts';
import { RecordingLog } from '../../support/recording-log.ts';
import { makeIp } from '../../support/services.ts';

const DOMAIN = 'aether.internal';
const SERVICES = new Map([
  ['demo/shop', ['10.96.0.50', 'fd96::50']],
  ['demo/v4', ['10.96.0.60']],
  ['demo/many', Array.from({ length: 60 }, (_, i) => `10.97.0.${i + 1}`)],
]);
const NAMES: MeshNames = {
  find: ({ namespace, serviceAccount }) => SERVICES.get(`${namespace}/${serviceAccount}`)?.map(makeIp),
  hasNamespace: (namespace) => namespace === 'demo',
};
const RCODE_NXDOMAIN = 3;

function makeQuery(name: string, type: string, more: { edns?: number; id?: number } = {}): Buffer {
  return encode({
    id: more.id ?? 4711,
    type: 'query',
    flags: RECURSION_DESIRED,
    questions: [{ name, type: type as RecordType }],
    additionals:
      more.edns === undefined
        ? []
        : [
            {
              type: 'OPT',
              name: '.',
              udpPayloadSize: more.edns,
              extendedRcode: 0,
              ednsVersion: 0,
              flags: 0,
              flag_do: false,
              options: [],
            },
          ],
  });
}

function answer(query: Buffer, transport: 'udp' | 'tcp' = 'udp'): DecodedPacket {
  const outcome = answerQuery(query, { domain: DOMAIN, names: NAMES, transport });
  if (outcome.kind !== 'reply') throw new Error(`no reply: ${outcome.kind}`);
  return decode(outcome.bytes);
}

const rcode = (packet: DecodedPacket): number => (packet.flags ?? 0) & 0xf;
const data = (packet: DecodedPacket): unknown[] =>
  (packet.answers ?? []).map((record) => ('data' in record ? record.data : undefined));

t.test('answerQuery() answers for names of the mesh', (t) => {
  const cases: readonly [string, string, string, number, readonly string[]][] = [
    ['A', 'shop.demo.aether.internal', 'A', 0, ['10.96.0.50']],
    ['AAAA', 'shop.demo.aether.internal', 'AAAA', 0, ['fd96::50']],
    ['any case', 'Shop.DEMO.aether.Internal', 'A', 0, ['10.96.0.50']],
    ['AAAA of a service without one: no data', 'v4.demo.aether.internal', 'AAAA', 0, []],
    ['another type: no data', 'shop.demo.aether.internal', 'MX', 0, []],
    ['HTTPS (type 65): no data', 'shop.demo.aether.internal', 'UNKNOWN_65', 0, []],
    ['ANY: both', 'shop.demo.aether.internal', 'ANY', 0, ['10.96.0.50', 'fd96::50']],
    ['unknown service', 'nope.demo.aether.internal', 'A', RCODE_NXDOMAIN, []],
    ['unknown namespace', 'shop.other.aether.internal', 'A', RCODE_NXDOMAIN, []],
    ['a label too many', 'a.shop.demo.aether.internal', 'A', RCODE_NXDOMAIN, []],
    ['a namespace exists, without records', 'demo.aether.internal', 'A', 0, []],
    ['a namespace without services', 'other.aether.internal', 'A', RCODE_NXDOMAIN, []],
    ['the domain itself', 'aether.internal', 'A', 0, []],
  ];
  for (const [title, name, type, code, want] of cases) {
    const packet = answer(makeQuery(name, type));
    t.equal(rcode(packet), code, title);
    t.strictSame(data(packet), want, title);
    t.equal(packet.flag_aa && packet.flag_rd && packet.flag_qr && packet.id === 4711, true, title);
    t.match(packet.questions, [{ name }], title);
    t.equal(packet.authorities?.[0]?.type === 'SOA', want.length === 0, `${title}: SOA where there is no data`);
    for (const record of packet.answers ?? []) t.equal('ttl' in record && record.ttl, 30, title);
  }
  t.end();
});

t.test('answerQuery() forwards every other name', (t) => {
  for (const name of ['example.com', 'internal', 'notaether.internal', 'aether.internal.example.com', '.']) {
    const outcome = answerQuery(makeQuery(name, 'A'), { domain: DOMAIN, names: NAMES, transport: 'udp' });
    t.equal(outcome.kind, 'forward', name);
  }
  t.end();
});

t.test('answerQuery() truncates over UDP to what the client takes', (t) => {
  const name = 'many.demo.aether.internal';
  const plain = answer(makeQuery(name, 'A'));
  t.equal(plain.flag_tc, true, '512 bytes without EDNS');
  t.strictSame(data(plain), []);
  const sized = answer(makeQuery(name, 'A', { edns: 4096 }));
  t.equal(sized.flag_tc, true, 'never more than one packet');
  t.equal(sized.additionals?.[0]?.type, 'OPT');
  const tcp = answer(makeQuery(name, 'A'), 'tcp');
  t.equal(tcp.flag_tc, false);
  t.equal(data(tcp).length, 60);
  t.end();
});

t.test('answerQuery() of what is no proper query', (t) => {
  const reply = makeQuery('shop.demo.aether.internal', 'A');
  reply.writeUInt16BE(0x8000, 2);
  const notify = makeQuery('shop.demo.aether.internal', 'A');
  notify.writeUInt16BE(4 << 11, 2);
  const two = makeQuery('shop.demo.aether.internal', 'A');
  two.writeUInt16BE(2, 4);
  const loop = Buffer.concat([makeQuery('a', 'A').subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])]);
  const cases: readonly [string, Buffer, string, number | undefined][] = [
    ['an answer', reply, 'drop', undefined],
    ['shorter than a header', Buffer.from([1, 2, 3]), 'drop', undefined],
    ['nothing', Buffer.alloc(0), 'drop', undefined],
    ['another opcode', notify, 'reply', 4],
    ['two questions', two, 'reply', 1],
    ['a name that points at itself', loop, 'reply', 1],
    ['cut within the name', makeQuery('shop.demo.aether.internal', 'A').subarray(0, 20), 'reply', 1],
  ];
  for (const [title, query, kind, code] of cases) {
    const outcome = answerQuery(query, { domain: DOMAIN, names: NAMES, transport: 'udp' });
    t.equal(outcome.kind, kind, title);
    if (outcome.kind === 'reply') t.equal(outcome.bytes.readUInt16BE(2) & 0xf, code, title);
  }
  t.end();
});

t.test('answerQuery() never throws', (t) => {
  const mutated = fc
    .tuple(fc.constantFrom('shop.demo.aether.internal', 'example.com'), fc.array(fc.tuple(fc.nat(60), fc.nat(255))))
    .map(([name, edits]) => {
      const bytes = makeQuery(name, 'A', { edns: 1232 });
      for (const [at, byte] of edits) if (at < bytes.length) bytes[at] = byte;
      return bytes;
    });
  const noise = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.oneof(mutated, noise), (bytes) => {
      answerQuery(bytes, { domain: DOMAIN, names: NAMES, transport: 'udp' });
    }),
    { numRuns: 2000 },
  );
  t.end();
});

interface DnsOptions {
  readonly upstreams?: readonly SocketAddress[];
  readonly forwardTimeoutMs?: number;
}

async function openDns(t: Test, { upstreams = [], forwardTimeoutMs = 20_000 }: DnsOptions = {}): Promise<MeshDns> {
  const listen = ['127.0.0.1:0', '[::1]:0'].flatMap((text) => parseSocketAddress(text) ?? []);
  const dns = await openMeshDns({
    listen,
    domain: DOMAIN,
    names: NAMES,
    upstreams: () => upstreams,
    log: new RecordingLog(),
    forwardTimeoutMs,
  });
  t.teardown(() => dns.close());
  return dns;
}

/** An upstream on both transports that answers each query with what `reply` makes of it. */
async function openUpstream(t: Test, reply: (query: Buffer) => Buffer | undefined): Promise<SocketAddress> {
  const server = createServer((socket) => {
    socket.on('data', (chunk) => {
      const answered = reply(chunk.subarray(2));
      if (answered !== undefined)
        socket.write(Buffer.concat([Buffer.from([answered.length >> 8, answered.length & 255]), answered]));
    });
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const bound = server.address();
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0;
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => {
    const answered = reply(query);
    if (answered !== undefined) socket.send(answered, from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(port, '127.0.0.1', resolve));
  t.teardown(() => {
    socket.close();
    server.close();
  });
  return { address: makeIp('127.0.0.1'), port };
}

function resolveWith(address: string): (query: Buffer) => Buffer {
  return (query) => {
    const { id, questions = [] } = decode(query);
    const name = questions[0]?.name ?? '';
    return encode({ id: id ?? 0, type: 'response', questions, answers: [{ type: 'A', name, ttl: 7, data: address }] });
  };
}

const ask = async (dns: MeshDns, query: Buffer, transport: 'udp' | 'tcp', which = 0): Promise<DecodedPacket> => {
  const upstream = dns.addresses[which];
  if (upstream === undefined) throw new Error('not listening');
  const reply = await forwardQuery(query, { upstreams: [upstream], transport, timeoutMs: 25_000 });
  if (reply === undefined) throw new Error('no reply');
  return decode(reply);
};

t.test('mesh DNS answers and forwards on each address, over UDP and TCP', async (t) => {
  const dns = await openDns(t, { upstreams: [await openUpstream(t, resolveWith('192.0.2.7'))] });
  for (const which of [0, 1]) {
    for (const transport of ['udp', 'tcp'] as const) {
      const title = `${transport} ${formatSocketAddress(dns.addresses[which] ?? { address: makeIp('::'), port: 0 })}`;
      t.strictSame(
        data(await ask(dns, makeQuery('shop.demo.aether.internal', 'A'), transport, which)),
        ['10.96.0.50'],
        title,
      );
      const outside = await ask(dns, makeQuery('example.com', 'A', { id: 99 }), transport, which);
      t.strictSame(data(outside), ['192.0.2.7'], title);
      t.equal(outside.id, 99, 'with the id of the client');
    }
  }
});

t.test('mesh DNS asks the next upstream when one is silent, closed or forges', async (t) => {
  const silent = await openUpstream(t, () => undefined);
  const forged = await openUpstream(t, (query) => {
    const other = resolveWith('203.0.113.66')(query);
    other.writeUInt16BE((query.readUInt16BE(0) + 1) & 0xffff, 0);
    return other;
  });
  const elsewhere = await openUpstream(t, (query) => {
    const { id } = decode(query);
    const questions = [{ type: 'A' as const, name: 'evil.com' }];
    return encode({ id: id ?? 0, type: 'response', questions, answers: [] });
  });
  const good = await openUpstream(t, resolveWith('192.0.2.8'));
  const closed = { address: makeIp('127.0.0.1'), port: 1 };
  // All at once: some cost the whole time that an upstream has, which is long enough for the good one to answer.
  const runs = Object.entries({ silent, closed, forged, elsewhere }).flatMap(([name, upstream]) =>
    (['udp', 'tcp'] as const).map(async (transport) => {
      const dns = await openDns(t, { upstreams: [upstream, good], forwardTimeoutMs: 2000 });
      const answered = data(await ask(dns, makeQuery('example.com', 'A'), transport));
      t.strictSame(answered, ['192.0.2.8'], `${name}, ${transport}`);
    }),
  );
  await Promise.all(runs);
});

t.test('mesh DNS answers SERVFAIL when no upstream does', async (t) => {
  const dns = await openDns(t, { upstreams: [{ address: makeIp('127.0.0.1'), port: 1 }] });
  for (const transport of ['udp', 'tcp'] as const)
    t.equal(rcode(await ask(dns, makeQuery('example.com', 'A'), transport)), 2);
  const none = await openDns(t, { upstreams: [] });
  t.equal(rcode(await ask(none, makeQuery('example.com', 'A'), 'udp')), 2, 'and when there is none');
});

t.test('mesh DNS goes on after bytes that are no query, and reads split and joined TCP messages', async (t) => {
  const dns = await openDns(t);
  const at = dns.addresses[0];
  if (at === undefined) throw new Error('not listening');
  const noise = createSocket('udp4');
  for (const bytes of [Buffer.alloc(0), Buffer.from([1]), Buffer.alloc(600, 0xff)]) {
    await new Promise((resolve) => noise.send(bytes, at.port, '127.0.0.1', resolve));
  }
  noise.close();
  t.strictSame(data(await ask(dns, makeQuery('shop.demo.aether.internal', 'A'), 'udp')), ['10.96.0.50']);
  const { createConnection } = await import('node:net');
  const socket = createConnection({ port: at.port, host: '127.0.0.1' });
  const two = Buffer.concat(
    [1, 2].map((id) =>
      streamEncode({ type: 'query', id, questions: [{ type: 'A', name: 'shop.demo.aether.internal' }] }),
    ),
  );
  let received = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
  });
  for (const byte of two) {
    socket.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const end = Date.now() + 20_000;
  const length = two.length + 2 * (27 + 14);
  while (received.length < length && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5));
  socket.destroy();
  t.strictSame(data(decode(received.subarray(2))), ['10.96.0.50']);
  t.equal(received.length, length);
});

t.test('openMeshDns() binds all or nothing', async (t) => {
  const dns = await openDns(t);
  const taken = dns.addresses[0];
  const free = parseSocketAddress('127.0.0.1:0');
  if (taken === undefined || free === undefined) throw new Error('not listening');
  const options = { domain: DOMAIN, names: NAMES, upstreams: () => [], log: new RecordingLog() };
  await t.rejects(openMeshDns({ ...options, listen: [free, taken] }), { code: 'EADDRINUSE' });
});
