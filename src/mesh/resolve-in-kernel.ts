// The kernel's half of the resolution rule: which of the pod's two nat tables claims the first packet of a connection.
// The same order as capture/mesh-table.ts and capture/plugin-table.ts; tests hold it against both, and the real kernel.
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
import { listTcpDialPorts } from './plan-mesh-sets.ts';
import { isPureTcp, type ServiceView } from './service-view.ts';

/** What a client's first bytes can tell. `silent`: it waits for the server to speak. */
export type FirstBytes = 'http' | 'tls' | 'raw' | 'silent';

/** One TCP connection as a pod opens it. `authority`: the Host of HTTP bytes, as sent; absent: they have none. */
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
  /** `single`: the agent has no table in the pod, Envoy alone decides. Default `split`. */
  readonly form?: 'split' | 'single';
  /** Ranges of service addresses of which the agent's table resets what is not captured. */
  readonly unanswered?: readonly IpRange[];
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

/** The kernel's part: the agent's table looks first, then the plugin's; `accept` ends only its own table. */
export function resolveInKernel(dial: Dial, context: ResolveContext): KernelAnswer {
  const claimed = context.form === 'single' ? undefined : resolveInMeshTable(dial, context);
  return claimed ?? resolveInPluginTable(dial, context.scope);
}

function resolveInPluginTable(dial: Dial, scope: CaptureScope): KernelAnswer {
  const direct = (reason: DirectReason): KernelAnswer => ({ kind: 'direct', reason });
  if (dial.mark32 === BYPASS_MARK32) return direct('marked');
  if (isLoopback(dial.address)) return direct('loopback');
  // Before exclusions: what the pod excludes of its traffic, its resolver stays the mesh's.
  if (dial.port === DNS_PORT && scope.dns?.address.family === dial.address.family) return { kind: 'dns' };
  if (isLinkLocal(dial.address)) return direct('link-local');
  if (includesPort(scope.excludePorts, dial.port)) return direct('excluded-port');
  if (isExcludedAddress(dial, scope)) return direct('excluded-range');
  if (CAPTURE_PORTS.includes(dial.port)) return direct('capture-port');
  const isMeshPort = dial.port === HTTP_MESH_PORT || dial.port === TCP_MESH_PORT;
  if (isMeshPort || scope.redirectAll) return { kind: 'redirect', port: CAPTURE_PORT };
  return direct('not-captured');
}

function isExcludedAddress(dial: Dial, scope: CaptureScope): boolean {
  return scope.excludeRanges.some((range) => isInRange(dial.address, range));
}

// What the agent's table accepts before it looks at addresses of the mesh.
function isExempt(dial: Dial, scope: CaptureScope): boolean {
  return (
    dial.mark32 === BYPASS_MARK32 ||
    isLoopback(dial.address) ||
    includesPort(scope.excludePorts, dial.port) ||
    isExcludedAddress(dial, scope) ||
    CAPTURE_PORTS.includes(dial.port)
  );
}

function resolveInMeshTable(dial: Dial, context: ResolveContext): KernelAnswer | undefined {
  const { redirectAll } = context.scope;
  const isUnanswered = context.unanswered?.some((range) => isInRange(dial.address, range)) ?? false;
  if (isUnanswered && dial.mark32 === BYPASS_MARK32) return { kind: 'reset' };
  if (isExempt(dial, context.scope)) return undefined;
  const service = findByVip(dial.address, context.services);
  const claimed = service && resolveForService(dial, { service, context });
  if (claimed !== undefined) return claimed;
  return isUnanswered && !redirectAll && dial.port !== HTTP_MESH_PORT ? { kind: 'reset' } : undefined;
}

function resolveForService(
  dial: Dial,
  { service, context }: { readonly service: ServiceView; readonly context: ResolveContext },
): KernelAnswer | undefined {
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

/** The service that has the address. */
export function findByVip(address: IpAddress, services: readonly ServiceView[]): ServiceView | undefined {
  return services.find((service) => service.vips.some((vip) => vip.text === address.text));
}

const DNS_PORT = 53;
const LOOPBACK = ranges('127.0.0.0/8', '::1/128');
const LINK_LOCAL = ranges('169.254.0.0/16', '224.0.0.0/4', 'fe80::/10', 'ff00::/8');
const isLoopback = (address: IpAddress): boolean => LOOPBACK.some((range) => isInRange(address, range));
const isLinkLocal = (address: IpAddress): boolean => LINK_LOCAL.some((range) => isInRange(address, range));

function ranges(...texts: readonly string[]): readonly IpRange[] {
  return texts.flatMap((text) => parseIpRange(text) ?? []);
}
