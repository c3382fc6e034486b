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
import { type CapturedBy, type Resolution, resolveHttp } from './resolution.ts';
import { type Dial, findByVip, type ResolveContext, resolveInKernel } from './resolve-in-kernel.ts';
import { resolveSingle } from './resolve-single.ts';

/** Where the capture listeners listen. */
const LISTENER_ADDRESSES: readonly string[] = ['127.0.0.1', '::1'];

/** Resolves a dial completely. */
export function resolve(dial: Dial, context: ResolveContext): Resolution {
  const kernel = resolveInKernel(dial, context);
  if (kernel.kind === 'direct') return resolveOwnListener(dial, context) ?? kernel;
  if (kernel.kind !== 'redirect') return kernel;
  if (context.form === 'single') return resolveSingle(dial, context);
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
function resolveOwnListener(dial: Dial, context: ResolveContext): Resolution | undefined {
  if (!LISTENER_ADDRESSES.includes(dial.address.text)) return undefined;
  const { port: listenerPort } = dial;
  // The other two are of the split form, and for raw TCP.
  const tcp = context.tcp && context.form !== 'single';
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
