// Tracked connections that the kernel must forget because the rules are others now. Values only; real ones are in
// test/adapters/kernel/flows.test.ts.
import t from 'tap';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { isStaleFlow, type TrackedFlow } from '../../src/capture/stale-flows.ts';
import type { AddressPort } from '../../src/core/ip.ts';
import type { Table } from '../../src/nft/model.ts';
import { EXCLUDING, ip, REDIRECT_ALL, SCOPED } from '../support/capture-cases.ts';

const LOCAL: ReadonlySet<string> = new Set(['127.0.0.1', '10.0.0.2', '::1', 'fd00::2']);
const scoped = planPluginTable(SCOPED);
const all = planPluginTable(REDIRECT_ALL);
const excluding = planPluginTable(EXCLUDING);
const dns = planPluginTable({ ...SCOPED, dns: { address: ip('192.0.2.1'), port: 18054 } });

function at(text: string): AddressPort {
  const cut = text.lastIndexOf(':');
  return { address: ip(text.slice(0, cut)), port: Number(text.slice(cut + 1)) };
}

/** `udp 10.0.0.2 198.51.100.7:18081`, translated: `udp … -> 127.0.0.1:18001`; established TCP: `TCP …`. */
function flow(text: string): TrackedFlow {
  const [protocol, source = '', dialled = '', , target = dialled] = text.split(' ');
  return {
    protocol: protocol === 'udp' ? 'udp' : 'tcp',
    source: ip(source),
    destination: at(dialled),
    target: at(target),
    isTranslated: target !== dialled,
    isEstablished: protocol === 'TCP',
  };
}

const CASES: readonly (readonly [title: string, flow: string, table: Table | undefined, stale: boolean])[] = [
  ['not captured, but should be', 'udp 10.0.0.2 198.51.100.7:18081', scoped, true],
  ['not captured over IPv6, but should be', 'udp fd00::2 2001:db8::7:18081', scoped, true],
  ['captured as it should be', 'udp 10.0.0.2 198.51.100.7:18081 -> 127.0.0.1:18001', scoped, false],
  ['captured over IPv6 as it should be', 'udp fd00::2 2001:db8::7:18081 -> ::1:18001', scoped, false],
  ['captured, but excluded now', 'udp 10.0.0.2 10.1.0.7:18081 -> 127.0.0.1:18001', excluding, true],
  ['captured, and the table is removed', 'udp 10.0.0.2 198.51.100.7:18081 -> 127.0.0.1:18001', undefined, true],
  ['captured from an address that is gone', 'udp 10.0.0.9 10.1.0.7:18081 -> 127.0.0.1:18001', excluding, true],
  ['not captured, and no table', 'udp 10.0.0.2 198.51.100.7:18081', undefined, false],
  ['of another UDP port', 'udp 10.0.0.2 198.51.100.7:18082', all, false],
  ['of another UDP port, with every port redirected', 'udp 10.0.0.2 198.51.100.7:9999', all, false],
  ['inbound', 'udp 198.51.100.7 10.0.0.2:18081', scoped, false],
  ['to the pod’s own address', 'udp 10.0.0.2 10.0.0.2:18081', scoped, true],
  ['to loopback', 'udp 127.0.0.1 127.0.0.1:18081', scoped, false],
  ['a dial not answered yet', 'tcp 10.0.0.2 198.51.100.7:9000', all, true],
  ['the same in scoped mode', 'tcp 10.0.0.2 198.51.100.7:9000', scoped, false],
  ['established, and should be captured', 'TCP 10.0.0.2 198.51.100.7:18081', scoped, false],
  ['established, and excluded now', 'TCP 10.0.0.2 10.1.0.7:18081 -> 127.0.0.1:18001', excluding, false],
  ['over, captured, excluded now', 'tcp 10.0.0.2 10.1.0.7:18081 -> 127.0.0.1:18001', excluding, true],
  ['taken by the agent’s table', 'tcp 10.0.0.2 10.96.0.50:18082 -> 127.0.0.1:18002', scoped, false],
  ['translated by somebody else', 'tcp 10.0.0.2 198.51.100.7:9000 -> 10.0.0.7:7001', all, false],
  ['to another place’s port 18001', 'tcp 10.0.0.2 198.51.100.7:9000 -> 10.0.0.7:18001', undefined, false],
  ['DNS that is not sent to the mesh yet', 'udp 10.0.0.2 10.96.0.10:53', dns, true],
  ['DNS as it should be', 'udp 10.0.0.2 10.96.0.10:53 -> 192.0.2.1:18054', dns, false],
  ['DNS to a resolver of before', 'udp 10.0.0.2 10.96.0.10:53 -> 192.0.2.9:18054', dns, true],
  ['DNS to the mesh, which is off now', 'udp 10.0.0.2 10.96.0.10:53 -> 192.0.2.1:18054', scoped, true],
  ['DNS that somebody else translates', 'udp 10.0.0.2 10.96.0.10:53 -> 10.0.0.7:53', dns, false],
];

for (const [title, text, table, stale] of CASES) {
  t.test(`K079 isStaleFlow() ${stale ? 'picks' : 'leaves'} a flow ${title}`, (t) => {
    t.equal(isStaleFlow(flow(text), table, { localAddresses: LOCAL }), stale);
    t.end();
  });
}
