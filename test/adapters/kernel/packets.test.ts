// The two tables against real packets of both families: who answers a dial. The world's addresses are on the
// same namespace's loopback device, so that what is not captured is answered too.
import t from 'tap';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../../src/capture/policy.ts';
import { cidr, ip, MESH, REDIRECT_ALL, SCOPED } from '../../support/capture-cases.ts';
import { openNative } from '../../support/native.ts';
import { execIn, makeNetns, type TestNetns } from '../../support/netns.ts';
import { type Endpoint, probe } from '../../support/packet-probe.ts';

const rules = createRules(openNative());
const EMPTY = { tcp: [], vip: [], shim: [] };

/** Per family: a stranger, an excluded address, link-local, the resolver, and the mesh's: mixed, pure TCP, pure HTTP. */
const ADDRESSES = {
  4: {
    world: '198.51.100.7',
    excluded: '10.3.0.1',
    linkLocal: '169.254.20.10',
    dns: '192.0.2.53',
    mixed: '10.96.0.50',
    pureTcp: '10.96.0.51',
    pureHttp: '10.96.0.52',
    loopback: '127.0.0.1',
  },
  6: {
    world: 'fd00:7::7',
    excluded: 'fdff::7',
    linkLocal: 'fd00:7::8', // a real link-local one needs a scope
    dns: 'fd00::53',
    mixed: 'fd96::50',
    pureTcp: 'fd96::51',
    pureHttp: 'fd96::52',
    loopback: '::1',
  },
} as const;
type Family = keyof typeof ADDRESSES;
type Place = keyof (typeof ADDRESSES)[4];

const tcp = (address: string, port: number): Endpoint => ({ protocol: 'tcp', address, port });
const udp = (address: string, port: number): Endpoint => ({ protocol: 'udp', address, port });

function makeWorld(t: Parameters<typeof makeNetns>[0]): TestNetns {
  const netns = makeNetns(t, 'pkt');
  for (const family of [4, 6] as const) {
    for (const [place, address] of Object.entries(ADDRESSES[family])) {
      if (place === 'loopback') continue;
      const nodad = family === 6 ? ['nodad'] : [];
      execIn(netns, ['ip', 'addr', 'add', `${address}/${family === 4 ? 32 : 128}`, 'dev', 'lo', ...nodad]);
    }
  }
  return netns;
}

const WORLD_PORTS = [53, 80, 9000, 5432, 7777, 18081, 18082];

/** Capture listeners, the mesh DNS, and the world on every port that a case dials. */
function listenersOf(family: Family): readonly Endpoint[] {
  const { loopback, dns, ...outside } = ADDRESSES[family];
  return [
    ...[18001, 18002, 18003].map((port) => tcp(loopback, port)),
    udp(loopback, 18001),
    tcp(dns, 18054),
    udp(dns, 18054),
    tcp(loopback, 18081),
    tcp(loopback, 9000),
    ...Object.values(outside).flatMap((address) => WORLD_PORTS.map((port) => tcp(address, port))),
    ...[18081, 18082, 53].map((port) => udp(outside.world, port)),
    tcp(outside.world, 18002),
  ];
}

type Answer = 'itself' | 'ECONNREFUSED' | number;
type Case = readonly [protocol: 'tcp' | 'udp', to: Place, port: number, answer: Answer];

/** `itself`: not captured. A number: the capture listener of that port on loopback. */
const SCENARIOS: readonly {
  readonly title: string;
  readonly policy: CapturePolicy;
  readonly withMesh: boolean;
  readonly cases: readonly Case[];
}[] = [
  {
    title: 'the plugin’s table alone, scoped',
    policy: SCOPED,
    withMesh: false,
    cases: [
      ['tcp', 'world', 18081, 18001],
      ['tcp', 'world', 18082, 18001],
      ['udp', 'world', 18081, 18001],
      ['udp', 'world', 18082, 'itself'],
      ['tcp', 'world', 9000, 'itself'],
      ['tcp', 'world', 53, 'itself'],
      ['tcp', 'world', 18002, 'itself'],
      ['tcp', 'loopback', 18081, 'itself'],
    ],
  },
  {
    title: 'the plugin’s table alone, redirect-all with DNS and exclusions',
    policy: {
      ...REDIRECT_ALL,
      excludePorts: [{ first: 5000, last: 6000 }],
      excludeRanges: ['10.3.0.0/16', 'fdff::/16'].map(cidr),
    },
    withMesh: false,
    cases: [
      ['tcp', 'world', 80, 18001],
      ['tcp', 'world', 9000, 18001],
      ['tcp', 'world', 5432, 'itself'],
      ['tcp', 'excluded', 9000, 'itself'],
      ['tcp', 'excluded', 18081, 'itself'],
      ['tcp', 'loopback', 9000, 'itself'],
      ['tcp', 'world', 18002, 'itself'],
      ['udp', 'world', 18082, 'itself'],
      ['tcp', 'world', 7777, 'itself'], // marked by another table
    ],
  },
  {
    title: 'both tables, scoped',
    policy: SCOPED,
    withMesh: true,
    cases: [
      ['tcp', 'mixed', 18082, 18002],
      ['tcp', 'mixed', 18081, 18001],
      ['tcp', 'mixed', 9000, 'itself'],
      ['tcp', 'pureTcp', 18081, 18003],
      ['tcp', 'pureTcp', 18082, 18002],
      ['tcp', 'pureTcp', 5432, 'itself'],
      ['tcp', 'pureHttp', 18082, 'ECONNREFUSED'],
      ['tcp', 'pureHttp', 18081, 18001],
      ['tcp', 'world', 18082, 18001],
    ],
  },
  {
    title: 'both tables, redirect-all',
    policy: REDIRECT_ALL,
    withMesh: true,
    cases: [
      ['tcp', 'mixed', 9000, 18002],
      ['tcp', 'mixed', 18082, 18002],
      ['tcp', 'mixed', 80, 18001],
      ['tcp', 'pureTcp', 18081, 18003],
      ['tcp', 'pureTcp', 80, 18003],
      ['tcp', 'pureTcp', 18082, 18002],
      ['tcp', 'pureHttp', 18082, 'ECONNREFUSED'],
      ['tcp', 'pureHttp', 9000, 18001],
      ['tcp', 'world', 9000, 18001],
      ['tcp', 'world', 7777, 'itself'], // marked by another table
    ],
  },
];

