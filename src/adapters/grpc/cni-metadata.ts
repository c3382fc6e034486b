// What ours adds to the Go mesh's CNIService: names of metadata and trailers, for both ends.

/** Metadata of AddPod: `wait`, `require` or `skip`. */
export const PROXY_READY_METADATA = 'aether-proxy-ready';
/** Trailer of AddPod, one for each warning. */
export const WARNING_METADATA = 'aether-warning';
