// Connections that were there before the rules changed: which of them follow, and that no other is touched.
import t, { type Test } from 'tap';
import { createRules } from '../../../src/adapters/kernel/rules.ts';
import { planPluginTable } from '../../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../../src/capture/policy.ts';
import { cidr, REDIRECT_ALL, SCOPED } from '../../support/capture-cases.ts';
import { type Peer, type Place, startPeer } from '../../support/flow-peer.ts';
import { openNative } from '../../support/native.ts';
import { execIn, type TestNetns } from '../../support/netns.ts';
import { type Family, makeVethWorld, POD_ADDRESS, WORLD_ADDRESS } from '../../support/veth-world.ts';

const rules = createRules(openNative());
const SETTLE = { settleFlows: true } as const;
const LOOPBACK = { 4: '127.0.0.1', 6: '::1' } as const;

/** Somebody else's table: connections are tracked, and translations stay in force, whatever becomes of ours. */
const STRANGER = `table inet stranger {
  chain track { type filter hook output priority 0; ct state invalid drop; }
  chain nat { type nat hook output priority -90; tcp dport 7000 dnat ip to ${WORLD_ADDRESS[4]}:7001; }
}\n`;

const tcp = (address: string, port: number): Place => ({ protocol: 'tcp', address, port });
const udp = (address: string, port: number): Place => ({ protocol: 'udp', address, port });
const at = (address: string, port: number) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);

const replace = (pod: TestNetns, policy: CapturePolicy) =>
  rules.replaceTable(pod.path, planPluginTable(policy), SETTLE);
const excludingWorld = (family: Family): CapturePolicy => ({ ...SCOPED, excludeRanges: [cidr(WORLD_ADDRESS[family])] });

/** The same question in every step, from the same source port. */
interface Question {
  readonly to: Place;
  readonly from: number;
  /** Which server answers; the answer must come from `to` all the same. */
  readonly by: Place;
}

async function expectAnswers(t: Test, peer: Peer, when: string, questions: readonly Question[]): Promise<void> {
  for (const { to, from, by } of questions) {
    // More than a packet holds: the fragments go the same way.
    for (const sizeBytes of to.protocol === 'udp' ? [5, 4000] : [5]) {
      const wanted = `${by.protocol} ${at(by.address, by.port)} heard ${sizeBytes}, from ${at(to.address, to.port)}`;
      const title = `${when}: ${to.protocol} ${at(to.address, to.port)} from ${from}, ${sizeBytes} bytes`;
      t.equal(await peer.ask(to, { from, sizeBytes }), wanted, title);
    }
  }
}

interface Started {
  readonly pod: TestNetns;
  readonly inPod: Peer;
  readonly inWorld: Peer;
}

async function start(t: Test, { family, withStranger }: { family: Family; withStranger: boolean }): Promise<Started> {
  const { pod, world } = makeVethWorld(t, 'flow');
  if (withStranger) execIn(pod, ['nft', '-f', '-'], { input: STRANGER });
  const inPod = startPeer(t, pod);
  const inWorld = startPeer(t, world);
  const { [family]: loopback } = LOOPBACK;
  for (const place of [
    tcp(loopback, 18001),
    udp(loopback, 18001),
    udp(loopback, 18081),
    udp(POD_ADDRESS[family], 18081),
  ])
    await inPod.listen(place);
  const { [family]: address } = WORLD_ADDRESS;
  for (const port of [18081, 18082, 5432, 9999]) {
    await inWorld.listen(tcp(address, port));
    await inWorld.listen(udp(address, port));
  }
  await waitForAnswer(inPod, udp(address, 9999));
  return { pod, inPod, inWorld };
}

/** Until the neighbour is known; and after the last nat table is gone, until the kernel has let go of its hooks. */
async function waitForAnswer(peer: Peer, to: Place): Promise<void> {
  const from = to.port === 9999 ? 4000 : 4001;
  for (let attempt = 0; attempt < 10; attempt++) if ((await peer.ask(to, { from })) !== 'silence') return;
  throw new Error(`${to.protocol} ${at(to.address, to.port)} does not answer`);
}

