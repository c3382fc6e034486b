// What the name in a destination means to a pod: whose it is, and which addresses its DNS gives for it.
import type { IpAddress } from '../core/ip.ts';
import type { Destination } from '../mesh/destination.ts';
import { clusterLocalName, formatServiceKey, parseServiceFqdn, serviceFqdn } from '../mesh/names.ts';
import { findByVip } from '../mesh/resolve-in-kernel.ts';
import type { ServiceView } from '../mesh/service-view.ts';

/** `unknown`: other DNS says, and the mesh knows nothing of it. An empty list: there is no such name. */
export interface Naming {
  readonly addresses: readonly IpAddress[] | 'unknown';
  readonly sentence: string;
  readonly notes: readonly string[];
}

export interface NamingContext {
  readonly services: readonly ServiceView[];
  readonly domain: string;
  /** The pod's. */
  readonly namespace: string;
}

/** Asks no DNS: what mesh DNS would answer follows from `services`. */
export function nameDestination({ host, address }: Destination, context: NamingContext): Naming {
  const { services, domain } = context;
  if (address !== undefined) return nameAddress(address, services);
  const name = host.toLowerCase().replace(/\.$/, '');
  if (name === domain || name.endsWith(`.${domain}`)) return nameInMesh(name, context);
  const known = services.find(({ key }) => clusterLocalName(key) === name);
  if (known !== undefined) {
    const sentence = `${formatServiceKey(known.key)}, as Kubernetes calls it: the cluster's DNS has its address`;
    const { vips } = known;
    const notes =
      vips.length === 0
        ? []
        : [`the address is taken for one outside the mesh; in the mesh the service has ${listTexts(vips)}`];
    return { addresses: 'unknown', sentence, notes };
  }
  const meant = [`${name}.${domain}`, `${name}.${context.namespace}.${domain}`].find((full) =>
    services.some(({ fqdn }) => fqdn === full),
  );
  const notes = meant === undefined ? [] : [`did you mean ${meant}?`];
  return { addresses: 'unknown', sentence: 'no name of the mesh: other DNS has its address', notes };
}

function nameAddress(address: IpAddress, services: readonly ServiceView[]): Naming {
  const owner = findByVip(address, services);
  const sentence = owner === undefined ? '' : `the address of ${formatServiceKey(owner.key)} in the mesh`;
  return { addresses: [address], sentence, notes: [] };
}

function nameInMesh(name: string, { services, domain }: NamingContext): Naming {
  const key = parseServiceFqdn(name, domain);
  const fqdn = key === undefined ? undefined : serviceFqdn(key, domain);
  const service = services.find((candidate) => candidate.fqdn === fqdn);
  if (service === undefined) {
    return { addresses: [], sentence: `no service of the mesh is called ${name}, and mesh DNS says so`, notes: [] };
  }
  const { vips } = service;
  if (vips.length === 0)
    return { addresses: [], sentence: `${formatServiceKey(service.key)} has no address yet`, notes: [] };
  return { addresses: vips, sentence: `${formatServiceKey(service.key)}, at ${listTexts(vips)}`, notes: [] };
}

function listTexts(addresses: readonly IpAddress[]): string {
  return addresses.map(({ text }) => text).join(' and ');
}
