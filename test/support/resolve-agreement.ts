// The rule against what it is the rule of, in one form of capture: whatever resolve() says of a dial, the real kernel (its
// tables programmed over netlink) and the real Envoy (the snapshot as it is served) do with a real connection. Every shape of
// service, port and spelling in both capture modes and both families; then services, policies and dials at random.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Test } from 'tap';
import type { Resolution } from '../../src/mesh/resolution.ts';
import { resolve } from '../../src/mesh/resolve.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import { anyDials, anyServices, policyWith } from './resolve-arbitraries.ts';
import { DOMAIN, dialGroups, SERVICES } from './resolve-cases.ts';
import { sayResolution } from './resolve-words.ts';
import { type CaptureForm, CLIENTS, type ClientDial, type ResolveWorld, startResolveWorld } from './resolve-world.ts';

const ROUNDS = Number(process.env['AETHER_TEST_ROUNDS'] ?? 20);
const CLIENT_NAMES = Object.keys(CLIENTS);
const LISTENERS = { capture: 18001, capture_tcp: 18002, capture_shim: 18003 } as const;

/** For the whole of a test file, and what it runs. */
export const AGREEMENT_TIMEOUT_MS = 120_000 + ROUNDS * 10_000;

export async function checkAgreement(t: Test, form: CaptureForm): Promise<void> {
  const world = await startResolveWorld(t, { servers: SERVICES.map(({ name }) => name), form });
  await t.test('on every shape of service, port and spelling', (t) => checkShapes(t, world));
  await t.test(`on ${ROUNDS} rounds of random services, policies and dials`, (t) => checkRandom(t, world));
}

async function checkShapes(t: Test, world: ResolveWorld): Promise<void> {
  const services = await world.publish(SERVICES);
  const groups = CLIENT_NAMES.flatMap((client) => ([4, 6] as const).map((family) => ({ client, family }))).flatMap(
    ({ client, family }) =>
      dialGroups(family, world.form).map(({ title, dials }) => ({
        title: `${client}, IPv${family}, ${title}: ${dials.length} dials`,
        dials: dials.map((dial): ClientDial => ({ client, dial })),
      })),
  );
  const { wrong, waits, plannedWaits } = await compare(
    world,
    services,
    groups.flatMap(({ dials }) => dials),
  );
  for (const { title, dials } of groups) {
    t.strictSame(
      dials.flatMap((one) => wrong.get(one) ?? []),
      [],
      title,
    );
  }
  t.strictSame(waits, plannedWaits, 'waits for first bytes, by client and listener');
}

async function checkRandom(t: Test, world: ResolveWorld): Promise<void> {
  const anyRound = fc.record({
    services: anyServices,
    policies: fc.tuple(...CLIENT_NAMES.map(() => policyWith([world.dns.ip4, world.dns.ip6]))),
    dials: anyDials(CLIENT_NAMES),
  });
  let found: readonly string[] = [];
  const agrees = fc.asyncProperty(anyRound, async ({ services: specs, policies, dials }) => {
    const named = Object.fromEntries(policies.map((policy, index) => [CLIENT_NAMES[index] ?? '', policy]));
    const services = await world.publish(specs, named);
    const { wrong, waits, plannedWaits } = await compare(world, services, dials);
    const isCounted = isDeepStrictEqual(waits, plannedWaits);
    found = [...wrong.values(), ...(isCounted ? [] : [JSON.stringify({ plannedWaits, waits })])];
    return found.length === 0;
  });
  // No shrinking: a round is seconds of real connections, and a disagreement names its dial.
  const result = await fc.check(agrees, { numRuns: ROUNDS, endOnFailure: true });
  t.strictSame(found, [], `seed ${result.seed}, path ${result.counterexamplePath}`);
  t.notOk(result.failed, String(result.errorInstance ?? 'every round ran'));
}

/** `wrong`: a sentence for each dial of which resolve() says something else. The waits are counted by Envoy, to the last one. */
async function compare(world: ResolveWorld, services: readonly ServiceView[], dials: readonly ClientDial[]) {
  const before = await countWaits(world);
  const seen = await world.dialAll(dials);
  const waits = subtract(await countWaits(world), before);
  const wrong = new Map<ClientDial, string>();
  for (const [index, one] of dials.entries()) {
    const sentence = disagreement(world, services, { ...one, seen: seen[index] ?? 'nothing' });
    if (sentence !== undefined) wrong.set(one, sentence);
  }
  const resolved = dials.map((one) => ({ ...one, resolution: resolveDial(world, services, one) }));
  return { wrong, waits, plannedWaits: planWaits(resolved) };
}

function resolveDial(world: ResolveWorld, services: readonly ServiceView[], { client, dial }: ClientDial): Resolution {
  return resolve(dial, { scope: world.policyOf(client), services, domain: DOMAIN, tcp: true, form: world.form });
}

function disagreement(
  world: ResolveWorld,
  services: readonly ServiceView[],
  { client, dial, seen }: ClientDial & { readonly seen: string },
): string | undefined {
  const expected = sayResolution(resolveDial(world, services, { client, dial }));
  // An answer may be late for other reasons than a listener that waits: the counters tell them apart.
  if (seen === expected || seen.replace('~', '') === expected) return undefined;
  const what = [dial.bytes, dial.authority].filter((part) => part !== undefined).join(' ');
  return `${client}: ${what} to ${dial.address.text} ${dial.port}: expected "${expected}", seen "${seen}"`;
}

type Waits = Readonly<Record<string, number>>;

async function countWaits(world: ResolveWorld): Promise<Waits> {
  const counts: Record<string, number> = {};
  for (const client of CLIENT_NAMES) {
    for (const listener of ['capture', 'capture_tcp', 'capture_shim'] as const) {
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
