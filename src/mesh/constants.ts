// Numbers and names fixed by the mesh contract: others depend on every one of them, so none is a setting.

/** HTTP mesh port: the outbound listener, and the port that a client may always dial for HTTP. */
export const HTTP_MESH_PORT = 18081;
/** TCP mesh port: the default TCP port of a service under any capture mode. */
export const TCP_MESH_PORT = 18082;
/** Capture listener in the pod, HTTP by authority, passthrough, UDP. */
export const CAPTURE_PORT = 18001;
/** Capture listener for declared TCP ports: no inspector, never waits for client bytes. */
export const CAPTURE_TCP_PORT = 18002;
/** Capture listener for the other ports of a pure-TCP service (the any-port shim). */
export const CAPTURE_SHIM_PORT = 18003;
/** Reserved for TLS routes. */
export const CAPTURE_TLS_PORT = 18004;
/** Where a node's Envoy accepts mTLS for the pods of its node, in each pod's namespace. */
export const INBOUND_PORT = 18008;
/** Mesh DNS on the host IP. */
export const MESH_DNS_PORT = 18054;
/** Mark on traffic that must not be captured again (SO_MARK, nft `meta mark`). */
export const BYPASS_MARK32 = 0xae7e;

/** Ports that no application may declare as TCP: each would shadow or loop through a port of the mesh itself. */
export const RESERVED_TCP_PORTS: ReadonlySet<number> = new Set([
  CAPTURE_PORT,
  CAPTURE_TCP_PORT,
  CAPTURE_SHIM_PORT,
  CAPTURE_TLS_PORT,
  INBOUND_PORT,
  HTTP_MESH_PORT,
  TCP_MESH_PORT,
]);

/** The capture ports themselves: never redirected, so that a dial to one cannot loop. */
export const CAPTURE_PORTS: readonly number[] = [CAPTURE_PORT, CAPTURE_TCP_PORT, CAPTURE_SHIM_PORT, CAPTURE_TLS_PORT];

export const DEFAULT_MESH_DOMAIN = 'aether.internal';
export const DEFAULT_APP_PORT = 8080;
export const DEFAULT_WEIGHT = 1024;
export const DEFAULT_SERVICE_ACCOUNT = 'default';

export const ANNOTATION_PORT = 'endpoint.aether.io/port';
export const ANNOTATION_PORTS = 'endpoint.aether.io/ports';
export const ANNOTATION_PROTOCOL = 'endpoint.aether.io/protocol';
export const ANNOTATION_WEIGHT = 'endpoint.aether.io/weight';
export const ANNOTATION_HEALTH_CHECK_MODE = 'endpoint.aether.io/health-check-mode';
export const ANNOTATION_HEALTH_PATH = 'endpoint.aether.io/health-path';
export const ANNOTATION_UDS_SOCKET = 'endpoint.aether.io/uds-socket';
export const ANNOTATION_METADATA_PREFIX = 'metadata.endpoint.aether.io/';
export const ANNOTATION_REDIRECT_ALL = 'capture.aether.io/redirect-all';
export const ANNOTATION_EXCLUDE_PORTS = 'capture.aether.io/exclude-outbound-ports';
export const ANNOTATION_EXCLUDE_RANGES = 'capture.aether.io/exclude-outbound-ip-ranges';
export const ANNOTATION_UPSTREAMS = 'config.aether.io/upstreams';
export const ANNOTATION_MANAGED = 'aether.io/managed';
export const ANNOTATION_SERVICE_ACCOUNT = 'aether.io/service-account';

/** Response header of the 421 that a service without HTTP ports answers; value `no-http-port`. */
export const ERROR_HEADER = 'x-aether-error';
