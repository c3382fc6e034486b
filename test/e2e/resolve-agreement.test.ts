// The rule against what it is the rule of: whatever resolve() says of a dial, the real kernel (both tables, programmed over
// netlink) and the real Envoy (the snapshot as it is served) do with a real connection. Every shape of service, port and
// spelling in both capture modes and both families; then services, policies and dials at random.
import fc from 'fast-check';
import t from 'tap';
import { type Resolution, resolve } from '../../src/mesh/resolve.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { anyDials, anyServices, policyWith } from '../support/resolve-arbitraries.ts';
import { DOMAIN, dialGroups, SERVICES } from '../support/resolve-cases.ts';
import { sayResolution } from '../support/resolve-words.ts';
import { CLIENTS, type ClientDial, type ResolveWorld, startResolveWorld } from '../support/resolve-world.ts';

const ROUNDS = Number(process.env['AETHER_TEST_ROUNDS'] ?? 20);
const CLIENT_NAMES = Object.keys(CLIENTS);
t.setTimeout(300_000);
const LISTENERS = { capture: 18001, capture_shim: 18003 } as const;

await t.test('resolve() and the data plane agree', async (t) => {
  const world = await startResolveWorld(t, { servers: SERVICES.map(({ name }) => name) });

  await t.test('on every shape of service, port and spelling', async (t) => {
    const services = await world.publish(SERVICES);
    const groups = CLIENT_NAMES.flatMap((client) => ([4, 6] as const).map((family) => ({ client, family }))).flatMap(
      ({ client, family }) =>
        dialGroups(family).map(({ title, dials }) => ({
          title: `${client}, IPv${family}, ${title}: ${dials.length} dials`,
          dials: dials.map((dial): ClientDial => ({ client, dial })),
        })),
    );
    const all = groups.flatMap(({ dials }) => dials);
    const before = await countWaits(world);
    const seen = new Map((await world.dialAll(all)).map((said, index) => [all[index], said]));
    for (const { title, dials } of groups) {
      const wrong = dials.flatMap((one) => disagreement(world, services, { ...one, seen: seen.get(one) ?? 'nothing' }));
      t.strictSame(wrong, [], title);
    }
    // To the last one: a listener that waited where it should not would be too many.
    const after = await countWaits(world);
    const waits = planWaits(all.map((one) => ({ ...one, resolution: resolveDial(world, services, one) })));
    t.strictSame(subtract(after, before), waits, 'waits for first bytes, by client and listener');
  });

  await t.test(`on ${ROUNDS} rounds of random services, policies and dials`, async (t) => {
    const anyRound = fc.record({
      services: anyServices,
      policies: fc.tuple(...CLIENT_NAMES.map(() => policyWith([world.dns.ip4, world.dns.ip6]))),
      dials: anyDials(CLIENT_NAMES),
    });
    const agrees = fc.asyncProperty(anyRound, async ({ services: specs, policies, dials }) => {
      const named = Object.fromEntries(policies.map((policy, index) => [CLIENT_NAMES[index] ?? '', policy]));
      const services = await world.publish(specs, named);
      const seen = await world.dialAll(dials);
      const wrong = dials.flatMap((one, index) =>
        disagreement(world, services, { ...one, seen: seen[index] ?? 'nothing' }),
      );
      if (wrong.length > 0) throw new Error(wrong.join('\n'));
    });
    // No shrinking: a round is seconds of real connections, and a disagreement names its dial.
    await t.resolves(fc.assert(agrees, { numRuns: ROUNDS, endOnFailure: true }));
  });
});

function resolveDial(world: ResolveWorld, services: readonly ServiceView[], { client, dial }: ClientDial): Resolution {
  return resolve(dial, { scope: world.policyOf(client), services, domain: DOMAIN, tcp: true });
}

function disagreement(
  world: ResolveWorld,
  services: readonly ServiceView[],
  { client, dial, seen }: ClientDial & { readonly seen: string },
): readonly string[] {
  const expected = sayResolution(resolveDial(world, services, { client, dial }));
  if (seen === expected) return [];
  const what = [dial.bytes, dial.authority].filter((part) => part !== undefined).join(' ');
  return [`${client}: ${what} to ${dial.address.text} ${dial.port}: expected "${expected}", seen "${seen}"`];
}

type Waits = Readonly<Record<string, number>>;

async function countWaits(world: ResolveWorld): Promise<Waits> {
  const counts: Record<string, number> = {};
  for (const client of CLIENT_NAMES) {
    for (const listener of ['capture', 'capture_shim'] as const) {
      counts[`${client} ${listener}`] = await world.countWaits(client, listener);
    }
  }
  return counts;
}

function planWaits(dials: readonly (ClientDial & { readonly resolution: Resolution })[]): Waits {
  const count = (client: string, port: number) =>
    dials.filter(
      ({ client: by, resolution }) =>
        by === client && 'by' in resolution && resolution.by.waits && resolution.by.listenerPort === port,
    ).length;
  return Object.fromEntries(
    CLIENT_NAMES.flatMap((client) =>
      Object.entries(LISTENERS).map(([listener, port]) => [`${client} ${listener}`, count(client, port)]),
    ),
  );
}

function subtract(after: Waits, before: Waits): Waits {
  return Object.fromEntries(Object.entries(after).map(([name, count]) => [name, count - (before[name] ?? 0)]));
}