/** Excluded in both tables: an address of the mesh, and a port on another. */
const EXCLUDED_MESH: CapturePolicy = {
  ...REDIRECT_ALL,
  excludePorts: [{ first: 9000, last: 9000 }],
  excludeRanges: ['10.96.0.51', 'fd96::51'].map(cidr),
};

/** What the mesh itself sends carries its mark: here, what goes to port 7777. */
const MARKER = `table inet marker { chain output { type route hook output priority mangle;
  tcp dport 7777 meta mark set 0xae7e; }; }`;

for (const { title, policy, withMesh, cases } of SCENARIOS) {
  for (const family of [4, 6] as const) {
    t.test(`replaceTable() captures IPv${family} packets as planned: ${title}`, async (t) => {
      const netns = makeWorld(t);
      execIn(netns, ['nft', '-f', '-'], { input: MARKER });
      await rules.replaceTable(netns.path, planPluginTable(policy));
      await rules.replaceTable(netns.path, planMeshTable(policy, withMesh ? MESH : EMPTY));
      const addresses = ADDRESSES[family];
      const dial = cases.map(([protocol, to, port]): Endpoint => ({ protocol, address: addresses[to], port }));
      const results = probe(netns, { listen: listenersOf(family), dial });
      for (const [i, [protocol, to, port, answer]] of cases.entries()) {
        const host = typeof answer === 'number' ? addresses.loopback : addresses[to];
        const at = typeof answer === 'number' ? answer : port;
        const wanted = answer === 'ECONNREFUSED' ? answer : family === 4 ? `${host}:${at}` : `[${host}]:${at}`;
        const result = results[i];
        t.equal(result?.answer, wanted, `${protocol} to ${to} ${port}: ${wanted}`);
        t.ok((result?.elapsedMs ?? Infinity) < 500, `${protocol} to ${to} ${port}: at once`);
      }
    });
  }
}

for (const family of [4, 6] as const) {
  t.test(`replaceTable() leaves excluded IPv${family} addresses and ports of the mesh alone`, async (t) => {
    const netns = makeWorld(t);
    await rules.replaceTable(netns.path, planPluginTable(EXCLUDED_MESH));
    await rules.replaceTable(netns.path, planMeshTable(EXCLUDED_MESH, MESH));
    const { mixed, pureTcp } = ADDRESSES[family];
    const dial = [tcp(mixed, 9000), tcp(pureTcp, 18082), tcp(pureTcp, 80), tcp(pureTcp, 18081)];
    const results = probe(netns, { listen: listenersOf(family), dial });
    for (const [i, { address, port }] of dial.entries()) {
      t.equal(results[i]?.answer, family === 4 ? `${address}:${port}` : `[${address}]:${port}`);
    }
  });

  t.test(`replaceTable() sends IPv${family} DNS to the node’s resolver, link-local too`, async (t) => {
    const { dns, world, linkLocal, loopback } = ADDRESSES[family];
    const netns = makeWorld(t);
    await rules.replaceTable(netns.path, planPluginTable({ ...REDIRECT_ALL, dns: { address: ip(dns), port: 18054 } }));
    const listen = [...listenersOf(family), tcp(loopback, 53), udp(loopback, 53)];
    const dial = [udp(world, 53), tcp(world, 53), udp(linkLocal, 53), tcp(linkLocal, 53), udp(loopback, 53)];
    const answers = probe(netns, { listen, dial }).map(({ answer }) => answer);
    const at = (address: string, port: number) => (family === 4 ? `${address}:${port}` : `[${address}]:${port}`);
    t.strictSame(answers, [...Array(4).fill(at(dns, 18054)), at(loopback, 53)]);
  });
}

t.test('replaceTable() leaves the other family’s DNS alone', async (t) => {
  const netns = makeWorld(t);
  const dns = { address: ip(ADDRESSES[4].dns), port: 18054 };
  await rules.replaceTable(netns.path, planPluginTable({ ...SCOPED, dns }));
  const { world } = ADDRESSES[6];
  const answers = probe(netns, { listen: listenersOf(6), dial: [udp(world, 53), tcp(world, 53)] });
  t.strictSame(
    answers.map(({ answer }) => answer),
    [`[${world}]:53`, `[${world}]:53`],
  );
});

t.test('replaceTable() lets link-local and multicast go under redirect-all', async (t) => {
  const netns = makeWorld(t);
  await rules.replaceTable(netns.path, planPluginTable(REDIRECT_ALL));
  const { linkLocal } = ADDRESSES[4];
  const [result] = probe(netns, { listen: listenersOf(4), dial: [tcp(linkLocal, 9000)] });
  t.equal(result?.answer, `${linkLocal}:9000`);
});
