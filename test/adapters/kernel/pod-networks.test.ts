// What is captured in namespaces that have one family, both, or only link-local addresses, and when nobody listens.
import t, { type Test } from 'tap';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import { compareTable } from '../../../src/nft/compare.ts';
import { MESH, REDIRECT_ALL, SCOPED } from '../../support/capture-cases.ts';
import { type Peer, type Place, startPeer } from '../../support/flow-peer.ts';
import { openNative } from '../../support/native.ts';
import { execIn, type TestNetns } from '../../support/netns.ts';
import { type Family, makeVethWorld, POD_ADDRESS, WORLD_ADDRESS } from '../../support/veth-world.ts';

const rules = createRules(openNative());
const NO_MESH = { tcp: [], vip: [], shim: [] };
const LOOPBACK = { 4: '127.0.0.1', 6: '::1' } as const;
const MESH_PORTS = [18081, 18082] as const;

const tcp = (address: string, port: number): Place => ({ protocol: 'tcp', address, port });
const udp = (address: string, port: number): Place => ({ protocol: 'udp', address, port });

interface Started {
  readonly pod: TestNetns;
  readonly world: TestNetns;
  readonly inPod: Peer;
  /** Dials from a fresh port; which server answered, or the error. */
  dial(place: Place): Promise<string>;
}

