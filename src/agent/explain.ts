// What a destination means to a pod of this node, step by step, by the same rule that the tests hold against the kernel and
// Envoy. Nothing is dialled and nobody is asked.
import { type CaptureRule, findCaptureRule, findPluginRule } from '../capture/find-capture-rule.ts';
import type { CapturePolicy } from '../capture/policy.ts';
import { InputError } from '../core/errors.ts';
import { type IpAddress, type IpRange, ipFromBytes } from '../core/ip.ts';
import { quoteValue } from '../core/problems.ts';
import { formatSocketAddress } from '../core/socket-address.ts';
import { CAPTURE_SHIM_PORT, CAPTURE_TCP_PORT } from '../mesh/constants.ts';
import { DESTINATION_FORMS, type Destination, parseDestination } from '../mesh/destination.ts';
import type { ExplainedDial, ExplainedTarget, Explanation } from '../mesh/explanation.ts';
import { isAvailable, type Judgement, judgeResolution } from '../mesh/judge-resolution.ts';
import {
  captureListenerName,
  captureShimListenerName,
  captureTcpListenerName,
  formatServiceKey,
  spiffeId,
} from '../mesh/names.ts';
import { planMeshSets } from '../mesh/plan-mesh-sets.ts';
import type { CapturedBy, Resolution } from '../mesh/resolution.ts';
import { resolve } from '../mesh/resolve.ts';
import type { Dial, FirstBytes, ResolveContext } from '../mesh/resolve-in-kernel.ts';
import type { ServiceView } from '../mesh/service-view.ts';
import type { NodeSettings } from '../xds/input.ts';
import { nameDestination } from './name-destination.ts';

/** Who dials. */
export interface ExplainedPod {
  readonly namespace: string;
  readonly name: string;
  /** `<ns>_<pod>` */
  readonly resourceName: string;
  readonly policy: CapturePolicy;
}

export interface ExplainContext {
  readonly node: Pick<NodeSettings, 'meshDomain' | 'trustDomain' | 'identity' | 'captureForm'>;
  readonly services: readonly ServiceView[];
  /** Ranges of service addresses that nobody answers for but the mesh. */
  readonly unanswered?: readonly IpRange[];
  /** Sentences about the pod and the node that put the answer in question. */
  readonly problems?: readonly string[];
}

/** TEST-NET-1 (RFC 5737): stands for whatever address a foreign name has. */
const ELSEWHERE = ipFromBytes(Uint8Array.of(192, 0, 2, 1));
const BYTES: Readonly<Record<Destination['kind'], FirstBytes>> = { http: 'http', https: 'tls', tcp: 'raw' };

/** Throws InputError for a destination that is none. */
export function explainDestination(text: string, pod: ExplainedPod, context: ExplainContext): Explanation {
  const destination = readDestination(text);
  const { node, services, unanswered = [], problems = [] } = context;
  const { namespace, name, policy } = pod;
  const naming = nameDestination(destination, { services, namespace, domain: node.meshDomain });
  const rule: ResolveContext = {
    ...{ scope: policy, services, domain: node.meshDomain, tcp: node.identity === 'mtls', unanswered },
    form: node.captureForm ?? 'split',
  };
  const subject = { pod, node, destination, rule };
  const bytes = BYTES[destination.kind];
  const { authority } = destination;
  const first = authority === undefined ? { bytes } : { bytes, authority };
  const addresses = naming.addresses === 'unknown' ? [undefined] : naming.addresses;
  const explained = addresses.map((address) => {
    const dial = explainDial(address, { first, subject });
    return { dial, notes: listNotes(address, { dial, subject }) };
  });
  const dials = explained.map(({ dial }) => dial);
  const verdicts = [...new Set(dials.map(({ verdict }) => verdict))];
  return {
    pod: `${namespace}/${name}`,
    captureMode: policy.redirectAll ? 'redirect-all' : 'scoped',
    destination: text,
    bytes,
    authority: authority ?? '',
    name: naming.sentence,
    dials,
    notes: [...new Set([...naming.notes, ...explained.flatMap(({ notes }) => notes), ...problems])],
    resolved: dials.length > 0 && dials.every(({ resolved }) => resolved),
    verdict: dials.length === 0 ? 'nowhere: the name has no address' : verdicts.join('; '),
  };
}

/** Throws InputError that names the forms there are. */
export function readDestination(text: string): Destination {
  const destination = parseDestination(text);
  if (!('problem' in destination)) return destination;
  const message = `must be ${DESTINATION_FORMS}, got ${quoteValue(text)}: ${destination.problem}`;
  throw new InputError('DEST', [{ path: '', message }]);
}

