// The listeners that take what a pod sends. They hold nothing about services: they change only when the pod does.
//   capture_<pod>      18001  HTTP by authority; the rest passes through (redirect-all) or is refused (scoped)
//   capture_tcp_<pod>  18002  ports that the kernel knows to be TCP: the cluster is named by the address dialled
//   capture_shim_<pod> 18003  other ports of an address that serves nothing but TCP: its default TCP port
import { create } from '@bufbuild/protobuf';
import { TrafficDirection } from '../gen/envoy/config/core/v3/base_pb.js';
import { type Listener, ListenerSchema } from '../gen/envoy/config/listener/v3/listener_pb.js';
import { CAPTURE_PORT, CAPTURE_SHIM_PORT, CAPTURE_TCP_PORT } from '../mesh/constants.ts';
import {
  BLACKHOLE_CLUSTER,
  CHAIN_ANYPORT,
  CHAIN_CAPTURE,
  CHAIN_PASSTHROUGH,
  CHAIN_TCP,
  CHAIN_TCP_BLACKHOLE,
  captureListenerName,
  captureShimListenerName,
  captureTcpListenerName,
  passthroughClusterName,
} from '../mesh/names.ts';
import { tcpAccessLog } from './access-log.ts';
import { matchHttp, matchScoped } from './chain-matcher.ts';
import { countConnections } from './connection-counter.ts';
import { captureHttp } from './http-connection-manager.ts';
import type { NodePod, NodeSettings } from './input.ts';
import { setIdentity, setIdentityAndAddress, setIdentityAndDial, tcpProxy } from './network-filters.ts';
import { httpInspector, INSPECT, LOOPBACK, originalDestination, placeListener, tlsInspector } from './pod-listener.ts';

/** The capture listeners of a pod. Raw TCP crosses the mesh only under mTLS, so without it there is only the first. */
export function buildCaptureListeners(pod: NodePod, node: NodeSettings): readonly Listener[] {
  const capture = pod.redirectAll ? redirectAllListener(pod, node) : scopedListener(pod, node);
  return node.identity === 'mtls' ? [capture, tcpListener(pod, node), shimListener(pod, node)] : [capture];
}

function redirectAllListener(pod: NodePod, node: NodeSettings): Listener {
  return create(ListenerSchema, {
    ...inspected(captureListenerName(pod.resourceName), CAPTURE_PORT, { pod, node }),
    filterChains: [captureChain(pod, node), blackholeChain(pod, node)],
    filterChainMatcher: matchHttp(),
    defaultFilterChain: {
      name: CHAIN_PASSTHROUGH,
      filters: [
        tcpProxy(CHAIN_PASSTHROUGH, passthroughClusterName(pod.resourceName), {
          accessLog: tcpAccessLog(pod, node, 'source'),
        }),
      ],
    },
  });
}

function scopedListener(pod: NodePod, node: NodeSettings): Listener {
  return create(ListenerSchema, {
    ...inspected(captureListenerName(pod.resourceName), CAPTURE_PORT, { pod, node }),
    filterChains: [captureChain(pod, node), blackholeChain(pod, node)],
    filterChainMatcher: matchScoped(),
  });
}

function tcpListener(pod: NodePod, node: NodeSettings): Listener {
  return create(ListenerSchema, {
    ...place(captureTcpListenerName(pod.resourceName), CAPTURE_TCP_PORT, { pod, node }),
    // No inspector: a server that speaks first is never kept waiting.
    listenerFilters: [originalDestination()],
    filterChains: [tcpChain(CHAIN_TCP, setIdentityAndDial(pod.identity), { pod, node })],
  });
}

function shimListener(pod: NodePod, node: NodeSettings): Listener {
  return create(ListenerSchema, {
    ...inspected(captureShimListenerName(pod.resourceName), CAPTURE_SHIM_PORT, { pod, node }),
    filterChains: [captureChain(pod, node), blackholeChain(pod, node)],
    filterChainMatcher: matchHttp(),
    defaultFilterChain: tcpChain(CHAIN_ANYPORT, setIdentityAndAddress(pod.identity), { pod, node }),
  });
}

export function captureChain(pod: NodePod, node: NodeSettings) {
  const identify = node.identity === 'mtls' ? [setIdentity(pod.identity)] : [];
  return { name: CHAIN_CAPTURE, filters: [...identify, captureHttp(pod, node)] };
}

// An address and port without a cluster ends in the blackhole, which closes at once.
function tcpChain(name: string, choose: ReturnType<typeof setIdentity>, { pod, node }: Whose) {
  const accessLog = [countConnections(name), ...tcpAccessLog(pod, node, 'source')];
  const proxy = tcpProxy(name, BLACKHOLE_CLUSTER, { accessLog, onDemand: node.onDemandTcp ?? false });
  return { name, filters: [choose, proxy] };
}

export function blackholeChain(pod: NodePod, node: NodeSettings) {
  const proxy = tcpProxy(CHAIN_TCP_BLACKHOLE, BLACKHOLE_CLUSTER, { accessLog: tcpAccessLog(pod, node, 'source') });
  return { name: CHAIN_TCP_BLACKHOLE, filters: [proxy] };
}

interface Whose {
  readonly pod: NodePod;
  readonly node: NodeSettings;
}

function inspected(name: string, port: number, whose: Whose) {
  return {
    ...place(name, port, whose),
    ...INSPECT,
    listenerFilters: [originalDestination(), httpInspector(), tlsInspector()],
  };
}

// A redirect in the output hook always leads to 127.0.0.1 or ::1, so nobody outside the pod can reach these.
// Never use_original_dst: it hands a connection to whatever listener has the address dialled, of any pod, since Envoy looks
// by address without namespace. A dial to any port 18008 would end in the inbound listener of some pod of the node.
function place(name: string, port: number, { pod, node }: Whose) {
  return {
    ...placeListener({
      name,
      statPrefix: name,
      direction: TrafficDirection.OUTBOUND,
      place: { netns: pod.netnsPath, port, addresses: LOOPBACK },
      ipv6: node.ipv6 ?? true,
    }),
  };
}
