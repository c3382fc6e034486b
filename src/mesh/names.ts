// How the mesh spells things: service keys, names, identities, clusters, listeners, chains, stat keys. Nobody else
// concatenates such a name.
import { TCP_MESH_PORT } from './constants.ts';

/** A service is a service account of a namespace. */
export interface ServiceKey {
  readonly namespace: string;
  readonly serviceAccount: string;
}

/** `<ns>/<sa>`, the registry's key. */
export function formatServiceKey(key: ServiceKey): string {
  return `${key.namespace}/${key.serviceAccount}`;
}

/** Reads `<ns>/<sa>`: exactly one slash, both sides non-empty. */
export function parseServiceKey(text: string): ServiceKey | undefined {
  const parts = text.split('/');
  const [namespace, serviceAccount] = parts;
  if (parts.length !== 2 || !namespace || !serviceAccount) return undefined;
  return { namespace, serviceAccount };
}

/** `<sa>.<ns>.<domain>`: the name that clients dial, and of the service's default HTTP cluster. */
export function serviceFqdn(key: ServiceKey, domain: string): string {
  return `${key.serviceAccount}.${key.namespace}.${domain}`;
}

/** Reads a service's name, with or without a trailing dot, case-insensitive; other names give undefined. */
export function parseServiceFqdn(name: string, domain: string): ServiceKey | undefined {
  const lower = name.toLowerCase().replace(/\.$/, '');
  const suffix = `.${domain}`;
  if (!lower.endsWith(suffix)) return undefined;
  const labels = lower.slice(0, -suffix.length).split('.');
  const [serviceAccount, namespace] = labels;
  if (labels.length !== 2 || !serviceAccount || !namespace) return undefined;
  return { namespace, serviceAccount };
}

/** `spiffe://<trust domain>/ns/<ns>/sa/<sa>`: URI SAN of a workload's certificate and name of its SDS secret. */
export function spiffeId(key: ServiceKey, trustDomain: string): string {
  return `spiffe://${trustDomain}/ns/${key.namespace}/sa/${key.serviceAccount}`;
}

/** Name of the SDS secret that holds the trust bundle. */
export function trustBundleName(trustDomain: string): string {
  return `spiffe://${trustDomain}`;
}

/** `<ns>_<pod>`: how a pod is spelt inside a resource name; unlike the pod's name alone it is unique on a node. */
export function podResourceName(pod: { readonly namespace: string; readonly name: string }): string {
  return `${pod.namespace}_${pod.name}`;
}

/** HTTP cluster of one port: `<fqdn>:<port>`; without a port the default HTTP cluster, `<fqdn>`. */
export function httpClusterName(fqdn: string, port?: number): string {
  return port === undefined ? fqdn : `${fqdn}:${port}`;
}

/**
 * TCP cluster of one dialled address and port, IPv6 without brackets: what `tcp_proxy` finds by the address dialled.
 * Both may be placeholders that Envoy fills in.
 */
export function tcpClusterName(vip: string, port: number | string): string {
  return `tcp:${vip}:${port}`;
}

/** TCP cluster of a service in the single form of capture: `tcp:<fqdn>`, its default TCP port, or `tcp:<fqdn>:<port>`. */
export function tcpServiceClusterName(fqdn: string, port?: number): string {
  return port === undefined ? `tcp:${fqdn}` : `tcp:${fqdn}:${port}`;
}

/** Whether a cluster carries raw TCP. */
export function isTcpClusterName(name: string): boolean {
  return name.startsWith('tcp:');
}

/** EDS name of a service's default HTTP endpoints: `<ns>/<sa>`. */
export function httpDefaultEdsName(key: ServiceKey): string {
  return formatServiceKey(key);
}

/** EDS name of a service's TCP port, shared by its addresses, both families and the TCP mesh port. */
export function tcpEdsName(fqdn: string, port: number): string {
  return `tcp:${fqdn}:${port}`;
}

