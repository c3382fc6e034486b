// What a node knows of a service that nobody on it uses: that it is there, and what its ports speak. Names, addresses and
// refusals follow from that; endpoints are read when they are needed.
import { compareIps, type IpAddress } from '../core/ip.ts';
import { type ServiceKey, serviceFqdn } from './names.ts';
import { type PortBucket, type ServiceListing, type ServiceView, sortPorts } from './service-view.ts';

/** Ports ascending. A default is undefined where the service has no port of that protocol. */
export interface ServiceOutline {
  readonly httpPorts: readonly number[];
  readonly tcpPorts: readonly number[];
  readonly httpDefault: number | undefined;
  readonly tcpDefault: number | undefined;
}

/** Undefined: nobody serves it. */
export function outlineService(listing: ServiceListing): ServiceOutline | undefined {
  if (listing.http.length + listing.tcp.length === 0) return undefined;
  const { http, tcp, httpDefault, tcpDefault } = sortPorts(listing);
  return {
    httpPorts: http.map(({ port }) => port),
    tcpPorts: tcp.map(({ port }) => port),
    httpDefault: httpDefault?.port,
    tcpDefault: tcpDefault?.port,
  };
}

/** The view of it: as the whole one, but that no bucket has endpoints and whatever only they tell is left open. */
export function viewOutline(
  key: ServiceKey,
  outline: ServiceOutline,
  options: { readonly domain: string; readonly vips: readonly IpAddress[] },
): ServiceView {
  const bucketOf = (port: number): PortBucket => ({ port, endpoints: [], serverName: String(port) });
  const [http, tcp] = [outline.httpPorts.map(bucketOf), outline.tcpPorts.map(bucketOf)];
  return {
    key,
    fqdn: serviceFqdn(key, options.domain),
    vips: [...options.vips].sort(compareIps),
    http,
    tcp,
    httpDefault: http.find(({ port }) => port === outline.httpDefault),
    isHttpAgreed: false,
    tcpDefault: tcp.find(({ port }) => port === outline.tcpDefault),
    hasEndpoints: true,
    endpointNamespaces: [],
  };
}
