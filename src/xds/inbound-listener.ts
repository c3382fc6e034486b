// `inbound_<pod>`, 18008 in the pod: what the mesh sends to it. The server name of the hop is the port in decimal; without
// one, HTTP (by ALPN) goes to the pod's default HTTP port and the rest to its primary (the floor).
import { create } from '@bufbuild/protobuf';
import { TrafficDirection } from '../gen/envoy/config/core/v3/base_pb.js';
import { type Listener, ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { INBOUND_PORT } from '../mesh/constants.ts';
import { appClusterName, inboundHttpChainName, inboundListenerName, inboundTcpChainName } from '../mesh/names.ts';
import type { ServedPort, WorkloadPorts } from '../mesh/port-protocols.ts';
import { tcpAccessLog } from './access-log.ts';
import { inboundHttp } from './http-connection-manager.ts';
import type { NodePod, NodeSettings } from './input.ts';
import { tcpProxy } from './network-filters.ts';
import { ANY_ADDRESS, placeListener, tlsInspector } from './pod-listener.ts';
import { downstreamTls } from './tls.ts';

export function buildInboundListener(pod: NodePod, node: NodeSettings): Listener {
  const place = placeListener({
    name: inboundListenerName(pod.resourceName),
    statPrefix: inboundListenerName(pod.resourceName),
    direction: TrafficDirection.INBOUND,
    place: { netns: pod.netnsPath, port: INBOUND_PORT, addresses: ANY_ADDRESS },
    ipv6: node.ipv6 ?? true,
  });
  const whose = { pod, node };
  if (node.identity === 'none') return create(ListenerSchema, { ...place, filterChains: [httpChain(whose)] });
  const transportSocket = downstreamTls({ trustDomain: node.trustDomain, identity: pod.identity });
  const chains = [floorChain(whose), h2Chain(whose), ...pod.ports.served.map((served) => portChain(served, whose))];
  return create(ListenerSchema, {
    ...place,
    listenerFilters: [tlsInspector()],
    filterChains: chains.map((chain) => ({ ...chain, transportSocket })),
  });
}

// The port behind HTTP that names none: the primary if it is HTTP, else the lowest HTTP port, else the primary all the same.
function findInboundHttpPort(ports: WorkloadPorts): number {
  const http = ports.served.filter((served) => served.protocol === 'http').map((served) => served.port);
  return http.includes(ports.primary) ? ports.primary : (http[0] ?? ports.primary);
}

interface Whose {
  readonly pod: NodePod;
  readonly node: NodeSettings;
}

function floorChain(whose: Whose) {
  const { resourceName, ports } = whose.pod;
  return tcpChain(inboundTcpChainName(resourceName), appClusterName(resourceName, ports.primary), whose);
}

function tcpChain(name: string, cluster: string, { pod, node }: Whose) {
  return { name, filters: [tcpProxy(name, cluster, { accessLog: tcpAccessLog(pod, node, 'destination') })] };
}

function h2Chain(whose: Whose) {
  return { ...httpChain(whose), filterChainMatch: { applicationProtocols: ['h2'] } };
}

function httpChain(whose: Whose) {
  const { resourceName, ports } = whose.pod;
  const cluster = appClusterName(resourceName, findInboundHttpPort(ports));
  return { name: inboundHttpChainName(resourceName), filters: [inboundHttp(cluster, whose)] };
}

function portChain({ port, protocol }: ServedPort, whose: Whose) {
  const { resourceName } = whose.pod;
  const cluster = appClusterName(resourceName, port);
  const filterChainMatch = { serverNames: [String(port)] };
  if (protocol === 'http') {
    return {
      name: inboundHttpChainName(resourceName, port),
      filterChainMatch,
      filters: [inboundHttp(cluster, whose)],
    };
  }
  return { ...tcpChain(inboundTcpChainName(resourceName, port), cluster, whose), filterChainMatch };
}