/** `alt_stat_name` of a TCP cluster: `tcp_<ns>/<sa>` for the TCP mesh port, else `tcp_<ns>/<sa>_<port>`. */
export function tcpStatKey(key: ServiceKey, port: number): string {
  const base = `tcp_${formatServiceKey(key)}`;
  return port === TCP_MESH_PORT ? base : `${base}_${port}`;
}

export const BLACKHOLE_CLUSTER = 'blackhole';
export const passthroughClusterName = (pod: string): string => `passthrough_${pod}`;
export const appClusterName = (pod: string, port: number): string => `app_${pod}_${port}`;
export const healthClusterName = (pod: string): string => `health_${pod}`;
/** Access logs of HTTP requests and of TCP connections, and the cluster of the collector that may take them. */
export const HTTP_ACCESS_LOG = 'aether_access_logs';
export const TCP_ACCESS_LOG = 'aether_l4_access_logs';
export const OTEL_COLLECTOR_CLUSTER = 'otel_collector';
/** The node's listener that says whether its pods are healthy. */
export const HEALTH_GATEWAY = 'health_gateway';

export const captureListenerName = (pod: string): string => `capture_${pod}`;
export const captureTcpListenerName = (pod: string): string => `capture_tcp_${pod}`;
export const captureShimListenerName = (pod: string): string => `capture_shim_${pod}`;
export const outboundListenerName = (pod: string): string => `outbound_http_${pod}`;
export const inboundListenerName = (pod: string): string => `inbound_${pod}`;

export const CHAIN_CAPTURE = 'capture';
export const CHAIN_PASSTHROUGH = 'cap_passthrough';
export const CHAIN_TCP = 'cap_tcp';
export const CHAIN_ANYPORT = 'cap_tcp_anyport';
export const CHAIN_TCP_BLACKHOLE = 'cap_tcp_blackhole';
/** Chains of the single form: the TCP mesh port, one TCP port, and any other port of a service. */
export const singleTcpChainName = (key: ServiceKey, port?: number): string =>
  port === undefined ? `${CHAIN_TCP}_${formatServiceKey(key)}` : `${CHAIN_TCP}_${formatServiceKey(key)}_${port}`;
export const singleAnyportChainName = (key: ServiceKey): string => `${CHAIN_ANYPORT}_${formatServiceKey(key)}`;
export const inboundHttpChainName = (pod: string, port?: number): string =>
  port === undefined ? `in_${pod}` : `in_${pod}_${port}`;
export const inboundTcpChainName = (pod: string, port?: number): string =>
  port === undefined ? `in_tcp_${pod}` : `in_tcp_${pod}_${port}`;

/** Route table of the outbound listener, and of the capture listeners. */
export const OUTBOUND_ROUTES = 'out_http';
export const CAPTURE_ROUTES = 'cap_http';

/** A virtual host of a table, by which it is sent: `cap_http/shop.demo.aether.internal`. */
export const hostName = (table: string, name: string): string => `${table}/${name}`;
/** The table that a virtual host is of; empty: of none. */
export const tableOfHost = (host: string): string => host.slice(0, Math.max(0, host.lastIndexOf('/')));

/** What `out_http` names a listener's chain and counters: `out_http_<pod>`. */
export const outboundChainName = (pod: string): string => `out_http_${pod}`;
/** Inline route table of the inbound chains. */
export const INBOUND_ROUTES = 'in_http';
/** Virtual host of what no other one takes. */
export const CATCH_ALL_HOST = 'catch_all';
/** Secret that never exists: a chain that forgot to name its pod's identity gets no certificate at all. */
export const NO_IDENTITY_SECRET = 'no-identity';
/** Set (never merely added) by the capture listeners to their pod's passthrough cluster, read by the catch-all, removed. */
export const PASSTHROUGH_HEADER = 'x-aether-passthrough';

/** `<sa>.<ns>.svc.cluster.local`: what Kubernetes itself calls the service. */
export function clusterLocalName(key: ServiceKey): string {
  return `${key.serviceAccount}.${key.namespace}.svc.cluster.local`;
}

/** What every SPIFFE id of a workload of the trust domain begins with. */
export function workloadIdPrefix(trustDomain: string): string {
  return `spiffe://${trustDomain}/ns/`;
}
