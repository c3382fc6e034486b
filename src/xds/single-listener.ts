// `capture_<pod>` of the single form: one listener on 18001 for everything that the pod sends, with the chains of all services.
import { create } from '@bufbuild/protobuf';
import { TrafficDirection } from '../gen/envoy/config/core/v3/base_pb.js';
import { type Listener, ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { CAPTURE_PORT, TCP_MESH_PORT } from '../mesh/constants.ts';
import { CHAIN_PASSTHROUGH, captureListenerName, passthroughClusterName } from '../mesh/names.ts';
import { tcpAccessLog } from './access-log.ts';
import { blackholeChain, captureChain } from './capture-listeners.ts';
import type { NodePod, NodeSettings } from './input.ts';
import { setIdentity, tcpProxy } from './network-filters.ts';
import { httpInspector, INSPECT, LOOPBACK, originalDestination, placeListener, tlsInspector } from './pod-listener.ts';
import type { SingleChain, SingleForm } from './single-form.ts';
import { matchSingle } from './single-matcher.ts';

export function buildSingleListener(pod: NodePod, node: NodeSettings, form: SingleForm): Listener {
  const name = captureListenerName(pod.resourceName);
  const accessLog = tcpAccessLog(pod, node, 'source');
  const tcp = ({ name: chain, cluster }: SingleChain) => ({
    name: chain,
    filters: [setIdentity(pod.identity), tcpProxy(chain, cluster, { accessLog, onDemand: node.onDemandTcp ?? false })],
  });
  const chains = form.services.flatMap(({ ports, anyport }) => [
    ...ports.map(({ chain }) => chain),
    ...(anyport === undefined ? [] : [anyport]),
  ]);
  const passthrough = tcpProxy(CHAIN_PASSTHROUGH, passthroughClusterName(pod.resourceName), { accessLog });
  return create(ListenerSchema, {
    ...placeListener({
      name,
      statPrefix: name,
      direction: TrafficDirection.OUTBOUND,
      place: { netns: pod.netnsPath, port: CAPTURE_PORT, addresses: LOOPBACK },
      ipv6: node.ipv6 ?? true,
    }),
    ...INSPECT,
    listenerFilters: [
      originalDestination(),
      { ...httpInspector(), filterDisabled: onTcpMeshPort() },
      { ...tlsInspector(), filterDisabled: onTcpMeshPort() },
    ],
    filterChains: [captureChain(pod, node), blackholeChain(pod, node), ...chains.map(tcp)],
    filterChainMatcher: matchSingle(form, { redirectAll: pod.redirectAll }),
    ...(pod.redirectAll ? { defaultFilterChain: { name: CHAIN_PASSTHROUGH, filters: [passthrough] } } : {}),
  });
}

// The one port that is TCP by definition: there a server that speaks first is not kept waiting. On ports of applications
// it is, since the inspectors run before the address is looked at.
function onTcpMeshPort() {
  const range = { start: TCP_MESH_PORT, end: TCP_MESH_PORT + 1 };
  return { rule: { case: 'destinationPortRange' as const, value: range } };
}