/** What stays the same from address to address. */
interface Subject {
  readonly pod: ExplainedPod;
  readonly node: ExplainContext['node'];
  readonly destination: Destination;
  readonly rule: ResolveContext;
}

interface Asked {
  readonly first: Pick<Dial, 'bytes' | 'authority'>;
  readonly subject: Subject;
}

interface Judged {
  readonly dial: Dial;
  readonly resolution: Resolution;
  readonly judgement: Judgement;
}

function explainDial(address: IpAddress | undefined, { first, subject }: Asked): ExplainedDial {
  const { resolution, judgement, dial } = judge(address, { first, subject });
  const by = 'by' in resolution ? resolution.by : undefined;
  const rule = findRule(dial, subject);
  return {
    address: address?.text ?? '',
    port: dial.port,
    rule: rule?.rule ?? '',
    table: rule?.table ?? '',
    outcome: resolution.kind,
    listener: by === undefined ? '' : listenerName(by, subject.pod.resourceName),
    listenerPort: by?.listenerPort ?? 0,
    chain: by?.chain ?? '',
    status: resolution.kind === 'status' ? resolution.status : 0,
    cluster: resolution.kind === 'mesh' ? resolution.cluster : '',
    ...(resolution.kind === 'mesh' ? { target: describeTarget(resolution, subject.node) } : {}),
    ...judgement,
  };
}

// What other first bytes would change, and what else surprises.
function listNotes(
  address: IpAddress | undefined,
  { dial, subject }: { readonly dial: ExplainedDial; readonly subject: Subject },
): readonly string[] {
  const { verdict, target } = dial;
  const { kind, host, port } = subject.destination;
  if (kind === 'http' && target?.protocol === 'tcp') {
    return [`port ${port} of ${target.service} is TCP: HTTP arrives there as it is, without routing or retries`];
  }
  if (kind !== 'tcp') return [];
  const notes: string[] = [];
  const silent = judge(address, { first: { bytes: 'silent' }, subject });
  if ('by' in silent.resolution && silent.resolution.by.waits) {
    const then = silent.judgement.verdict === verdict ? '' : `, and then: ${silent.judgement.verdict}`;
    notes.push(`a client that waits for the server to speak first is held for 1 s before this is decided${then}`);
  }
  const authority = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const http = judge(address, { first: { bytes: 'http', authority }, subject }).judgement;
  if (http.verdict !== verdict) notes.push(`as http://${authority}/: ${http.verdict}`);
  return notes;
}

function judge(address: IpAddress | undefined, { first, subject: { destination, rule } }: Asked): Judged {
  const { host, port } = destination;
  const dial: Dial = { address: address ?? ELSEWHERE, port, ...first };
  const place = address === undefined ? `${host}:${port}` : formatSocketAddress({ address, port });
  const resolution = resolve(dial, rule);
  return { dial, resolution, judgement: judgeResolution(resolution, { dial, context: rule, place }) };
}

function findRule({ address, port }: Dial, { pod, rule }: Subject): CaptureRule | undefined {
  const packet = { protocol: 'tcp', destination: address, port } as const;
  const { policy } = pod;
  if (rule.form === 'single') return findPluginRule(packet, policy);
  return findCaptureRule(packet, { ...rule, policy, sets: planMeshSets(rule.services, { tcp: rule.tcp }) });
}

function describeTarget(
  { service, bucket }: Extract<Resolution, { kind: 'mesh' }>,
  { identity, trustDomain }: ExplainContext['node'],
): ExplainedTarget {
  const { serviceAccount } = service.key;
  const identities = service.endpointNamespaces.map((namespace) =>
    spiffeId({ namespace, serviceAccount }, trustDomain),
  );
  return {
    service: formatServiceKey(service.key),
    port: bucket.port,
    protocol: service.http.includes(bucket) ? 'http' : 'tcp',
    serverName: identity === 'mtls' ? bucket.serverName : '',
    serverIdentities: identity === 'mtls' ? identities : [],
    endpoints: bucket.endpoints.map((endpoint) => ({
      ip: endpoint.ip,
      pod: `${endpoint.namespace}/${endpoint.podName}`,
      node: endpoint.nodeName,
      health: endpoint.health,
      available: isAvailable(endpoint),
    })),
  };
}

function listenerName({ listenerPort }: CapturedBy, pod: string): string {
  if (listenerPort === CAPTURE_TCP_PORT) return captureTcpListenerName(pod);
  return listenerPort === CAPTURE_SHIM_PORT ? captureShimListenerName(pod) : captureListenerName(pod);
}
