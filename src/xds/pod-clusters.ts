// Clusters of a pod: its application's ports, reached over its own loopback, and the way out from its own namespace.
import { create } from '@bufbuild/protobuf';
import {
  type Cluster,
  Cluster_DiscoveryType,
  Cluster_LbPolicy,
  ClusterSchema,
} from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { SocketOption_SocketState } from '../gen/envoy/config/core/v3/socket_option_pb.js';
import { BYPASS_MARK32, RESERVED_TCP_PORTS, TCP_MESH_PORT } from '../mesh/constants.ts';
import { appClusterName, BLACKHOLE_CLUSTER, passthroughClusterName } from '../mesh/names.ts';
import type { ServedPort } from '../mesh/port-protocols.ts';
import { reachApp } from './app-address.ts';
import { BUFFER_LIMIT_BYTES, milliseconds, socketAddress } from './envoy-values.ts';
import { buildHealthCluster } from './health.ts';
import type { NodePod, NodeSettings } from './input.ts';
import { sameAsDownstream, speakH2 } from './upstream-http.ts';
import { noConnectionLimit } from './upstream-limits.ts';

/** Linux asm-generic/socket.h. */
const SOL_SOCKET = 1;
const SO_MARK = 36;

export function buildPodClusters(pod: NodePod, node: NodeSettings): readonly Cluster[] {
  return [
    passthroughCluster(pod, node),
    ...pod.ports.served.map((served) => appCluster(pod, served)),
    buildHealthCluster(pod),
  ];
}

/** Has no endpoint: what is sent to it is closed at once. */
export function buildBlackholeCluster(): Cluster {
  return create(ClusterSchema, {
    name: BLACKHOLE_CLUSTER,
    clusterDiscoveryType: { case: 'type', value: Cluster_DiscoveryType.STATIC },
    connectTimeout: milliseconds(1000),
  });
}

// One application port.
function appCluster(pod: NodePod, served: ServedPort): Cluster {
  const { resourceName } = pod;
  const name = appClusterName(resourceName, served.port);
  return create(ClusterSchema, {
    name,
    altStatName: 'app',
    clusterDiscoveryType: { case: 'type', value: Cluster_DiscoveryType.STATIC },
    connectTimeout: milliseconds(2000),
    perConnectionBufferLimitBytes: BUFFER_LIMIT_BYTES,
    circuitBreakers: noConnectionLimit(),
    // Without an endpoint where the pod's loopback has a listener of ours: HTTP that came in for port 18081 would go out
    // again through the outbound listener, back to this pod, ten thousand times in ten seconds.
    ...(pod.udsPath === undefined && isOwnListener(served.port) ? {} : reachApp(name, pod, served.port)),
    ...(served.protocol === 'http' && served.codec === 'h2' ? { typedExtensionProtocolOptions: speakH2() } : {}),
  });
}

function isOwnListener(port: number): boolean {
  return RESERVED_TCP_PORTS.has(port) && port !== TCP_MESH_PORT;
}

// To the address dialled, out of the pod's namespace: source address and network policy stay the pod's, and nothing of the
// host's loopback can be reached. The mark keeps the rules from capturing it again; it is set before the bind.
function passthroughCluster({ resourceName, netnsPath }: NodePod, node: NodeSettings): Cluster {
  const any6 = { address: socketAddress('::', 0, { netns: netnsPath }) };
  return create(ClusterSchema, {
    name: passthroughClusterName(resourceName),
    clusterDiscoveryType: { case: 'type', value: Cluster_DiscoveryType.ORIGINAL_DST },
    lbPolicy: Cluster_LbPolicy.CLUSTER_PROVIDED,
    connectTimeout: milliseconds(2000),
    perConnectionBufferLimitBytes: BUFFER_LIMIT_BYTES,
    upstreamBindConfig: {
      sourceAddress: socketAddress('0.0.0.0', 0, { netns: netnsPath }),
      extraSourceAddresses: (node.ipv6 ?? true) ? [any6] : [],
      socketOptions: [
        {
          description: 'not captured again',
          level: BigInt(SOL_SOCKET),
          name: BigInt(SO_MARK),
          value: { case: 'intValue', value: BigInt(BYPASS_MARK32) },
          state: SocketOption_SocketState.STATE_PREBIND,
        },
      ],
    },
    circuitBreakers: noConnectionLimit(),
    typedExtensionProtocolOptions: sameAsDownstream(),
  });
}
