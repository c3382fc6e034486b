// What a resource says about others, read back from its bytes: the check of a snapshot looks at what Envoy will get, not at
// what the builders meant. Facts of an unchanged resource are kept as long as the resource.
import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack, StringValueSchema } from '@bufbuild/protobuf/wkt';
import { ClusterSchema } from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import type { Address } from '../gen/envoy/config/core/v3/address_pb.js';
import type { Filter, FilterChain } from '../gen/envoy/config/listener/v3/listener_components_pb.js';
import { ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { type VirtualHost, VirtualHostSchema } from '../gen/envoy/config/route/v3/route_components_pb.js';
import { RouteConfigurationSchema } from '../gen/envoy/config/route/v3/route_pb.js';
import { HealthCheckSchema } from '../gen/envoy/extensions/filters/http/health_check/v3/health_check_pb.js';
import {
  type HttpConnectionManager,
  HttpConnectionManagerSchema,
} from '../gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { TcpProxySchema } from '../gen/envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy_pb.js';
import { HeaderMutationSchema } from '../gen/envoy/extensions/http/early_header_mutation/header_mutation/v3/header_mutation_pb.js';
import { SubjectAltNameMatcher_SanType } from '../gen/envoy/extensions/transport_sockets/tls/v3/common_pb.js';
import { UpstreamTlsContextSchema } from '../gen/envoy/extensions/transport_sockets/tls/v3/tls_pb.js';
import type { Matcher, Matcher_OnMatch } from '../gen/xds/type/matcher/v3/matcher_pb.js';
import { PASSTHROUGH_HEADER } from '../mesh/names.ts';
import { ADDRESS_INPUT } from './chain-matcher.ts';
import type { Resource } from './resource.ts';

export interface ClusterFacts {
  /** Of an EDS cluster: the assignment that it waits for. */
  readonly edsName: string | undefined;
  /** Undefined: cleartext. Else the server identities that it accepts; none means any. */
  readonly pins: readonly string[] | undefined;
}

export interface ListenerFacts {
  /** `<netns> <address>:<port>`, or the path of a Unix socket. */
  readonly addresses: readonly string[];
  readonly chains: readonly string[];
  /** Chains that the matcher names. */
  readonly chosenChains: readonly string[];
  /** Those of them that an address leads to whatever port is dialled. */
  readonly portlessChains: readonly string[];
  readonly serverNames: readonly string[];
  readonly clusters: readonly string[];
  readonly routes: readonly string[];
}

export interface RouteFacts {
  readonly domains: readonly string[];
  readonly clusters: readonly string[];
}

const clusters = new WeakMap<Resource, ClusterFacts>();
const listeners = new WeakMap<Resource, ListenerFacts>();
const routes = new WeakMap<Resource, RouteFacts>();

export const clusterFacts = (resource: Resource): ClusterFacts =>
  remember(clusters, resource, () => readCluster(resource.bytes));
export const listenerFacts = (resource: Resource): ListenerFacts =>
  remember(listeners, resource, () => readListener(resource.bytes));

/** Of a listener whose size grows with the node; a test holds them against its bytes. */
export function knowListener(resource: Resource, facts: ListenerFacts): void {
  listeners.set(resource, facts);
}

/** `stamped` says what `original` says, with other names: its facts need not be read again. */
export function stampFacts(original: Resource, stamped: Resource, rename: (text: string) => string): void {
  const all = (texts: readonly string[]): readonly string[] => texts.map(rename);
  if (original.kind === 'cluster') {
    const { edsName, pins } = clusterFacts(original);
    clusters.set(stamped, { edsName: edsName && rename(edsName), pins: pins && all(pins) });
  } else if (original.kind === 'listener') {
    const facts = listenerFacts(original);
    listeners.set(stamped, {
      addresses: all(facts.addresses),
      chains: all(facts.chains),
      chosenChains: all(facts.chosenChains),
      portlessChains: all(facts.portlessChains),
      serverNames: all(facts.serverNames),
      clusters: all(facts.clusters),
      routes: all(facts.routes),
    });
  }
}

/** Of a virtual host, or of the hosts that a table has itself. */
export const routeFacts = (resource: Resource): RouteFacts => remember(routes, resource, () => readRoutes(resource));

function remember<K extends object, T>(memo: WeakMap<K, T>, key: K, read: () => T): T {
  const known = memo.get(key);
  if (known !== undefined) return known;
  const facts = read();
  memo.set(key, facts);
  return facts;
}

function readCluster(bytes: Uint8Array): ClusterFacts {
  const cluster = fromBinary(ClusterSchema, bytes);
  const socket = cluster.transportSocket?.configType.value;
  const tls = socket === undefined ? undefined : anyUnpack(socket, UpstreamTlsContextSchema);
  const validation = tls?.commonTlsContext?.validationContextType;
  const context =
    validation?.case === 'combinedValidationContext' ? validation.value.defaultValidationContext : undefined;
  const pins = (context?.matchTypedSubjectAltNames ?? []).flatMap(({ sanType, matcher }) =>
    sanType === SubjectAltNameMatcher_SanType.URI && matcher?.matchPattern.case === 'exact'
      ? [matcher.matchPattern.value]
      : [],
  );
  return { edsName: cluster.edsClusterConfig?.serviceName, pins: tls === undefined ? undefined : pins };
}

function readListener(bytes: Uint8Array): ListenerFacts {
  const listener = fromBinary(ListenerSchema, bytes);
  const { defaultFilterChain, filterChainMatcher } = listener;
  const chains = [...listener.filterChains, ...(defaultFilterChain === undefined ? [] : [defaultFilterChain])];
  const filters = chains.flatMap((chain) => chain.filters);
  const managers = filters.flatMap((filter) => unpackManager(filter) ?? []);
  return {
    addresses: [listener.address, ...listener.additionalAddresses.map(({ address }) => address)].map(formatAddress),
    chains: chains.map((chain) => chain.name),
    chosenChains: filterChainMatcher === undefined ? [] : listActions(filterChainMatcher),
    portlessChains: [...new Set(filterChainMatcher === undefined ? [] : listPortless(filterChainMatcher))],
    serverNames: chains.flatMap(listServerNames),
    clusters: [...filters.flatMap(listProxied), ...managers.flatMap(listManaged)],
    routes: managers.flatMap(({ routeSpecifier }) =>
      routeSpecifier.case === 'rds' ? [routeSpecifier.value.routeConfigName] : [],
    ),
  };
}

function readRoutes({ kind, bytes }: Resource): RouteFacts {
  const hosts =
    kind === 'host' ? [fromBinary(VirtualHostSchema, bytes)] : fromBinary(RouteConfigurationSchema, bytes).virtualHosts;
  return { domains: hosts.flatMap(({ domains }) => domains), clusters: listRouted(hosts) };
}

function formatAddress(address: Address | undefined): string {
  if (address?.address.case === 'pipe') return address.address.value.path;
  if (address?.address.case !== 'socketAddress') return '';
  const { address: ip, networkNamespaceFilepath, portSpecifier } = address.address.value;
  return `${networkNamespaceFilepath} ${ip}:${portSpecifier.value}`;
}

function listServerNames(chain: FilterChain): readonly string[] {
  return chain.filterChainMatch?.serverNames ?? [];
}

function unpackManager(filter: Filter): HttpConnectionManager | undefined {
  return filter.configType.case === 'typedConfig'
    ? anyUnpack(filter.configType.value, HttpConnectionManagerSchema)
    : undefined;
}

function listProxied(filter: Filter): readonly string[] {
  if (filter.configType.case !== 'typedConfig') return [];
  const specifier = anyUnpack(filter.configType.value, TcpProxySchema)?.clusterSpecifier;
  return specifier?.case === 'cluster' ? [specifier.value] : [];
}

// An inline table, and the cluster that the catch-all of a shared table is told by header.
function listManaged(manager: HttpConnectionManager): readonly string[] {
  const { routeSpecifier, earlyHeaderMutationExtensions } = manager;
  const inline = routeSpecifier.case === 'routeConfig' ? listRouted(routeSpecifier.value.virtualHosts) : [];
  const named = earlyHeaderMutationExtensions.flatMap(({ typedConfig }) => {
    const mutations = typedConfig === undefined ? [] : (anyUnpack(typedConfig, HeaderMutationSchema)?.mutations ?? []);
    return mutations.flatMap(({ action }) =>
      action.case === 'append' && action.value.header?.key === PASSTHROUGH_HEADER ? [action.value.header.value] : [],
    );
  });
  return [...inline, ...named, ...manager.httpFilters.flatMap(listJudged)];
}

// The clusters whose health an answer depends on.
function listJudged({ configType }: HttpConnectionManager['httpFilters'][number]): readonly string[] {
  const check = configType.case === 'typedConfig' ? anyUnpack(configType.value, HealthCheckSchema) : undefined;
  return Object.keys(check?.clusterMinHealthyPercentages ?? {});
}

function listRouted(hosts: readonly VirtualHost[]): readonly string[] {
  return hosts
    .flatMap(({ routes }) => routes)
    .flatMap(({ action }) =>
      action.case === 'route' && action.value.clusterSpecifier.case === 'cluster'
        ? [action.value.clusterSpecifier.value]
        : [],
    );
}

function listActions({ matcherType, onNoMatch }: Matcher): readonly string[] {
  return [...listBranches(matcherType), onNoMatch].flatMap(readAction);
}

function listBranches(matcherType: Matcher['matcherType']): readonly (Matcher_OnMatch | undefined)[] {
  if (matcherType.case === 'matcherList') return matcherType.value.matchers.map(({ onMatch }) => onMatch);
  const tree = matcherType.value?.treeType;
  return tree?.case === 'exactMatchMap' ? Object.values(tree.value.map) : [];
}

// Of the single form's tree, address before port: an address that leads to a chain itself, or by whatever port is left.
function listPortless({ onNoMatch }: Matcher): readonly string[] {
  const byAddress = onNoMatch?.onMatch.case === 'matcher' ? onNoMatch.onMatch.value.matcherType : undefined;
  if (byAddress?.case !== 'matcherTree' || byAddress.value.input?.name !== ADDRESS_INPUT) return [];
  return listBranches(byAddress).flatMap((branch) => {
    const byPort = branch?.onMatch.case === 'matcher' ? branch.onMatch.value : undefined;
    return readAction(byPort?.matcherType.case === 'matcherTree' ? byPort.onNoMatch : branch);
  });
}

function readAction(match: Matcher_OnMatch | undefined): readonly string[] {
  if (match?.onMatch.case === 'matcher') return listActions(match.onMatch.value);
  const config = match?.onMatch.case === 'action' ? match.onMatch.value.typedConfig : undefined;
  const name = config === undefined ? undefined : anyUnpack(config, StringValueSchema)?.value;
  return name === undefined ? [] : [name];
}