async function start(t: Test, families: readonly Family[], disableIpv6 = false): Promise<Started> {
  const { pod, world } = makeVethWorld(t, 'net', families);
  if (disableIpv6) execIn(pod, ['sh', '-c', 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6']);
  const [inPod, inWorld] = [startPeer(t, pod), startPeer(t, world)];
  for (const port of [...MESH_PORTS, 9999]) {
    await inWorld.listen(tcp('::', port));
    await inWorld.listen(udp('::', port));
  }
  let from = 4000;
  const dial = async (place: Place) => {
    const answer = await inPod.ask(place, { from: from++ });
    return answer.replace(/ heard.*/, '');
  };
  for (const family of families)
    for (let i = 0; i < 20 && (await dial(tcp(WORLD_ADDRESS[family], 9999))) === 'silence'; i++);
  return { pod, world, inPod, dial };
}

async function listenForCaptured(peer: Peer, families: readonly Family[]): Promise<void> {
  for (const family of families) {
    await peer.listen(tcp(LOOPBACK[family], 18001));
    await peer.listen(udp(LOOPBACK[family], 18001));
  }
}

const capturedBy = (protocol: string, family: Family) => `${protocol} ${family === 4 ? '127.0.0.1' : '[::1]'}:18001`;

/** title; families of the pod; with IPv6 switched off */
const NETWORKS: readonly (readonly [title: string, families: readonly Family[], disableIpv6?: boolean])[] = [
  ['K070 a dual-stack namespace', [4, 6]],
  ['K072 an IPv4-only namespace', [4]],
  ['K072 an IPv6-only namespace', [6]],
  ['K071 a namespace with IPv6 switched off', [4], true],
];

for (const [title, families, disableIpv6] of NETWORKS) {
  for (const policy of [SCOPED, REDIRECT_ALL]) {
    t.test(`${title}: every family is captured, ${policy.redirectAll ? 'redirect-all' : 'scoped'}`, async (t) => {
      const { pod, inPod, dial } = await start(t, families, disableIpv6);
      await listenForCaptured(inPod, families);
      const tables = [planPluginTable(policy), planMeshTable(policy, NO_MESH)];
      for (const table of tables) await rules.replaceTable(pod.path, table, { settleFlows: true });
      for (const family of families) {
        const { [family]: address } = WORLD_ADDRESS;
        for (const port of MESH_PORTS)
          t.equal(await dial(tcp(address, port)), capturedBy('tcp', family), `tcp ${port}`);
        t.equal(await dial(udp(address, 18081)), capturedBy('udp', family));
        t.equal(await dial(udp(address, 18082)), 'udp [::]:18082');
        t.equal(await dial(tcp(address, 9999)), policy.redirectAll ? capturedBy('tcp', family) : 'tcp [::]:9999');
      }
      for (const table of tables)
        t.strictSame(compareTable(table, await rules.readTable(pod.path, table)), [], 'K065 as planned after traffic');
    });
  }
}

t.test('K070 IPv6 does not go past a capture listener that has only IPv4', async (t) => {
  const { pod, inPod, dial } = await start(t, [4, 6]);
  await listenForCaptured(inPod, [4]);
  await rules.replaceTable(pod.path, planPluginTable(SCOPED));
  t.equal(await dial(tcp(WORLD_ADDRESS[4], 18081)), capturedBy('tcp', 4));
  t.equal(await dial(tcp(WORLD_ADDRESS[6], 18081)), 'ECONNREFUSED');
});

t.test('K072 an IPv4-mapped address is IPv4', async (t) => {
  const { pod, inPod, dial } = await start(t, [4, 6]);
  await listenForCaptured(inPod, [4, 6]);
  await rules.replaceTable(pod.path, planPluginTable(SCOPED));
  t.equal(await dial(tcp(`::ffff:${WORLD_ADDRESS[4]}`, 18081)), capturedBy('tcp', 4));
});

t.test('K072 link-local alone is left alone', async (t) => {
  const { pod, world, inPod, dial } = await start(t, []);
  await listenForCaptured(inPod, [4, 6]);
  await rules.replaceTable(pod.path, planPluginTable(REDIRECT_ALL));
  const [, address] = /inet6 (fe80::[0-9a-f:]+)/.exec(execIn(world, ['ip', 'addr', 'show', 'dev', 'eth0'])) ?? [];
  const place = tcp(`${address}%eth0`, 18081);
  for (let i = 0; i < 20 && !(await dial(place)).startsWith('tcp'); i++) await new Promise((r) => setTimeout(r, 200));
  t.equal(await dial(place), 'tcp [::]:18081');
});

t.test('K068 a hundred excluded ports are left alone, the same for IPv4 and IPv6', async (t) => {
  const { pod, inPod, dial } = await start(t, [4, 6]);
  await listenForCaptured(inPod, [4, 6]);
  const hundred = Array.from({ length: 100 }, (_, i) => ({ first: 20_000 + 2 * i, last: 20_000 + 2 * i }));
  const excludePorts = [{ first: 9999, last: 9999 }, ...hundred.slice(1)];
  await rules.replaceTable(pod.path, planPluginTable({ ...REDIRECT_ALL, excludePorts }));
  for (const family of [4, 6] as const) {
    const { [family]: address } = WORLD_ADDRESS;
    t.equal(await dial(tcp(address, 9999)), 'tcp [::]:9999');
    // Excluded, and nobody there.
    for (const port of [20_002, 20_100, 20_198]) t.equal(await dial(tcp(address, port)), 'ECONNREFUSED', `${port}`);
    for (const port of [20_000, 20_001, 20_199, 20_200])
      t.equal(await dial(tcp(address, port)), capturedBy('tcp', family), `${port}`);
  }
});

for (const family of [4, 6] as const) {
  t.test(
    `K076 without a capture listener IPv${family} is refused at once where it is captured, and only there`,
    async (t) => {
      const { pod, dial } = await start(t, [family]);
      const { [family]: address } = WORLD_ADDRESS;
      await rules.replaceTable(pod.path, planPluginTable(SCOPED));
      for (const port of MESH_PORTS) t.equal(await dial(tcp(address, port)), 'ECONNREFUSED', `scoped ${port}`);
      t.equal(await dial(tcp(address, 9999)), 'tcp [::]:9999');
      t.equal(await dial(udp(address, 9999)), 'udp [::]:9999');
      await rules.replaceTable(pod.path, planPluginTable(REDIRECT_ALL));
      t.equal(await dial(tcp(address, 9999)), 'ECONNREFUSED', 'redirect-all');
      t.equal(await dial(udp(address, 9999)), 'udp [::]:9999');
    },
  );

  t.test(`K080 neither the mark nor loopback is captured over IPv${family}; the pod’s own address is`, async (t) => {
    const { pod, inPod, dial } = await start(t, [family]);
    const { [family]: world } = WORLD_ADDRESS;
    const { [family]: own } = POD_ADDRESS;
    const { [family]: loopback } = LOOPBACK;
    await listenForCaptured(inPod, [family]);
    for (const address of [own, loopback]) await inPod.listen(tcp(address, 18081));
    for (const policy of [SCOPED, REDIRECT_ALL]) {
      await rules.replaceTable(pod.path, planPluginTable(policy));
      await rules.replaceTable(pod.path, planMeshTable(policy, MESH));
      t.equal(await dial(tcp(loopback, 18081)), `tcp ${family === 4 ? loopback : '[::1]'}:18081`);
      t.equal(await dial(tcp(own, 18081)), capturedBy('tcp', family));
      t.equal(dialMarked(pod, tcp(world, 18081)), 'tcp [::]:18081');
      t.equal(dialMarked(pod, tcp(world, 9999)), 'tcp [::]:9999');
      t.equal(dialMarked(pod, tcp(own, 18081)), `tcp ${family === 4 ? own : `[${own}]`}:18081`);
      // A dial to a capture port ends there; it cannot go round.
      t.equal(await dial(tcp(loopback, 18001)), capturedBy('tcp', family));
      t.equal(await dial(tcp(own, 18001)), 'ECONNREFUSED', 'it listens on loopback alone');
    }
  });
}

/** As the mesh itself dials: a socket with SO_MARK, which Node cannot set. */
function dialMarked(netns: TestNetns, { address, port }: Place): string {
  const script = `import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
s.settimeout(2)
s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0xae7e)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"hello")
print(s.recv(99).decode())`;
  return execIn(netns, ['python3', '-c', script, address, String(port)])
    .replace(/ heard.*/, '')
    .trim();
}
