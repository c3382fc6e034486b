// The agent's pod service as the full file reaches it: aether.cni.v1.CNIService over cni.sock, of ours or of the Go mesh.
import { create } from '@bufbuild/protobuf';
import { AgentAbsentError, AgentError } from '../../core/errors.ts';
import {
  AddPodRequestSchema,
  AddPodResponse_Result,
  CNIService,
  RemovePodRequestSchema,
  RemovePodResponse_Result,
} from '../../gen/aether/cni/v1/cni_pb.js';
import type { AddPodAnswer, PodService } from '../../plugin/deps.ts';
import { PROXY_READY_METADATA, WARNING_METADATA } from './cni-metadata.ts';
import { podRequestToMessage } from './proto-pod.ts';
import { agentErrorFromStatus, isRetryableStatus } from './status-errors.ts';
import { callUnary } from './unary-client.ts';

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 500;

/** AddPod is tried again while the agent is away, as long as its time lasts: an agent that restarts takes a second. */
export function createCniClient({ socketPath }: { readonly socketPath: string }): PodService {
  return {
    async addPod(pod, { timeoutMs, proxyReady, enter }) {
      await enter?.([]);
      const request = create(AddPodRequestSchema, { pod: podRequestToMessage(pod) });
      const metadata = { [PROXY_READY_METADATA]: proxyReady };
      const { response, trailers } = await retryUntil(performance.now() + timeoutMs, (leftMs) =>
        callUnary(CNIService.method.addPod, request, { socketPath, timeoutMs: leftMs, metadata }),
      );
      return toAnswer(response.result, trailers.get(WARNING_METADATA).map(String));
    },

    async removePod({ containerId, name, namespace }, { timeoutMs }) {
      const request = create(RemovePodRequestSchema, { containerId, name, namespace });
      const { response } = await callUnary(CNIService.method.removePod, request, { socketPath, timeoutMs }).catch(
        (error: unknown) => {
          throw toAgentError(error, { what: 'removing the pod', neverArrived: isNotConnected(error) });
        },
      );
      if (response.result !== RemovePodResponse_Result.SUCCESS) {
        throw new AgentError('failed', `removing the pod: the agent answered with result ${response.result}`);
      }
    },
  };
}

function toAnswer(result: AddPodResponse_Result, warnings: readonly string[]): AddPodAnswer {
  if (result === AddPodResponse_Result.SUCCESS) return { kind: 'success', warnings };
  if (result === AddPodResponse_Result.IGNORED) return { kind: 'ignored' };
  throw new AgentError('failed', `adding the pod: the agent answered with result ${result}`);
}

async function retryUntil<T>(endMs: number, attempt: (leftMs: number) => Promise<T>): Promise<T> {
  let neverArrived = true;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return await attempt(Math.max(1, endMs - performance.now()));
    } catch (error) {
      neverArrived &&= isNotConnected(error);
      const isOver = performance.now() + pauseMs >= endMs;
      if (!isRetryableStatus(error) || isOver) throw toAgentError(error, { what: 'adding the pod', neverArrived });
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

function toAgentError(
  error: unknown,
  { what, neverArrived }: { readonly what: string; readonly neverArrived: boolean },
) {
  const mapped = agentErrorFromStatus(error, what);
  return neverArrived ? new AgentAbsentError(mapped.message, { cause: error }) : mapped;
}

// What grpc-js says when no connection was made, so no byte of the request left. Held by a test on absent sockets.
function isNotConnected(error: unknown): boolean {
  return isRetryableStatus(error) && error instanceof Error && /No connection established/.test(error.message);
}
