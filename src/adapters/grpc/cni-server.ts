// aether.cni.v1.CNIService on cni.sock: the plugin's calls, checked and handed to the agent. Wire as the Go mesh.
import { create } from '@bufbuild/protobuf';
import { Metadata, type ServerUnaryCall, type sendUnaryData, type UntypedHandleCall } from '@grpc/grpc-js';
import { InputError } from '../../core/errors.ts';
import { type ContainerId, parseContainerId } from '../../core/identifiers.ts';
import type { Log } from '../../core/log.ts';
import { ProblemList, quoteValue } from '../../core/problems.ts';
import {
  type AddPodRequest,
  type AddPodResponse,
  AddPodResponse_Result,
  AddPodResponseSchema,
  CNIService,
  type RemovePodRequest,
  type RemovePodResponse,
  RemovePodResponse_Result,
  RemovePodResponseSchema,
} from '../../gen/aether/cni/v1/cni_pb.js';
import type { PodService, ProxyReady } from '../../plugin/deps.ts';
import { PROXY_READY_METADATA, WARNING_METADATA } from './cni-metadata.ts';
import { GuardedServer } from './guarded-server.ts';
import { podRequestFromMessage } from './proto-pod.ts';
import { statusFromError } from './status-errors.ts';
import { unaryMethod } from './unary-method.ts';

/** For a caller that sets no deadline. */
const DEFAULT_TIMEOUT_MS = 5000;
const GRACE_MS = 5000;

export interface CniServerOptions {
  readonly socketPath: string;
  readonly mode: number;
  readonly pods: PodService;
  readonly log: Log;
}

/** A server that listens; `close` lets calls at work end, for a while. */
export interface ListeningServer {
  close(): Promise<void>;
}

/** Listens. Throws StoreError, also when another agent answers on the socket. */
export async function openCniServer(options: CniServerOptions): Promise<ListeningServer> {
  const server = new GuardedServer();
  const { pods, log } = options;
  server.grpc.addService(
    { addPod: unaryMethod(CNIService.method.addPod), removePod: unaryMethod(CNIService.method.removePod) },
    {
      addPod: handler<AddPodRequest, AddPodResponse>({ what: 'AddPod', log }, (call) => addPod(call, pods)),
      removePod: handler<RemovePodRequest, RemovePodResponse>({ what: 'RemovePod', log }, (call) =>
        removePod(call, pods),
      ),
    },
  );
  await server.listen(options);
  log.info('cni.server.listening', { socketPath: options.socketPath });
  return { close: () => server.close({ graceMs: GRACE_MS }) };
}

interface Answer<Response> {
  readonly response: Response;
  readonly warnings?: readonly string[];
}

/** Turns a function into a handler: what it throws becomes a status, and nothing of it ends the process. */
export function handler<Request, Response>(
  { what, log }: { readonly what: string; readonly log: Log },
  serve: (call: ServerUnaryCall<Request, Response>) => Promise<Answer<Response>>,
): UntypedHandleCall {
  return (call: ServerUnaryCall<Request, Response>, done: sendUnaryData<Response>): void => {
    // Inside a promise, so that what is thrown at once becomes a status too.
    Promise.resolve()
      .then(() => serve(call))
      .then(
        ({ response, warnings = [] }) => done(null, response, trailersOf(warnings)),
        (error: unknown) => {
          const status = statusFromError(error);
          log.warn('grpc.call.failed', { what, code: status.code, reason: status.details });
          done({ code: status.code, details: asciiOf(status.details) });
        },
      );
  };
}

async function addPod(
  call: ServerUnaryCall<AddPodRequest, AddPodResponse>,
  pods: PodService,
): Promise<Answer<AddPodResponse>> {
  const request = podRequestFromMessage(call.request.pod);
  const answer = await pods.addPod(request, { timeoutMs: timeLeft(call), proxyReady: readProxyReady(call.metadata) });
  const result = answer.kind === 'ignored' ? AddPodResponse_Result.IGNORED : AddPodResponse_Result.SUCCESS;
  return {
    response: create(AddPodResponseSchema, { result }),
    warnings: answer.kind === 'success' ? answer.warnings : [],
  };
}

async function removePod(
  call: ServerUnaryCall<RemovePodRequest, RemovePodResponse>,
  pods: PodService,
): Promise<Answer<RemovePodResponse>> {
  const { name, namespace } = call.request;
  await pods.removePod({ name, namespace, containerId: readRemoval(call.request) }, { timeoutMs: timeLeft(call) });
  return { response: create(RemovePodResponseSchema, { result: RemovePodResponse_Result.SUCCESS }) };
}

// aether.cni.v1: all three are required.
function readRemoval(request: RemovePodRequest): ContainerId {
  const list = new ProblemList();
  if (request.name === '') list.add('name', 'must not be empty');
  if (request.namespace === '') list.add('namespace', 'must not be empty');
  const containerId = parseContainerId(request.containerId);
  if (typeof containerId === 'object') {
    list.add('container_id', `${containerId.problem}, got ${quoteValue(request.containerId)}`);
  }
  if (!list.isEmpty || typeof containerId === 'object')
    throw new InputError('reading a RemovePod request', list.problems);
  return containerId;
}

function readProxyReady(metadata: Metadata): ProxyReady {
  const [value] = metadata.get(PROXY_READY_METADATA);
  if (value === undefined) return 'wait';
  if (value === 'wait' || value === 'require' || value === 'skip') return value;
  const message = `must be wait, require or skip, got ${quoteValue(String(value))}`;
  throw new InputError('reading the metadata', [{ path: PROXY_READY_METADATA, message }]);
}

function timeLeft(call: { getDeadline(): Date | number }): number {
  const deadline = call.getDeadline();
  const endMs = typeof deadline === 'number' ? deadline : deadline.getTime();
  return Number.isFinite(endMs) ? Math.max(0, endMs - Date.now()) : DEFAULT_TIMEOUT_MS;
}

function trailersOf(warnings: readonly string[]): Metadata {
  const metadata = new Metadata();
  for (const warning of warnings) metadata.add(WARNING_METADATA, asciiOf(warning));
  return metadata;
}

// Metadata is ASCII by the protocol; text of pods and of Envoy need not be.
function asciiOf(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}
