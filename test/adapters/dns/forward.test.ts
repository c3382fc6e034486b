// Upstreams that cannot even be sent to; what answers and how is held in mesh-dns.test.ts.
import { createSocket } from 'node:dgram';
import { encode } from 'dns-packet';
import t from 'tap';
import { forwardQuery } from '../../../src/adapters/dns/forward.ts';
import { makeIp } from '../../support/services.ts';

const QUERY = encode({ type: 'query', id: 1, questions: [{ type: 'A', name: 'example.org' }] });

/** The kernel refuses to connect a datagram socket to it: as to any address while the node has no route there. */
const UNREACHABLE = { address: makeIp('255.255.255.255'), port: 53 };

t.test('forwardQuery() goes on to the next upstream when one has no route', async (t) => {
  const upstream = createSocket('udp4');
  t.teardown(() => upstream.close());
  upstream.on('message', (query, from) => {
    const reply = Buffer.from(query);
    reply.writeUInt16BE(0x8180, 2);
    upstream.send(reply, from.port, from.address);
  });
  await new Promise<void>((resolve) => upstream.bind(0, '127.0.0.1', resolve));
  const upstreams = [UNREACHABLE, { address: makeIp('127.0.0.1'), port: upstream.address().port }];
  const reply = await forwardQuery(QUERY, { upstreams, transport: 'udp', timeoutMs: 5000 });
  t.equal(reply?.readUInt16BE(0), 1, 'under the id of the query');
});

for (const transport of ['udp', 'tcp'] as const) {
  t.test(`forwardQuery() gives up at once over ${transport} when no upstream has a route`, async (t) => {
    const startMs = performance.now();
    t.equal(await forwardQuery(QUERY, { upstreams: [UNREACHABLE], transport, timeoutMs: 60_000 }), undefined);
    t.ok(performance.now() - startMs < 30_000, 'without waiting for the time to end');
  });
}
