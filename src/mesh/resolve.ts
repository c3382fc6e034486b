// The resolution rule: what a dial from a pod of the node becomes. One function for the kernel's part (which of the
// pod's two nat tables claims the packet) and Envoy's part (which chain, which cluster); `explain` prints its answer,
// and the tests hold it against the real kernel and the real Envoy.
// Source: architecture §4 (order of the rules), proposal 037 "The resolution rule", Envoy's filter_chain_matcher.
import { type IpAddress, type IpRange, isInRange, parseIpRange } from '../core/ip.ts';
import { includesPort, type PortRange } from '../core/port-range.ts';
import {
  BYPASS_MARK32,
  CAPTURE_PORT,
  CAPTURE_PORTS,
  CAPTURE_SHIM_PORT,
  CAPTURE_TCP_PORT,
  HTTP_MESH_PORT,
  TCP_MESH_PORT,
} from './constants.ts';
import { CHAIN_ANYPORT, CHAIN_CAPTURE, CHAIN_PASSTHROUGH, CHAIN_TCP, CHAIN_TCP_BLACKHOLE } from './names.ts';
import { listTcpDialPorts } from './plan-mesh-sets.ts';
import { type AuthorityAnswer, resolveAuthority } from './resolve-authority.ts';
import { isPureTcp, type PortBucket, type ServiceView } from './service-view.ts';

/** What a client's first bytes can tell. `silent`: it waits for the server to speak. */
export type FirstBytes = 'http' | 'tls' | 'raw' | 'silent';

/** One TCP connection as a pod opens it. `authority`: the Host of HTTP bytes, as sent. */
export interface Dial {
  readonly address: IpAddress;
  readonly port: number;
  readonly bytes: FirstBytes;
  readonly authority?: string;
  /** SO_MARK of the socket; 0 when absent. */
  readonly mark32?: number;
}

/** The pod's side of the decision (a CapturePolicy is one). */
export interface CaptureScope {
  readonly redirectAll: boolean;
  readonly excludePorts: readonly PortRange[];
  readonly excludeRanges: readonly IpRange[];
  readonly dns?: { readonly address: IpAddress; readonly port: number };
}

export interface ResolveContext {
  readonly scope: CaptureScope;
  readonly services: readonly ServiceView[];
  readonly domain: string;
  /** Whether raw TCP crosses the mesh (false with identity `none`). */
  readonly tcp: boolean;
}

/** Why a packet leaves the pod as it was dialled: the rule that accepted it, or that none claimed it. */
export type DirectReason =
  | 'marked'
  | 'loopback'
  | 'excluded-port'
  | 'excluded-range'
  | 'link-local'
  | 'capture-port'
  | 'not-captured';

export type KernelAnswer =
  | { readonly kind: 'direct'; readonly reason: DirectReason }
  | { readonly kind: 'dns' }
  | { readonly kind: 'reset' }
  | { readonly kind: 'redirect'; readonly port: number };

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
  /** Envoy connects to the address dialled, from the pod's own namespace. */
  | { readonly kind: 'passthrough'; readonly by: CapturedBy }
  /** Envoy answers HTTP itself: 421 (no HTTP port), 503 (nobody registered that port), 400 (not HTTP). */
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

/** The kernel's part: the agent's table looks first, then the plugin's; `accept` ends only its own table. */
export function resolveInKernel(dial: Dial, context: ResolveContext): KernelAnswer {
  const { scope } = context;
  const direct = findBypass(dial, scope);
  if (direct !== undefined) return { kind: 'direct', reason: direct };
  if (CAPTURE_PORTS.includes(dial.port)) return { kind: 'direct', reason: 'capture-port' };
  const claimed = resolveInMeshTable(dial, context);
  if (claimed !== undefined) return claimed;
  if (dial.port === 53 && scope.dns?.address.family === dial.address.family) return { kind: 'dns' };
  if (isLinkLocal(dial.address)) return { kind: 'direct', reason: 'link-local' };
  const isMeshPort = dial.port === HTTP_MESH_PORT || dial.port === TCP_MESH_PORT;
  if (isMeshPort || scope.redirectAll) return { kind: 'redirect', port: CAPTURE_PORT };
  return { kind: 'direct', reason: 'not-captured' };
}

function findBypass(dial: Dial, scope: CaptureScope): DirectReason | undefined {
  if (dial.mark32 === BYPASS_MARK32) return 'marked';
  if (isLoopback(dial.address)) return 'loopback';
  if (includesPort(scope.excludePorts, dial.port)) return 'excluded-port';
  if (scope.excludeRanges.some((range) => isInRange(dial.address, range))) return 'excluded-range';
  return undefined;
}

function resolveInMeshTable(dial: Dial, context: ResolveContext): KernelAnswer | undefined {
  const service = findByVip(dial.address, context.services);
  if (service === undefined) return undefined;
  const { redirectAll } = context.scope;
  const isTcpMeshPort = dial.port === TCP_MESH_PORT;
  if (context.tcp && (redirectAll || isTcpMeshPort) && listTcpDialPorts(service).includes(dial.port)) {
    return { kind: 'redirect', port: CAPTURE_TCP_PORT };
  }
  if (isTcpMeshPort) return { kind: 'reset' };
  if (context.tcp && isPureTcp(service) && (redirectAll || dial.port === HTTP_MESH_PORT)) {
    return { kind: 'redirect', port: CAPTURE_SHIM_PORT };
  }
  return undefined;
}

function resolveTcp(dial: Dial, port: number, by: CapturedBy, context: ResolveContext): Resolution {
  const service = findByVip(dial.address, context.services);
  const bucket =
    port === TCP_MESH_PORT ? service?.tcpDefault : service?.tcp.find((candidate) => candidate.port === port);
  if (service === undefined || bucket === undefined) return { kind: 'closed', by };
  return { kind: 'mesh', by, cluster: `tcp:${dial.address.text}:${port}`, service, bucket };
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
  return { kind: 'status', by: { ...at, chain: CHAIN_CAPTURE }, status: 400 };
}

function resolveHttp(dial: Dial, at: Omit<CapturedBy, 'chain'>, context: ResolveContext): Resolution {
  const by = { ...at, chain: CHAIN_CAPTURE };
  const answer: AuthorityAnswer = resolveAuthority(dial.authority ?? '', context);
  switch (answer.kind) {
    case 'mesh':
      return { ...answer, by };
    case 'status':
      return { kind: 'status', by, status: answer.status };
    case 'foreign':
      return { kind: 'passthrough', by };
  }
}

function findByVip(address: IpAddress, services: readonly ServiceView[]): ServiceView | undefined {
  return services.find((service) => service.vips.some((vip) => vip.text === address.text));
}

const LOOPBACK = ranges('127.0.0.0/8', '::1/128');
const LINK_LOCAL = ranges('169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8');
const isLoopback = (address: IpAddress): boolean => LOOPBACK.some((range) => isInRange(address, range));
const isLinkLocal = (address: IpAddress): boolean => LINK_LOCAL.some((range) => isInRange(address, range));

function ranges(...texts: readonly string[]): readonly IpRange[] {
  return texts.flatMap((text) => parseIpRange(text) ?? []);
}
