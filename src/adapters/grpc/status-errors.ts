// The one mapper between our errors and gRPC status, both ways. It knows the numbers only, so that whoever maps an error
// need not load gRPC. Codes: https://grpc.github.io/grpc/core/md_doc_statuscodes.html
import { AetherError, AgentError, type AgentProblem, InputError, InternalError, messageOf } from '../../core/errors.ts';

const GRPC_CANCELLED = 1;
export const GRPC_INVALID_ARGUMENT = 3;
export const GRPC_DEADLINE_EXCEEDED = 4;
const GRPC_NOT_FOUND = 5;
const GRPC_ALREADY_EXISTS = 6;
const GRPC_RESOURCE_EXHAUSTED = 8;
const GRPC_FAILED_PRECONDITION = 9;
const GRPC_ABORTED = 10;
const GRPC_OUT_OF_RANGE = 11;
export const GRPC_UNIMPLEMENTED = 12;
export const GRPC_INTERNAL = 13;
export const GRPC_UNAVAILABLE = 14;
const GRPC_DATA_LOSS = 15;

// A status travels in HTTP/2 trailers, whose size peers limit (8 KiB in the Go implementation's default).
const DETAILS_MAX = 4000;

const PROBLEM_OF_CODE: ReadonlyMap<number, AgentProblem> = new Map([
  [GRPC_CANCELLED, 'unavailable'],
  [GRPC_DEADLINE_EXCEEDED, 'unavailable'],
  [GRPC_RESOURCE_EXHAUSTED, 'unavailable'],
  [GRPC_ABORTED, 'unavailable'],
  [GRPC_UNAVAILABLE, 'unavailable'],
  [GRPC_INVALID_ARGUMENT, 'rejected'],
  [GRPC_NOT_FOUND, 'gone'],
  [GRPC_ALREADY_EXISTS, 'rejected'],
  [GRPC_FAILED_PRECONDITION, 'rejected'],
  [GRPC_OUT_OF_RANGE, 'rejected'],
  [GRPC_DATA_LOSS, 'store'],
]);

/** What a server answers: a gRPC status code and a sentence. Never holds a stack. */
export interface GrpcStatus {
  readonly code: number;
  readonly details: string;
}

/** Server side: the status of anything thrown. A defect of ours is INTERNAL with its message only. */
export function statusFromError(thrown: unknown): GrpcStatus {
  return { code: codeOf(thrown), details: messageOf(thrown).slice(0, DETAILS_MAX) };
}

function codeOf(thrown: unknown): number {
  if (thrown instanceof AgentError) {
    if (thrown.problem === 'unavailable') return GRPC_UNAVAILABLE;
    if (thrown.problem === 'gone') return GRPC_NOT_FOUND;
    if (thrown.problem === 'store') return GRPC_DATA_LOSS;
    return thrown.problem === 'rejected' ? GRPC_INVALID_ARGUMENT : GRPC_INTERNAL;
  }
  if (thrown instanceof InputError) return GRPC_INVALID_ARGUMENT;
  if (thrown instanceof InternalError) return GRPC_INTERNAL;
  return thrown instanceof AetherError && thrown.retryable ? GRPC_UNAVAILABLE : GRPC_INTERNAL;
}

/**
 * Client side: what a failed call means. `what` is the attempt, `adding the pod`. An AgentError passes unchanged;
 * an unknown throw (not a status) is `failed`.
 */
export function agentErrorFromStatus(thrown: unknown, what: string): AgentError {
  if (thrown instanceof AgentError) return thrown;
  if (!isStatus(thrown)) return new AgentError('failed', `${what}: ${messageOf(thrown)}`, { cause: thrown });
  const problem = PROBLEM_OF_CODE.get(thrown.code) ?? 'failed';
  const details = withoutAttempt(reasonOf(thrown), what) || `gRPC status ${thrown.code}`;
  const reason = problem === 'unavailable' ? `the node agent is not available (${details})` : details;
  return new AgentError(problem, `${what}: ${reason}`, { cause: thrown });
}

// grpc-js says "No connection established. Last error: Error: connect ENOENT /x. Resolution note: ", blank included.
const NO_CONNECTION = /^No connection established\. Last error: (?:Error: )?(.*)\. Resolution note:.*$/s;

function reasonOf({ details }: GrpcStatus): string {
  return (NO_CONNECTION.exec(details)?.[1] ?? details).trim();
}

// The other end names the same attempt in its own words.
function withoutAttempt(reason: string, what: string): string {
  return reason.startsWith(`${what}: `) ? reason.slice(what.length + 2) : reason;
}

/** Whether another attempt may help: UNAVAILABLE and DEADLINE_EXCEEDED only, as the Go mesh's plugin. */
export function isRetryableStatus(thrown: unknown): boolean {
  return isStatus(thrown) && (thrown.code === GRPC_UNAVAILABLE || thrown.code === GRPC_DEADLINE_EXCEEDED);
}

/** Whether a failed call ended with this code. */
export function isStatusCode(thrown: unknown, code: number): boolean {
  return isStatus(thrown) && thrown.code === code;
}

// grpc-js rejects with a ServiceError: an Error with numeric `code` and `details`. Node's own errors have text codes.
function isStatus(thrown: unknown): thrown is GrpcStatus {
  return (
    typeof thrown === 'object' &&
    thrown !== null &&
    'code' in thrown &&
    typeof thrown.code === 'number' &&
    'details' in thrown &&
    typeof thrown.details === 'string'
  );
}
