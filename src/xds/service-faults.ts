// What makes a service unfit for Envoy, seen on its view alone: Envoy would refuse the resource, or a whole table with it. A
// registry is shared: what another node wrote there is checked here, whoever should have.
import { isDnsLabel } from '../core/identifiers.ts';
import { parseIp } from '../core/ip.ts';
import { type Problem, ProblemList, quoteValue } from '../core/problems.ts';
import type { Endpoint } from '../mesh/endpoint.ts';
import type { ServiceView } from '../mesh/service-view.ts';

/** RFC 1035 §2.3.4, as text without the final dot. */
const NAME_MAX = 253;
const UINT32_MAX = 0xffff_ffff;

const known = new WeakMap<ServiceView, readonly Problem[]>();

/** All of them; empty: fit. The view of an unchanged service is looked at once. */
export function findServiceFaults(view: ServiceView): readonly Problem[] {
  const before = known.get(view);
  if (before !== undefined) return before;
  const faults = check(view);
  known.set(view, faults);
  return faults;
}

function check({ key, fqdn, vips, http, tcp, endpointNamespaces }: ServiceView): readonly Problem[] {
  const list = new ProblemList();
  for (const [path, label] of [
    ['namespace', key.namespace],
    ['service account', key.serviceAccount],
    ...endpointNamespaces.map((namespace) => ['namespace of an endpoint', namespace]),
  ] as const) {
    if (!isDnsLabel(label ?? '')) list.add(path, `must be a DNS label, got ${quoteValue(label)}`);
  }
  if (list.isEmpty && fqdn.length > NAME_MAX)
    list.add('name', `must be ${NAME_MAX} characters at most, got ${fqdn.length}`);
  if (new Set(vips.map(({ text }) => text)).size < vips.length) list.add('addresses', 'one is given twice');
  for (const { port } of [...http, ...tcp]) {
    if (!isPort(port)) list.add('ports', `must be from 1 to 65535, got ${port}`);
  }
  // One endpoint stands in many buckets, and under both protocols.
  const endpoints = [...http, ...tcp].flatMap((bucket) => bucket.endpoints);
  const distinct = new Map(endpoints.map((endpoint) => [`${endpoint.ip} ${endpoint.podName}`, endpoint]));
  for (const endpoint of distinct.values()) checkEndpoint(endpoint, list);
  return list.problems;
}

function checkEndpoint({ ip, weight, podName }: Endpoint, list: ProblemList): void {
  const path = `endpoint ${quoteValue(podName)}`;
  if (parseIp(ip) === undefined) list.add(path, `its address must be an IP address, got ${quoteValue(ip)}`);
  if (!Number.isInteger(weight) || weight < 0 || weight > UINT32_MAX) {
    list.add(path, `its weight must be from 0 to ${UINT32_MAX}, got ${weight}`);
  }
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65535;
}
