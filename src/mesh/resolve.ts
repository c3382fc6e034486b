// The resolution rule: what a dial from a pod of the node becomes. One function for the kernel's part (which of the
// pod's two nat tables claims the packet) and Envoy's part (which chain, which cluster); `explain` prints its answer,
// and the tests hold it against the real kernel and the real Envoy.
// Source: architecture §4 (order of the rules), proposal 037 "The resolution rule", Envoy's filter_chain_matcher.
import { CAPTURE_PORT, CAPTURE_SHIM_PORT, CAPTURE_TCP_PORT, TCP_MESH_PORT } from './constants.ts';
import {
  CHAIN_ANYPORT,
  CHAIN_CAPTURE,
  CHAIN_PASSTHROUGH,
  CHAIN_TCP,
  CHAIN_TCP_BLACKHOLE,
  tcpClusterName,
} from './names.ts';
import { type AuthorityAnswer, resolveAuthority } from './resolve-authority.ts';
import { type Dial, type DirectReason, findByVip, type ResolveContext, resolveInKernel } from './resolve-in-kernel.ts';
import type { PortBucket, ServiceView } from './service-view.ts';

/** Where the capture listeners listen. */
const LISTENER_ADDRESSES: readonly string[] = ['127.0.0.1', '::1'];

/** Where Envoy took the connection: listener port and chain; `waits` is the inspectors' 1 s for a silent client. */
export interface CapturedBy {
  readonly listenerPort: number;
  readonly chain: string;
  readonly waits: boolean;
}

export type Resolution =
  /** Not captured: on to the address dialled, from the pod itself. */
  | { readonly kind: 'direct'; readonly reason: DirectReason }
  /** To the node's mesh DNS. */
  | { readonly kind: 'dns' }
  /** Refused by the kernel at once. */
  | { readonly kind: 'reset' }
  /** Envoy closes the connection: the chain leads nowhere by design. */
  | { readonly kind: 'closed'; readonly by: CapturedBy }
  /** Envoy waits for a request, and the client for the server: nothing happens until one of them gives up. */
  | { readonly kind: 'held'; readonly by: CapturedBy }
  /** Envoy connects to the address dialled, from the pod's own namespace. */
  | { readonly kind: 'passthrough'; readonly by: CapturedBy }
  /** Envoy answers HTTP itself: 421 (no HTTP port), 503 (nobody registered that port), 400 (not HTTP, or without Host). */
  | { readonly kind: 'status'; readonly by: CapturedBy; readonly status: 400 | 421 | 503 }
  /** Over the mesh to an endpoint of the bucket. */
  | {
      readonly kind: 'mesh';
      readonly by: CapturedBy;
      readonly cluster: string;
      readonly service: ServiceView;
      readonly bucket: PortBucket;
    };

/** Resolves a dial completely. */
export function resolve(dial: Dial, context: ResolveContext): Resolution {
  const kernel = resolveInKernel(dial, context);
  if (kernel.kind === 'direct') return resolveOwnListener(dial, context) ?? kernel;
  if (kernel.kind !== 'redirect') return kernel;
  switch (kernel.port) {
    case CAPTURE_TCP_PORT:
      return resolveTcp(dial, dial.port, { listenerPort: kernel.port, chain: CHAIN_TCP, waits: false }, context);
    case CAPTURE_SHIM_PORT:
      return resolveShim(dial, context);
    default:
      return resolveCapture(dial, context);
  }
}

// A dial straight to a capture listener: it was not redirected, so there is nowhere to go on to.
function resolveOwnListener(dial: Dial, { tcp }: ResolveContext): Resolution | undefined {
  if (!LISTENER_ADDRESSES.includes(dial.address.text)) return undefined;
  const { port: listenerPort } = dial;
  const waits = dial.bytes === 'silent';
  if (tcp && listenerPort === CAPTURE_TCP_PORT) {
    return { kind: 'closed', by: { listenerPort, chain: CHAIN_TCP, waits: false } };
  }
  if (listenerPort === CAPTURE_PORT || (tcp && listenerPort === CAPTURE_SHIM_PORT)) {
    return { kind: 'closed', by: { listenerPort, chain: CHAIN_TCP_BLACKHOLE, waits } };
  }
  return undefined;
}

function resolveTcp(dial: Dial, port: number, by: CapturedBy, context: ResolveContext): Resolution {
  const service = findByVip(dial.address, context.services);
  const bucket =
    port === TCP_MESH_PORT ? service?.tcpDefault : service?.tcp.find((candidate) => candidate.port === port);
  if (service === undefined || bucket === undefined) return { kind: 'closed', by };
  return { kind: 'mesh', by, cluster: tcpClusterName(dial.address.text, port), service, bucket };
}

function resolveShim(dial: Dial, context: ResolveContext): Resolution {
  if (dial.bytes === 'http') return resolveHttp(dial, { listenerPort: CAPTURE_SHIM_PORT, waits: false }, context);
  const by = { listenerPort: CAPTURE_SHIM_PORT, chain: CHAIN_ANYPORT, waits: dial.bytes === 'silent' };
  return resolveTcp(dial, TCP_MESH_PORT, by, context);
}

function resolveCapture(dial: Dial, context: ResolveContext): Resolution {
  const at = { listenerPort: CAPTURE_PORT, waits: dial.bytes === 'silent' };
  if (!context.scope.redirectAll && dial.port === TCP_MESH_PORT) {
    return { kind: 'closed', by: { ...at, chain: CHAIN_TCP_BLACKHOLE } };
  }
  if (dial.bytes === 'http') return resolveHttp(dial, at, context);
  if (context.scope.redirectAll) return { kind: 'passthrough', by: { ...at, chain: CHAIN_PASSTHROUGH } };
  const by = { ...at, chain: CHAIN_CAPTURE };
  return dial.bytes === 'silent' ? { kind: 'held', by } : { kind: 'status', by, status: 400 };
}

function resolveHttp(dial: Dial, at: Omit<CapturedBy, 'chain'>, context: ResolveContext): Resolution {
  const by = { ...at, chain: CHAIN_CAPTURE };
  if (dial.authority === undefined) return { kind: 'status', by, status: 400 };
  const answer: AuthorityAnswer = resolveAuthority(dial.authority, context);
  switch (answer.kind) {
    case 'mesh':
      return { ...answer, by };
    case 'status':
      return { kind: 'status', by, status: answer.status };
    case 'foreign':
      return { kind: 'passthrough', by };
  }
}
