// `outbound_http_<pod>`, 18081 in the pod: HTTP that the pod sends to the mesh on purpose, and the plugin's readiness probe.
import { create } from '@bufbuild/protobuf';
import { TrafficDirection } from '../gen/envoy/config/core/v3/base_pb.js';
import { type Listener, ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { HTTP_MESH_PORT } from '../mesh/constants.ts';
import { outboundChainName, outboundListenerName } from '../mesh/names.ts';
import { outboundHttp } from './http-connection-manager.ts';
import type { NodePod, NodeSettings } from './input.ts';
import { setIdentity } from './network-filters.ts';
import { LOOPBACK, placeListener } from './pod-listener.ts';

export function buildOutboundListener(pod: NodePod, node: NodeSettings): Listener {
  const chain = outboundChainName(pod.resourceName);
  const identify = node.identity === 'mtls' ? [setIdentity(pod.identity)] : [];
  return create(ListenerSchema, {
    ...placeListener({
      name: outboundListenerName(pod.resourceName),
      statPrefix: chain,
      direction: TrafficDirection.OUTBOUND,
      place: { netns: pod.netnsPath, port: HTTP_MESH_PORT, addresses: LOOPBACK },
      ipv6: node.ipv6 ?? true,
    }),
    filterChains: [{ name: chain, filters: [...identify, outboundHttp(pod, node)] }],
  });
}
