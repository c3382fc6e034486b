// What the kernel makes of the same packets is in test/adapters/kernel/packets.test.ts.
import fc from 'fast-check';
import t from 'tap';
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { mergePortRanges } from '../../src/core/port-range.ts';
import { findVerdict, type Packet } from '../../src/nft/find-verdict.ts';
import type { Table } from '../../src/nft/model.ts';
import { EXCLUDING, ip, MESH, REDIRECT_ALL, SCOPED } from '../support/capture-cases.ts';

function summarise(table: Table, packet: Packet): string {
  const verdict = findVerdict(table, packet);
  if (verdict === undefined) return 'none';
  switch (verdict.kind) {
    case 'redirect':
      return `${verdict.port}`;
    case 'dnat':
      return `${verdict.address.text} ${verdict.port}`;
    default:
      return verdict.kind;
  }
}

const DNS4 = planPluginTable({ ...SCOPED, dns: { address: ip('192.0.2.1'), port: 18054 } });
const DNS6 = planPluginTable({ ...REDIRECT_ALL, dns: { address: ip('fd00::53'), port: 18054 } });
const [scoped, all, excluding] = [SCOPED, REDIRECT_ALL, EXCLUDING].map(planPluginTable) as [Table, Table, Table];
const mesh = planMeshTable(SCOPED, MESH);
const meshAll = planMeshTable(REDIRECT_ALL, MESH);

const CASES: readonly (readonly [title: string, table: Table, packet: string, want: string])[] = [
  ['a mesh port', scoped, 'tcp 198.51.100.7 18081', '18001'],
  ['a mesh port over IPv6', scoped, 'udp fd00:7::7 18081', '18001'],
  ['UDP 18082', scoped, 'udp 198.51.100.7 18082', 'none'],
  ['another port', scoped, 'tcp 198.51.100.7 80', 'none'],
  ['another port under redirect-all', all, 'tcp 198.51.100.7 80', '18001'],
  ['UDP under redirect-all', all, 'udp 198.51.100.7 80', 'none'],
  ['loopback', all, 'tcp 127.9.9.9 80', 'accept'],
  ['IPv6 loopback', all, 'tcp ::1 80', 'accept'],
  ['link-local', all, 'tcp fe80::1 80', 'accept'],
  ['a capture port', all, 'tcp 198.51.100.7 18003', 'accept'],
  ['the port after them', all, 'tcp 198.51.100.7 18005', '18001'],
  ['DNS', DNS4, 'udp 198.51.100.7 53', '192.0.2.1 18054'],
  ['DNS of the other family', DNS4, 'udp fd00:7::7 53', 'none'],
  ['DNS over TCP of the other family', DNS6, 'tcp 198.51.100.7 53', '18001'],
  ['an excluded port', excluding, 'tcp 198.51.100.7 8050', 'accept'],
  ['the last excluded port', excluding, 'tcp 198.51.100.7 65535', 'accept'],
  ['an excluded range', excluding, 'tcp 10.1.255.255 80', 'accept'],
  ['the address after it', excluding, 'tcp 10.2.0.0 80', '18001'],
  ['an excluded IPv6 address', excluding, 'tcp fdff::7 80', 'accept'],
  ['an address and port of the mesh', mesh, 'tcp 10.96.0.50 18082', '18002'],
  ['a mesh address without TCP', mesh, 'tcp fd96::52 18082', 'reset'],
  ['the shim', mesh, 'tcp 10.96.0.51 18081', '18003'],
  ['a declared port under redirect-all', meshAll, 'tcp fd96::50 9000', '18002'],
  ['UDP to a mesh address', meshAll, 'udp 10.96.0.50 9000', 'none'],
];

for (const [title, table, packet, want] of CASES) {
  t.test(`findVerdict() knows ${title}: ${packet}`, (t) => {
    const [protocol, address = '', port] = packet.split(' ');
    const parsed = {
      protocol: protocol === 'udp' ? 'udp' : 'tcp',
      destination: ip(address),
      port: Number(port),
    } as const;
    t.equal(summarise(table, parsed), want);
    t.equal(summarise(table, { ...parsed, mark32: 0xae7e }), 'accept', 'with the mark');
    t.end();
  });
}

t.test('findVerdict() finds a port in a set exactly where one of the ranges holds it', (t) => {
  const port = fc.integer({ min: 1, max: 65535 });
  const ranges = fc.array(fc.tuple(port, fc.nat(50)), { maxLength: 40 });
  fc.assert(
    fc.property(ranges, fc.array(port, { minLength: 20 }), (list, ports) => {
      const excludePorts = mergePortRanges(list.map(([first, n]) => ({ first, last: Math.min(first + n, 65535) })));
      const table = planPluginTable({ ...REDIRECT_ALL, excludePorts });
      const edges = excludePorts.flatMap(({ first, last }) => [first - 1, first, last, last + 1]);
      return [...ports, ...edges]
        .filter((dialled) => dialled >= 1 && dialled <= 65535 && (dialled < 18001 || dialled > 18004))
        .every((dialled) => {
          const isExcluded = excludePorts.some(({ first, last }) => first <= dialled && dialled <= last);
          const verdict = findVerdict(table, { protocol: 'tcp', destination: ip('198.51.100.7'), port: dialled });
          return verdict?.kind === (isExcluded ? 'accept' : 'redirect');
        });
    }),
  );
  t.end();
});
