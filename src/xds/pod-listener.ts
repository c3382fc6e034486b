// What all listeners of a pod have in common: sockets in the pod's namespace on both families, limits, listener filters.
import type { TrafficDirection } from '../gen/envoy/config/core/v3/base_pb.js';
import { HttpInspectorSchema } from '../gen/envoy/extensions/filters/listener/http_inspector/v3/http_inspector_pb.js';
import { OriginalDstSchema } from '../gen/envoy/extensions/filters/listener/original_dst/v3/original_dst_pb.js';
import { TlsInspectorSchema } from '../gen/envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector_pb.js';
import { BUFFER_LIMIT_BYTES, filter, milliseconds, socketAddress } from './envoy-values.ts';

/** Where a listener listens: one port, an address of each family, in the namespace at `netns`. */
export interface ListenerPlace {
  readonly netns: string;
  readonly port: number;
  readonly addresses: ListenerAddresses;
}

/** `[first, second]`: loopback for what the pod sends, the unspecified address for what it receives. */
export type ListenerAddresses = readonly ['127.0.0.1', '::1'] | readonly ['0.0.0.0', '::'];
export const LOOPBACK: ListenerAddresses = ['127.0.0.1', '::1'];
export const ANY_ADDRESS: ListenerAddresses = ['0.0.0.0', '::'];

/** A listener of a pod. `statPrefix` names its counters: `listener.<statPrefix>.*`. */
export interface PodListener {
  readonly name: string;
  readonly statPrefix: string;
  readonly direction: TrafficDirection;
  readonly place: ListenerPlace;
  /** False where the node's kernel has no IPv6. */
  readonly ipv6: boolean;
}

/** The fields of a Listener message that say where it listens and as whom. */
export function placeListener({ name, statPrefix, direction, place, ipv6 }: PodListener) {
  const [first, second] = place.addresses;
  const at = (address: string) => ({
    address: { case: 'socketAddress' as const, value: socketAddress(address, place.port, { netns: place.netns }) },
  });
  return {
    name,
    statPrefix,
    trafficDirection: direction,
    address: at(first),
    additionalAddresses: ipv6 ? [{ address: at(second) }] : [],
    // A pod whose namespace has IPv6 switched off has no ::1, and one address that does not bind refuses the listener.
    freebind: true,
    perConnectionBufferLimitBytes: BUFFER_LIMIT_BYTES,
  };
}

/** Restores the address that was dialled before the redirect. */
export function originalDestination() {
  return filter('envoy.filters.listener.original_dst', OriginalDstSchema);
}

export function tlsInspector() {
  return filter('envoy.filters.listener.tls_inspector', TlsInspectorSchema);
}

export function httpInspector() {
  return filter('envoy.filters.listener.http_inspector', HttpInspectorSchema);
}

/** How long a silent client keeps the inspectors waiting; then the connection goes on undetected. */
export const INSPECT = {
  listenerFiltersTimeout: milliseconds(1000),
  continueOnListenerFiltersTimeout: true,
} as const;
