// The cluster of the OTLP collector that access logs go to: gRPC, in the clear, from the node itself.
import { create } from '@bufbuild/protobuf';
import { type Cluster, Cluster_DiscoveryType, ClusterSchema } from '../gen/envoy/config/cluster/v3/cluster_pb.js';
import { OTEL_COLLECTOR_CLUSTER } from '../mesh/names.ts';
import { milliseconds, socketAddress } from './envoy-values.ts';
import type { CollectorAddress } from './input.ts';
import { speakH2 } from './upstream-http.ts';

export function buildCollectorCluster(at: CollectorAddress): Cluster {
  const address =
    at.kind === 'unix'
      ? { case: 'pipe' as const, value: { path: at.path } }
      : { case: 'socketAddress' as const, value: socketAddress(at.host, at.port) };
  const type = at.kind === 'name' ? Cluster_DiscoveryType.STRICT_DNS : Cluster_DiscoveryType.STATIC;
  return create(ClusterSchema, {
    name: OTEL_COLLECTOR_CLUSTER,
    clusterDiscoveryType: { case: 'type', value: type },
    connectTimeout: milliseconds(1000),
    // A collector that cannot be resolved must not keep the node waiting.
    waitForWarmOnInit: false,
    typedExtensionProtocolOptions: speakH2(),
    loadAssignment: {
      clusterName: OTEL_COLLECTOR_CLUSTER,
      endpoints: [{ lbEndpoints: [{ hostIdentifier: { case: 'endpoint', value: { address: { address } } } }] }],
    },
  });
}
