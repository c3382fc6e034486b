// Random policies and ports for the properties of the resolution rule: mostly those at which something turns.
import fc from 'fast-check';
import { mergeIpRanges } from '../../src/capture/merge-ip-ranges.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { knownRange } from '../../src/capture/shared-rules.ts';
import { mergePortRanges, type PortRange } from '../../src/core/port-range.ts';
import { RESERVED_TCP_PORTS } from '../../src/mesh/constants.ts';
import type { FirstBytes } from '../../src/mesh/resolve-in-kernel.ts';
import { APP_PORT, type ClientDial, FIRST_PORT, type ServiceSpec } from './resolve-world.ts';
import { makeIp } from './services.ts';

/** Ports that mean something to the rules, or to the services that the tests make up; now and then any other. */
const SPECIAL_PORTS = [
  53, 80, 443, 5432, 8080, 9000, 9090, 18001, 18002, 18003, 18004, 18005, 18008, 18081, 18082, 18083,
];

export const anyPort: fc.Arbitrary<number> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...SPECIAL_PORTS) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 65_535 }) },
);

const anyRange = fc
  .constantFrom(
    '10.96.0.50',
    '10.96.0.60/31',
    '10.96.0.0/24',
    '10.96.9.0/24',
    'fd96::50',
    'fd96::60/127',
    'fd96::9:0/112',
  )
  .map(knownRange);

const anyPortRange = fc
  .tuple(anyPort, fc.constantFrom(0, 0, 0, 1, 10))
  .map(([first, more]): PortRange => ({ first, last: Math.min(65_535, first + more) }));

/** Any capture policy; DNS goes to one of `resolvers`. */
export function policyWith(resolvers: readonly string[]): fc.Arbitrary<CapturePolicy> {
  return fc
    .record({
      redirectAll: fc.boolean(),
      ports: fc.array(anyPortRange, { maxLength: 2 }),
      ranges: fc.array(anyRange, { maxLength: 2 }),
      resolver: fc.option(fc.constantFrom(...resolvers)),
    })
    .map(({ redirectAll, ports, ranges, resolver }) => ({
      redirectAll,
      excludePorts: mergePortRanges(ports),
      excludeRanges: mergeIpRanges(ranges),
      ...(resolver === null ? {} : { dns: { address: makeIp(resolver), port: 18_054 } }),
    }));
}

export const anyPolicy = policyWith(['192.168.0.1', 'fd00::53']);

/** The servers that random services come from; each is a pod of the agreement test's node. */
const RANDOM_SERVICES = [
  { name: 'shop', vips: ['10.96.0.50', 'fd96::50'] },
  { name: 'web', vips: ['10.96.0.51', 'fd96::51'] },
  { name: 'db', vips: ['10.96.0.60', 'fd96::60'] },
  { name: 'mq', vips: ['10.96.0.61', 'fd96::61'] },
] as const;

/** Kinds of a service's ports: mixed, HTTP alone, TCP alone. */
const anyKinds = fc.constantFrom<readonly PortKind[]>(['http', 'h2', 'tcp'], ['http', 'h2'], ['tcp']);
type PortKind = ServiceSpec['ports'][number];

function anyService(fixed: (typeof RANDOM_SERVICES)[number]): fc.Arbitrary<ServiceSpec> {
  return anyKinds.chain((kinds) =>
    fc
      .uniqueArray(fc.tuple(anyPort, fc.constantFrom(...kinds)), { maxLength: 5, selector: ([port]) => port })
      // Where the test's own application listens.
      .map((ports) => ports.filter(([port]) => port !== APP_PORT && port !== FIRST_PORT))
      // HTTP that an application cannot serve: the mesh itself listens there, in its pod.
      .map((ports) => ports.filter(([port, kind]) => kind === 'tcp' || port === 18082 || !RESERVED_TCP_PORTS.has(port)))
      .map((ports) => {
        const primary = ports.find(([port, kind]) => kind !== 'tcp' || !RESERVED_TCP_PORTS.has(port))?.[0];
        return { ...fixed, primary: primary ?? 0, ports: primary === undefined ? {} : Object.fromEntries(ports) };
      }),
  );
}

/** All of them, each with up to five ports of any kind and number; reserved ones too, as a foreign writer may. */
export const anyServices: fc.Arbitrary<readonly ServiceSpec[]> = fc.tuple(...RANDOM_SERVICES.map(anyService));

const anyAddress = fc.constantFrom(
  ...RANDOM_SERVICES.flatMap(({ vips }) => vips),
  ...RANDOM_SERVICES.flatMap(({ vips }) => vips),
  ...['10.96.9.9', 'fd96::9:9'],
);

const anyAuthority = fc
  .record({
    host: fc.constantFrom(
      ...RANDOM_SERVICES.flatMap(({ name }) => [`${name}.demo.aether.internal`, `${name}.demo.svc.cluster.local`]),
      'example.com',
    ),
    dot: fc.constantFrom('', '', '.'),
    upper: fc.boolean(),
    port: fc.option(anyPort),
  })
  .map(({ host, dot, upper, port }) => `${upper ? host.toUpperCase() : host}${dot}${port === null ? '' : `:${port}`}`);

/** Some dials of the clients. */
export function anyDials(clients: readonly string[]): fc.Arbitrary<readonly ClientDial[]> {
  const anyDial = fc
    .record({
      client: fc.constantFrom(...clients),
      address: anyAddress,
      port: anyPort,
      bytes: fc.constantFrom<FirstBytes>('http', 'http', 'http', 'tls', 'raw', 'silent'),
      authority: anyAuthority,
    })
    .map(({ client, address, port, bytes, authority }): ClientDial => {
      const dial = { address: makeIp(address), port, bytes };
      return { client, dial: bytes === 'http' ? { ...dial, authority } : dial };
    });
  return fc.array(anyDial, { minLength: 60, maxLength: 60 });
}
