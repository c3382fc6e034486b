// What the agreement test dials: services of every shape, and for each of them every port and spelling that could mean
// something.
import type { Dial, FirstBytes } from '../../src/mesh/resolve-in-kernel.ts';
import { type CaptureForm, CLIENT_APP_PORT, type ServiceSpec } from './resolve-world.ts';
import { makeIp } from './services.ts';

export const DOMAIN = 'aether.internal';

/** By name: mixed, HTTP only, pure TCP, TCP first with an HTTP port, none at all, and ports that already mean something. */
export const SERVICES: readonly ServiceSpec[] = [
  service('shop', 50, 8080, { 8080: 'http', 7070: 'h2', 9000: 'tcp', 5432: 'tcp' }),
  service('web', 51, 8080, { 8080: 'http', 9090: 'http' }),
  service('db', 60, 5432, { 5432: 'tcp', 6379: 'tcp' }),
  service('mq', 61, 1883, { 1883: 'tcp', 15672: 'http' }),
  service('idle', 70, 8080, {}),
  service('edge', 80, 80, { 80: 'tcp', 443: 'tcp', 18082: 'http', 8081: 'http' }),
  service('odd', 81, 18082, { 18082: 'http', 18005: 'http', 18083: 'h2' }),
];

/** An address that no service has. */
const NOT_MESH: readonly [string, string] = ['10.96.9.9', 'fd96::9:9'];
const PORTS = [80, 443, 18081, 18082, 18001, 18002, 18003, 18004, 18008, 9000, 5432, 8080, 4444];
/** Where every spelling of an authority is tried; on other ports, two of them. */
const SPELLING_PORTS = new Set([80, 18081, 4444]);

/** What is dialled: its name in titles, and one dial list for each family. */
export interface DialGroup {
  readonly title: string;
  readonly dials: readonly Dial[];
}

export function dialGroups(family: 4 | 6, form: CaptureForm): readonly DialGroup[] {
  const of = (pair: readonly [string, string]): string => pair[family === 4 ? 0 : 1];
  const services = SERVICES.map((spec) => ({ title: spec.name, dials: dialsOf(of(spec.vips), spec) }));
  const outside = { title: 'an address outside the mesh', dials: dialsOf(of(NOT_MESH)) };
  return [...services, outside, { title: 'the own loopback', dials: loopbackDials(family, form) }];
}

function service(name: string, number: number, primary: number, ports: ServiceSpec['ports']): ServiceSpec {
  return { name, vips: [`10.96.0.${number}`, `fd96::${number}`], primary, ports };
}

function dialsOf(host: string, spec?: ServiceSpec): readonly Dial[] {
  const own = Object.keys(spec?.ports ?? {}).map(Number);
  return [...new Set([...own, ...PORTS])].flatMap((port) => [
    ...authorities(spec?.name ?? 'shop', port).map((authority) => dial(host, port, { bytes: 'http', authority })),
    ...(['tls', 'raw', 'silent'] as const).map((bytes) => dial(host, port, { bytes })),
  ]);
}

function authorities(name: string, port: number): readonly (string | undefined)[] {
  const fqdn = `${name}.demo.${DOMAIN}`;
  if (!SPELLING_PORTS.has(port)) return [fqdn, `${fqdn}:${port}`];
  const other = `${name === 'web' ? 'shop' : 'web'}.demo.${DOMAIN}`;
  const kubernetes = `${name}.demo.svc.cluster.local`;
  const own = Object.keys(SERVICES.find((spec) => spec.name === name)?.ports ?? {});
  return [
    ...[undefined, '', fqdn, `${fqdn}.`, fqdn.toUpperCase(), `${fqdn}..`, `${fqdn}:`],
    ...[...own, '18081', '18082', '4444', '08080', '018081', '0', '123456'].map((text) => `${fqdn}:${text}`),
    ...[`${fqdn}.:18081`, `${fqdn.toUpperCase()}:8080`, `Shop.Demo.Aether.Internal.:9000`],
    ...[other, `${other}:8080`, `${other}:9000`, kubernetes, `${kubernetes}.:18081`, `${kubernetes}:8080`],
    ...['example.com', 'example.com:18081', `ghost.demo.${DOMAIN}`, `Ghost.Demo.${DOMAIN}.:80`, `demo.${DOMAIN}`],
    ...[`a.${fqdn}`, `under_score.demo.${DOMAIN}`, 'ghost.demo.svc.cluster.local', '10.96.0.50:80', '[fd96::50]:80'],
  ];
}

function loopbackDials(family: 4 | 6, form: CaptureForm): readonly Dial[] {
  const host = family === 4 ? '127.0.0.1' : '::1';
  const kinds: readonly FirstBytes[] = ['http', 'tls', 'raw', 'silent'];
  // Of what nobody listens on, in the single form, there is nothing to say.
  const listeners = form === 'split' ? [18001, 18002, 18003] : [18001];
  return [...listeners, CLIENT_APP_PORT].flatMap((port) =>
    kinds.map((bytes) => dial(host, port, bytes === 'http' ? { bytes, authority: `shop.demo.${DOMAIN}` } : { bytes })),
  );
}

function dial(
  host: string,
  port: number,
  { bytes, authority }: { readonly bytes: FirstBytes; readonly authority?: string | undefined },
): Dial {
  return { address: makeIp(host), port, bytes, ...(authority === undefined ? {} : { authority }) };
}