for (const family of [4, 6] as const) {
  for (const withStranger of [false, true]) {
    const whose = withStranger ? 'beside a stranger’s nat' : 'alone';
    t.test(`K079 replaceTable() takes live IPv${family} flows along, ${whose}; nothing else`, async (t) => {
      const { pod, inPod, inWorld } = await start(t, { family, withStranger });
      const [world, own, loopback] = [WORLD_ADDRESS[family], POD_ADDRESS[family], LOOPBACK[family]];
      const direct = (place: Place, from: number): Question => ({ to: place, from, by: place });
      const captured = (place: Place, from: number): Question => ({
        to: place,
        from,
        by: { ...place, address: loopback, port: 18001 },
      });
      const [mesh, other] = [udp(world, 18081), udp(world, 9999)];
      const database = tcp(world, 5432);
      const check = async (when: string, questions: readonly Question[]) => {
        await expectAnswers(t, inPod, when, [
          ...questions,
          direct(other, 4003),
          direct(udp(world, 18082), 4004),
          direct(udp(loopback, 18081), 4005),
          // The same TCP connection from the first step to the last.
          direct(database, 5001),
        ]);
        await expectAnswers(t, inWorld, when, [direct(udp(own, 18081), 4006)]);
      };
      const two = (state: typeof direct) => [state(mesh, 4001), state(mesh, 4002)];
      // Before the rules the pod's own address answers itself.
      await check('before ADD', [...two(direct), direct(udp(own, 18081), 4007)]);
      await replace(pod, SCOPED);
      await check('scoped', [...two(captured), captured(udp(own, 18081), 4007)]);
      await replace(pod, excludingWorld(family));
      await check('excluded', [...two(direct), captured(udp(own, 18081), 4007)]);
      // A connection made now goes on as it began.
      await check('still excluded', [direct(tcp(world, 18081), 5002)]);
      if (withStranger) {
        await replace(pod, REDIRECT_ALL);
        await check('redirect-all', [
          ...two(captured),
          direct(tcp(world, 18081), 5002),
          captured(tcp(world, 9999), 5003),
        ]);
        await rules.destroyTable(pod.path, 'aether', SETTLE);
        await check('after DEL', [...two(direct), direct(tcp(world, 18081), 5002), direct(udp(own, 18081), 4007)]);
      } else {
        await replace(pod, REDIRECT_ALL);
        await check('redirect-all', [...two(captured), captured(tcp(world, 9999), 5003)]);
        await rules.destroyTable(pod.path, 'aether', SETTLE);
        await waitForAnswer(inPod, mesh);
        await check('after DEL', [...two(direct), direct(udp(own, 18081), 4007)]);
      }
    });
  }

  t.test(`K079 a closed IPv${family} connection’s port is free for the new rules`, async (t) => {
    const { pod, inPod } = await start(t, { family, withStranger: true });
    const to = tcp(WORLD_ADDRESS[family], 18082);
    const question = { to, from: 5001 };
    await expectAnswers(t, inPod, 'before ADD', [{ ...question, by: to }]);
    for (const [policy, by] of [
      [SCOPED, tcp(LOOPBACK[family], 18001)],
      [excludingWorld(family), to],
      [REDIRECT_ALL, tcp(LOOPBACK[family], 18001)],
    ] as const) {
      await inPod.close('tcp', 5001);
      await replace(pod, policy);
      await expectAnswers(t, inPod, policy.redirectAll ? 'redirect-all' : 'scoped', [{ ...question, by }]);
    }
  });
}

t.test('flushCaptureFlows() forgets exactly the flows that the rules would treat otherwise', async (t) => {
  const { pod, inPod, inWorld } = await start(t, { family: 4, withStranger: true });
  const world = WORLD_ADDRESS[4];
  const dials: readonly (readonly [place: Place, from: number])[] = [
    [udp(world, 18081), 4001],
    [udp(world, 18081), 4002],
    [udp(world, 9999), 4003],
    [tcp(world, 18081), 5001],
    [tcp(world, 5432), 5002],
  ];
  for (const [place, from] of dials) await inPod.ask(place, { from });
  await inWorld.ask(udp(POD_ADDRESS[4], 18081), { from: 4006 });
  const table = planPluginTable(SCOPED);
  await rules.replaceTable(pod.path, table);
  t.equal(await rules.flushCaptureFlows(pod.path, table), 2, 'both of UDP 18081');
  for (const [place, from] of dials) await inPod.ask(place, { from });
  t.equal(await rules.flushCaptureFlows(pod.path, table), 0, 'they are as planned now');
  t.equal(await rules.flushCaptureFlows(pod.path, undefined), 2, 'without the table they are not');
  await inPod.close('tcp', 5001);
  t.equal(await rules.flushCaptureFlows(pod.path, table), 1, 'the TCP connection, now that it is over');
});

t.test('replaceTable() and destroyTable() settle flows of a namespace that has none, or is gone', async (t) => {
  const { pod } = makeVethWorld(t, 'flow');
  await replace(pod, SCOPED);
  t.equal(await rules.flushCaptureFlows(pod.path, planPluginTable(SCOPED)), 0);
  await rules.destroyTable(pod.path, 'aether', SETTLE);
  await rules.destroyTable(pod.path, 'aether', SETTLE);
  const gone = '/run/netns/ae-none' as typeof pod.path;
  t.match(await rules.flushCaptureFlows(gone, undefined).catch((e: unknown) => e), { problem: 'missing' });
});
