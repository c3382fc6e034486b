// aether.admin.v1.AdminService on admin.sock: what the agent tells root on its own node.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Rejection } from '../../agent/ads-protocol.ts';
import type { AgentPod } from '../../agent/agent-pod.ts';
import type { LocalAdmin } from '../../agent/local-admin.ts';
import type { NodeAgent } from '../../agent/node-agent.ts';
import type { LoopDelay } from '../../agent/node-check.ts';
import { listPodProblems } from '../../agent/node-status.ts';
import { compareText } from '../../core/compare.ts';
import type { Finding } from '../../core/finding.ts';
import type { Log } from '../../core/log.ts';
import {
  AdminService,
  type CheckRequest,
  type CheckResponse,
  CheckResponseSchema,
  type CollectRequest,
  type CollectResponse,
  CollectResponseSchema,
  type ExplainRequest,
  type ExplainResponse,
  type GetSnapshotRequest,
  type GetSnapshotResponse,
  GetSnapshotResponseSchema,
  type ListPodsRequest,
  type ListPodsResponse,
  ListPodsResponseSchema,
  type ListServicesRequest,
  type ListServicesResponse,
  ListServicesResponseSchema,
  type NodePlacesSchema,
  type Pod,
  PodSchema,
  type ServiceView as ServiceViewMessage,
  ServiceViewSchema,
  type StatusRequest,
  type StatusResponse,
  StatusResponseSchema,
} from '../../gen/aether/admin/v1/admin_pb.js';
import { formatServiceKey, inboundListenerName, outboundListenerName } from '../../mesh/names.ts';
import type { ServiceView } from '../../mesh/service-view.ts';
import { PUSH_ORDER } from '../../xds/resource.ts';
import { explain } from './admin-explain.ts';
import { typeUrlOf } from './ads-messages.ts';
import { handler, type ListeningServer } from './cni-server.ts';
import { GuardedServer } from './guarded-server.ts';
import { endpointToMessage, healthToMessage, protocolToMessage } from './proto-endpoint.ts';
import { findingToMessage } from './proto-finding.ts';
import { podRecordToMessage } from './proto-pod.ts';
import { unaryMethod } from './unary-method.ts';

export interface AdminServerOptions {
  readonly socketPath: string;
  readonly mode: number;
  readonly agent: NodeAgent;
  readonly admin: LocalAdmin;
  readonly version: string;
  readonly startedAt: Date;
  readonly listRejections: () => readonly Rejection[];
  readonly places: MessageInitShape<typeof NodePlacesSchema>;
  readonly loopDelay: () => LoopDelay | undefined;
  /** `subject` as in the request. Never rejects. */
  readonly check: (subject: string) => Promise<readonly Finding[]>;
  readonly log: Log;
}

/** Listens. Throws StoreError. */
export async function openAdminServer(options: AdminServerOptions): Promise<ListeningServer> {
  const { log } = options;
  // A snapshot of a large node is beyond gRPC's usual 4 MiB.
  const server = new GuardedServer({ 'grpc.max_send_message_length': -1 });
  const { method } = AdminService;
  server.grpc.addService(
    {
      status: unaryMethod(method.status),
      listPods: unaryMethod(method.listPods),
      listServices: unaryMethod(method.listServices),
      getSnapshot: unaryMethod(method.getSnapshot),
      check: unaryMethod(method.check),
      collect: unaryMethod(method.collect),
      explain: unaryMethod(method.explain),
    },
    {
      status: handler<StatusRequest, StatusResponse>({ what: 'Status', log }, async () => ({
        response: status(options),
      })),
      listPods: handler<ListPodsRequest, ListPodsResponse>({ what: 'ListPods', log }, async ({ request }) => ({
        response: await listPods(options, request),
      })),
      listServices: handler<ListServicesRequest, ListServicesResponse>(
        { what: 'ListServices', log },
        async ({ request }) => ({
          response: await listServices(options, request),
        }),
      ),
      getSnapshot: handler<GetSnapshotRequest, GetSnapshotResponse>(
        { what: 'GetSnapshot', log },
        async ({ request }) => ({
          response: await getSnapshot(options, request),
        }),
      ),
      check: handler<CheckRequest, CheckResponse>({ what: 'Check', log }, async ({ request }) => ({
        response: create(CheckResponseSchema, {
          findings: (await options.check(request.subject)).map(findingToMessage),
        }),
      })),
      collect: handler<CollectRequest, CollectResponse>({ what: 'Collect', log }, async ({ request }) => ({
        response: await collect(options, request),
      })),
      explain: handler<ExplainRequest, ExplainResponse>({ what: 'Explain', log }, async ({ request }) => ({
        response: await explain(options.agent, request),
      })),
    },
  );
  await server.listen(options);
  return { close: () => server.close({ graceMs: 1000 }) };
}

