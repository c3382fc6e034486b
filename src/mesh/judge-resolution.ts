// What a resolution means to the one who dials: whether it leads anywhere, and a sentence that says where, or why not and
// what would. Judged by what the mesh knows: who answers at an address outside it is not asked.
import { assertNever } from '../core/assert-never.ts';
import { CAPTURE_PORTS, HTTP_MESH_PORT, TCP_MESH_PORT } from './constants.ts';
import type { Endpoint } from './endpoint.ts';
import { formatServiceKey } from './names.ts';
import { listTcpDialPorts } from './plan-mesh-sets.ts';
import type { Resolution } from './resolution.ts';
import { hasOwnSpelling, readAuthority } from './resolve-authority.ts';
import { type Dial, type DirectReason, findByVip, type ResolveContext } from './resolve-in-kernel.ts';
import type { ServiceView } from './service-view.ts';

export interface Judgement {
  readonly resolved: boolean;
  /** One sentence without a full stop: `over the mesh to demo/shop, port 8080 (HTTP); 2 of 3 endpoints available`. */
  readonly verdict: string;
  /** What would lead somewhere: `HTTP at http://shop.demo.aether.internal/; TCP at …`. Empty: nothing is known. */
  readonly hint: string;
}

/** Whether Envoy would choose the endpoint; the clusters never panic. */
export function isAvailable({ health }: Endpoint): boolean {
  return health === 'healthy' || health === 'unspecified';
}

/** What a resolution came from. `place`: how the address and port dialled are called, `10.96.0.50:9000`. */
export interface Question {
  readonly dial: Dial;
  readonly context: ResolveContext;
  readonly place: string;
}

export function judgeResolution(resolution: Resolution, question: Question): Judgement {
  const { dial, place } = question;
  switch (resolution.kind) {
    case 'mesh':
      return judgeMesh(resolution);
    case 'passthrough':
      return judgeUncaptured(question, {
        fine: `passes through to ${place} as it is, from the pod's own address`,
        lost: 'passes through as dialled',
      });
    case 'direct':
      return judgeUncaptured(question, {
        fine: `leaves the pod as dialled: ${REASONS[resolution.reason]}`,
        lost: `leaves the pod as dialled (${REASONS[resolution.reason]})`,
      });
    case 'dns':
      return yes("to the node's mesh DNS");
    case 'reset':
      return judgeReset(question);
    case 'closed':
      return judgeClosed(question);
    case 'held':
      return no(
        `nothing happens: port ${dial.port} takes HTTP, so Envoy waits for a request and the client for the server`,
      );
    case 'status':
      return judgeStatus(resolution.status, question);
    default:
      return assertNever(resolution);
  }
}

const yes = (verdict: string): Judgement => ({ resolved: true, verdict, hint: '' });
const no = (verdict: string, hint = ''): Judgement => ({ resolved: false, verdict, hint });

const NO_IDENTITIES = 'this node has no identities, and raw TCP crosses the mesh only with them';
const REASONS: Readonly<Record<DirectReason, string>> = {
  marked: 'it carries the mark of the mesh itself',
  loopback: 'it stays in the pod',
  'excluded-port': 'the port is excluded from capture',
  'excluded-range': 'the address is excluded from capture',
  'link-local': 'link-local and multicast addresses are never captured',
  'capture-port': `ports ${CAPTURE_PORTS[0]} to ${CAPTURE_PORTS.at(-1)} are never captured`,
  'not-captured': `in scoped mode only ports ${HTTP_MESH_PORT} and ${TCP_MESH_PORT} are captured`,
};

function judgeMesh({ service, bucket }: Extract<Resolution, { kind: 'mesh' }>): Judgement {
  const protocol = service.http.includes(bucket) ? 'HTTP' : 'TCP';
  const where = `${formatServiceKey(service.key)}, port ${bucket.port} (${protocol})`;
  const available = bucket.endpoints.filter(isAvailable).length;
  const all = bucket.endpoints.length;
  if (available > 0) {
    return yes(`over the mesh to ${where}; ${available} of ${all} ${all === 1 ? 'endpoint' : 'endpoints'} available`);
  }
  const none = all === 1 ? 'its one endpoint is not' : `none of its ${all} endpoints is`;
  return no(`nowhere: the mesh leads to ${where}, but ${none} available`);
}

