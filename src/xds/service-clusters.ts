// Clusters of a service, read off its view. No cluster holds anything of a client: all pods of the node share them.
import { create } from '@bufbuild/protobuf';
import {
  type Cluster,
  Cluster_DiscoveryType,
  ClusterSchema,
  Cluster_LbSubsetConfig_LbSubsetFallbackPolicy as Fallback,
  Cluster_LbSubsetConfig_LbSubsetSelector_LbSubsetSelectorFallbackPolicy as SelectorFallback,
} from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { HTTP_MESH_PORT, TCP_MESH_PORT } from '../mesh/constants.ts';
import {
  formatServiceKey,
  httpClusterName,
  httpDefaultEdsName,
  spiffeId,
  tcpClusterName,
  tcpEdsName,
  tcpServiceClusterName,
  tcpStatKey,
} from '../mesh/names.ts';
import { hasOwnSpelling } from '../mesh/resolve-authority.ts';
import type { PortBucket, ServiceView } from '../mesh/service-view.ts';
import { BUFFER_LIMIT_BYTES, fromAds, milliseconds } from './envoy-values.ts';
import type { NodeSettings } from './input.ts';
import { upstreamTls } from './tls.ts';
import { speakH2 } from './upstream-http.ts';
import { keepalive, noConnectionLimit } from './upstream-limits.ts';

/** All clusters of a service: HTTP by name, raw TCP by address (under mTLS only). */
export function buildServiceClusters(view: ServiceView, node: NodeSettings): readonly Cluster[] {
  return node.identity === 'mtls'
    ? [...httpClusters(view, node), ...tcpClusters(view, node)]
    : httpClusters(view, node);
}

/**
 * HTTP ports whose cluster `<fqdn>:<port>` has endpoints of its own, ascending. The default's shares those of the name, except
 * while pods do not agree on what the default is: it may change then under clients at work, the name's endpoints are others, and
 * a number that shared them would for a moment lead to another port than its own.
 */
export function listOwnHttpPorts(view: ServiceView): readonly PortBucket[] {
  return view.isHttpAgreed ? listExtraHttpPorts(view) : view.http.filter(({ port }) => hasOwnSpelling(port));
}

/** HTTP ports that are spelt by number beside the default, ascending; the mesh ports' spellings already mean something else. */
export function listExtraHttpPorts(view: ServiceView): readonly PortBucket[] {
  return view.http.filter(({ port }) => port !== view.httpDefault?.port && hasOwnSpelling(port));
}

function httpClusters(view: ServiceView, node: NodeSettings): Cluster[] {
  const bucket = view.httpDefault;
  if (bucket === undefined) return [];
  const edsName = httpDefaultEdsName(view.key);
  const own = listOwnHttpPorts(view);
  // Aliases: the name with the mesh port or with the default's own number.
  const aliases = [...new Set([HTTP_MESH_PORT, bucket.port])].filter(
    (port) => port !== TCP_MESH_PORT && !own.some((other) => other.port === port),
  );
  const names = [httpClusterName(view.fqdn), ...aliases.map((port) => httpClusterName(view.fqdn, port))];
  return [
    ...names.map((name) => httpCluster(name, edsName, { view, node, bucket })),
    ...own.map((numbered) => {
      const name = httpClusterName(view.fqdn, numbered.port);
      return httpCluster(name, name, { view, node, bucket: numbered });
    }),
  ];
}

function tcpClusters(view: ServiceView, node: NodeSettings): Cluster[] {
  const { tcpDefault } = view;
  if (tcpDefault === undefined) return [];
  if (node.captureForm === 'single') return view.vips.length === 0 ? [] : tcpClustersByName(view, tcpDefault, node);
  return view.vips.flatMap((vip) => [
    tcpCluster(tcpClusterName(vip.text, TCP_MESH_PORT), TCP_MESH_PORT, { view, node, bucket: tcpDefault }),
    ...view.tcp.map((bucket) => tcpCluster(tcpClusterName(vip.text, bucket.port), bucket.port, { view, node, bucket })),
  ]);
}

function tcpClustersByName(view: ServiceView, tcpDefault: PortBucket, node: NodeSettings): Cluster[] {
  return [
    tcpCluster(tcpServiceClusterName(view.fqdn), TCP_MESH_PORT, { view, node, bucket: tcpDefault }),
    ...view.tcp.map((bucket) =>
      tcpCluster(tcpServiceClusterName(view.fqdn, bucket.port), bucket.port, { view, node, bucket }),
    ),
  ];
}

interface Target {
  readonly view: ServiceView;
  readonly node: NodeSettings;
  readonly bucket: PortBucket;
}

function httpCluster(name: string, edsName: string, target: Target): Cluster {
  return create(ClusterSchema, {
    ...meshCluster(name, edsName),
    altStatName: formatServiceKey(target.view.key),
    typedExtensionProtocolOptions: speakH2(),
    lbSubsetConfig: {
      fallbackPolicy: Fallback.ANY_ENDPOINT,
      subsetSelectors: ['ip', 'pod'].map((key) => ({
        keys: [key],
        singleHostPerSubset: true,
        fallbackPolicy: SelectorFallback.NO_FALLBACK,
      })),
    },
    outlierDetection: { ...outliers(), consecutive5xx: 5 },
    circuitBreakers: noConnectionLimit({ maxRetries: 16 }),
    ...security(target, ['h2']),
  });
}

function tcpCluster(name: string, dialled: number, target: Target): Cluster {
  const { view, bucket } = target;
  return create(ClusterSchema, {
    ...meshCluster(name, tcpEdsName(view.fqdn, bucket.port)),
    altStatName: tcpStatKey(view.key, dialled),
    outlierDetection: outliers(),
    circuitBreakers: noConnectionLimit(),
    ...security(target, []),
  });
}

function meshCluster(name: string, serviceName: string) {
  return {
    name,
    clusterDiscoveryType: { case: 'type' as const, value: Cluster_DiscoveryType.EDS },
    edsClusterConfig: { edsConfig: fromAds(), serviceName },
    connectTimeout: milliseconds(2000),
    perConnectionBufferLimitBytes: BUFFER_LIMIT_BYTES,
    // Never panic: an endpoint known to be down gets nothing, even when all are.
    commonLbConfig: { healthyPanicThreshold: { value: 0 } },
    closeConnectionsOnHostHealthFailure: true,
    ignoreHealthOnHostRemoval: true,
    upstreamConnectionOptions: keepalive(),
  };
}

function outliers() {
  return {
    splitExternalLocalOriginErrors: true,
    consecutiveLocalOriginFailure: 3,
    baseEjectionTime: milliseconds(30_000),
    maxEjectionPercent: 50,
    interval: milliseconds(10_000),
  };
}

// Pinned to the identities that this service's pods can have: an endpoint that is somebody else is refused.
function security({ view, node, bucket }: Target, alpn: readonly string[]) {
  if (node.identity === 'none') return {};
  const { serviceAccount } = view.key;
  const serverIds = view.endpointNamespaces.map((namespace) =>
    spiffeId({ namespace, serviceAccount }, node.trustDomain),
  );
  return {
    transportSocket: upstreamTls({ trustDomain: node.trustDomain, serverIds, serverName: bucket.serverName, alpn }),
  };
}