function status({ agent, admin, version, startedAt, ...options }: AdminServerOptions): StatusResponse {
  const now = admin.readStatus();
  const delay = options.loopDelay();
  return create(StatusResponseSchema, {
    version,
    nodeName: agent.settings.facts.nodeName,
    startedAt: timestampFromDate(startedAt),
    ready: now.ready,
    problems: [...now.problems],
    podCount: now.podCount,
    serviceCount: now.serviceCount,
    proxy: {
      connected: now.proxyConnected,
      rejected: options
        .listRejections()
        .map(({ kind, name, message }) => ({ typeUrl: typeUrlOf(kind), name, message })),
      streams: agent.deps.publisher.streams,
    },
    places: options.places,
    ...(delay && {
      loopDelay: { p99Ms: delay.p99Ms, maxMs: delay.maxMs, windowSeconds: delay.windowMs / 1000 },
    }),
  });
}

async function listPods({ agent, admin }: AdminServerOptions, request: ListPodsRequest): Promise<ListPodsResponse> {
  const wanted = agent
    .listPods()
    .filter((pod) => request.containerId === '' || pod.workload.record.containerId === request.containerId)
    .map((pod) => [sortKey(pod), pod] as const)
    .sort(([a], [b]) => compareText(a, b));
  const describe = async (pod: AgentPod): Promise<Pod> => {
    const described = await describePod(agent, pod);
    if (request.containerId !== '') described.tableDifferences = [...(await admin.listTableDifferences(pod))];
    return described;
  };
  return create(ListPodsResponseSchema, { pods: await Promise.all(wanted.map(([, pod]) => describe(pod))) });
}

function sortKey({ workload: { record } }: AgentPod): string {
  return [record.namespace, record.name, record.containerId].join('\u0000');
}

async function describePod(agent: NodeAgent, pod: AgentPod): Promise<Pod> {
  const names = [outboundListenerName, inboundListenerName].map((nameFor) => nameFor(pod.node.resourceName));
  const listeners = names.map((name) => ({ kind: 'listener' as const, name }));
  const taken = await agent.deps.publisher.waitForAck(listeners, { timeoutMs: 0 });
  const problems = [...listPodProblems(agent, pod)];
  if (taken.kind === 'rejected')
    problems.push(...taken.resources.map(({ name, message }) => `the proxy refused ${name}: ${message}`));
  return create(PodSchema, {
    record: podRecordToMessage(pod.workload.record),
    service: formatServiceKey(pod.workload.service),
    health: healthToMessage(agent.liveness?.healthOf(pod) ?? 'healthy'),
    registered: agent.registrar.isRegistered(pod),
    proxyReady: taken.kind === 'acknowledged',
    problems,
  });
}

async function listServices(
  { agent }: AdminServerOptions,
  request: ListServicesRequest,
): Promise<ListServicesResponse> {
  const wanted = new Set(request.services);
  const whole = await agent.catalog.readWholeViews();
  const views = whole.filter((view) => wanted.size === 0 || wanted.has(formatServiceKey(view.key)));
  return create(ListServicesResponseSchema, { services: views.map(describeService) });
}

function describeService(view: ServiceView): ServiceViewMessage {
  const endpoints = new Map(
    [...view.http, ...view.tcp].flatMap((bucket) => bucket.endpoints.map((one) => [one.ip, one])),
  );
  return create(ServiceViewSchema, {
    key: formatServiceKey(view.key),
    fqdn: view.fqdn,
    addresses: view.vips.map((address) => address.text),
    ports: (['http', 'tcp'] as const)
      .flatMap((protocol) =>
        view[protocol].map(({ port }) => ({ number: port, protocol: protocolToMessage(protocol) })),
      )
      .sort((a, b) => a.number - b.number),
    defaultHttpPort: view.httpDefault?.port ?? 0,
    defaultTcpPort: view.tcpDefault?.port ?? 0,
    endpoints: [...endpoints.values()].sort((a, b) => compareText(a.ip, b.ip)).map(endpointToMessage),
  });
}

// The key of a workload is root's to read elsewhere; over this socket nobody needs it.
async function getSnapshot({ agent }: AdminServerOptions, request: GetSnapshotRequest): Promise<GetSnapshotResponse> {
  const wanted = new Set(request.typeUrls);
  const kinds = PUSH_ORDER.filter((kind) => kind !== 'secret' && (wanted.size === 0 || wanted.has(typeUrlOf(kind))));
  const resources = kinds.flatMap((kind) =>
    [...(agent.snapshot?.resources[kind].values() ?? [])].sort((a, b) => compareText(a.name, b.name)),
  );
  return create(GetSnapshotResponseSchema, {
    resources: await Promise.all(
      resources.map(async ({ kind, name, version, bytes }) => {
        const taken = await agent.deps.publisher.waitForAck([{ kind, name }], { timeoutMs: 0 });
        return {
          name,
          version,
          resource: { typeUrl: typeUrlOf(kind), value: bytes },
          acknowledged: taken.kind === 'acknowledged',
          rejected: taken.kind === 'rejected' ? taken.resources.map(({ message }) => message).join('; ') : '',
        };
      }),
    ),
  });
}

async function collect({ admin }: AdminServerOptions, request: CollectRequest): Promise<CollectResponse> {
  const { network, validAttachments: attachments } = request;
  return create(CollectResponseSchema, {
    removedContainerIds: [...(await admin.collectIds({ network, attachments }))],
  });
}
