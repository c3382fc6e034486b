// Limits and health of upstream clusters. Envoy's defaults are meant for one program; this Envoy serves a whole node.

// Envoy's default of 1 024 connections, requests and queued requests would be shared by all pods of the node.
const UNLIMITED = 0xffff_ffff;

/** No limit of our own on connections and requests: pods would see failures that the network would not have made. */
export function noConnectionLimit(options: { readonly maxRetries?: number } = {}) {
  const limits = { maxConnections: UNLIMITED, maxPendingRequests: UNLIMITED, maxRequests: UNLIMITED };
  return { thresholds: [options.maxRetries === undefined ? limits : { ...limits, maxRetries: options.maxRetries }] };
}

/** Finds a peer that vanished without a word, on connections that may idle for days. Seconds. */
export function keepalive() {
  return { tcpKeepalive: { keepaliveProbes: 3, keepaliveTime: 60, keepaliveInterval: 20 } };
}