// Nobody answers for an address of the mesh outside of it: what leaves the pod for one uncaptured is lost.
function judgeUncaptured(
  { dial, context }: Question,
  { fine, lost }: { readonly fine: string; readonly lost: string },
): Judgement {
  const owner = findByVip(dial.address, context.services);
  if (owner === undefined) return yes(fine);
  const name = formatServiceKey(owner.key);
  const verdict = `nowhere: ${lost}, but the address is ${name}'s in the mesh, and nobody answers there outside of it`;
  return no(verdict, hintAt(owner, context));
}

function judgeReset({ dial, context }: Question): Judgement {
  const owner = findByVip(dial.address, context.services);
  if (owner === undefined) return no('refused at once: no service of the mesh has this address');
  if (!context.tcp && dial.port === TCP_MESH_PORT) return no(`refused at once: ${NO_IDENTITIES}`);
  if (dial.port !== TCP_MESH_PORT) {
    return no(
      `refused at once: the address is ${formatServiceKey(owner.key)}'s in the mesh, and ${REASONS['not-captured']}`,
      hintAt(owner, context),
    );
  }
  return no(`refused at once: ${formatServiceKey(owner.key)} has no TCP port`, hintAt(owner, context));
}

function judgeClosed({ dial, context, place }: Question): Judgement {
  const closed = (why: string, hint?: string) => no(`closed at once: ${why}`, hint);
  const { port, address } = dial;
  if (port !== TCP_MESH_PORT) return closed('a capture listener is for what the kernel leads to it');
  const owner = findByVip(address, context.services);
  if (owner === undefined) return closed(`port ${port} means the mesh, and ${place} is not in it`);
  if (!context.tcp) return closed(NO_IDENTITIES);
  return closed(`${formatServiceKey(owner.key)} has no TCP port`, hintAt(owner, context));
}

function judgeStatus(status: 400 | 421 | 503, { dial, context }: Question): Judgement {
  const refused = (why: string, hint?: string) => no(`refused with HTTP ${status}: ${why}`, hint);
  if (status === 400)
    return refused(dial.bytes === 'http' ? 'the request has no Host' : `port ${dial.port} takes HTTP only`);
  const { text, port, service } = readAuthority(dial.authority ?? '', context);
  if (service === undefined) return refused(`no service of the mesh is called ${text}`);
  const name = formatServiceKey(service.key);
  if (!service.hasEndpoints) return refused(`${name} has no endpoints`);
  const why = status === 421 ? `${name} has no HTTP port` : `nobody registered port ${port} of ${name} as HTTP`;
  return refused(why, hintAt(service, context));
}

// Every spelling of the service that the pod's capture mode takes.
function hintAt(service: ServiceView, { scope, tcp }: ResolveContext): string {
  const { fqdn, http, httpDefault } = service;
  const extra = http.map(({ port }) => port).filter((port) => port !== httpDefault?.port && hasOwnSpelling(port));
  const urls = scope.redirectAll
    ? [`http://${fqdn}/`, ...extra.map((port) => `http://${fqdn}:${port}/`)]
    : [`http://${fqdn}:${HTTP_MESH_PORT}/`];
  const dialPorts = listTcpDialPorts(service).filter((port) => scope.redirectAll || port === TCP_MESH_PORT);
  return [
    ...(httpDefault === undefined ? [] : [`HTTP at ${urls.join(', ')}`]),
    ...(tcp && dialPorts.length > 0 ? [`TCP at ${dialPorts.map((port) => `${fqdn}:${port}`).join(', ')}`] : []),
  ].join('; ');
}
