// The one mapper from anything thrown to the CNI error object (CNI specification 1.1.0, section 5, "Error").
import {
  AetherError,
  AgentError,
  DecodeError,
  EnvironmentError,
  IdentityError,
  InputError,
  KernelError,
  messageOf,
  NativeError,
  NetnsError,
  RegistryError,
  StoreError,
  VersionError,
} from '../core/errors.ts';
import { LATEST_VERSION } from './versions.ts';

/** Codes of the specification. */
const CODE_VERSION = 1;
const CODE_UNKNOWN_CONTAINER = 3;
const CODE_ENVIRONMENT = 4;
const CODE_IO = 5;
const CODE_DECODE = 6;
const CODE_CONFIG = 7;
const CODE_TRY_AGAIN = 11;
export const CODE_UNAVAILABLE = 50;
export const CODE_LIMITED = 51;
/** Ours (100 and above); a number is never given another meaning. */
const CODE_FORBIDDEN_NETNS = 100;
const CODE_AGENT_FAILED = 101;
const CODE_KERNEL = 102;
const CODE_NATIVE = 103;
const CODE_REGISTRY = 104;
const CODE_IDENTITY = 105;
/** CHECK found a difference between what is and what must be. */
export const CODE_CHECK_FAILED = 106;
/** A defect of ours, or a failure that nothing here knows. */
const CODE_INTERNAL = 999;

// What a runtime prints into an event; the rest of a longer message is in the log.
const TEXT_MAX = 8000;

/** What to do about it: the one failure that the node's admin meets without having changed anything. */
const AGENT_AWAY = '"aether-cni check" on the node says what to do';
// grpc-js's words around a reason that our own message has.
const NO_CONNECTION = 'No connection established.';

/** A failure that already knows its CNI code: STATUS (50, 51) and CHECK (106). */
export class CniError extends AetherError {
  readonly code = 'E_CNI';
  readonly cniCode: number;

  constructor(cniCode: number, message: string, details: { readonly cause?: unknown } = {}) {
    super(message, details);
    this.cniCode = cniCode;
  }
}

/** The object as printed. `details` is empty where there is nothing to add. */
export interface CniErrorObject {
  readonly cniVersion: string;
  readonly code: number;
  readonly msg: string;
  readonly details: string;
}

/** `cniVersion`: the configuration's where it is known and supported. */
export function toErrorObject(thrown: unknown, cniVersion: string = LATEST_VERSION): CniErrorObject {
  return {
    cniVersion,
    code: codeOf(thrown),
    msg: cut(
      thrown instanceof AetherError || thrown instanceof AggregateError
        ? thrown.message
        : `internal error: ${messageOf(thrown)}`,
    ),
    details: cut(detailsOf(thrown)),
  };
}

/** One line of JSON. */
export function formatErrorObject(object: CniErrorObject): string {
  return `${JSON.stringify(object)}\n`;
}

function codeOf(thrown: unknown): number {
  if (thrown instanceof CniError) return thrown.cniCode;
  if (thrown instanceof VersionError) return CODE_VERSION;
  if (thrown instanceof EnvironmentError) return CODE_ENVIRONMENT;
  if (thrown instanceof DecodeError) return CODE_DECODE;
  if (thrown instanceof InputError) return CODE_CONFIG;
  if (thrown instanceof NetnsError) return codeOfNetns(thrown);
  if (thrown instanceof AgentError) return codeOfAgent(thrown);
  if (thrown instanceof KernelError) return thrown.retryable ? CODE_TRY_AGAIN : CODE_KERNEL;
  if (thrown instanceof StoreError) return CODE_IO;
  if (thrown instanceof NativeError) return CODE_NATIVE;
  if (thrown instanceof RegistryError) return thrown.retryable ? CODE_TRY_AGAIN : CODE_REGISTRY;
  if (thrown instanceof IdentityError) return CODE_IDENTITY;
  // Its message names all; the first decides.
  if (thrown instanceof AggregateError && !(thrown.errors[0] instanceof AggregateError))
    return codeOf(thrown.errors[0]);
  return CODE_INTERNAL;
}

function codeOfNetns({ problem }: NetnsError): number {
  if (problem === 'missing') return CODE_UNKNOWN_CONTAINER;
  return problem === 'forbidden' ? CODE_FORBIDDEN_NETNS : CODE_ENVIRONMENT;
}

function codeOfAgent({ problem }: AgentError): number {
  if (problem === 'unavailable') return CODE_TRY_AGAIN;
  if (problem === 'gone') return CODE_UNKNOWN_CONTAINER;
  if (problem === 'store') return CODE_IO;
  return problem === 'rejected' ? CODE_CONFIG : CODE_AGENT_FAILED;
}

function detailsOf(thrown: unknown): string {
  if (thrown instanceof VersionError) return `supported: ${thrown.supported.join(', ')}`;
  const facts: string[] = thrown instanceof AetherError ? [thrown.code] : [];
  if (thrown instanceof KernelError) facts.push(thrown.errnoName);
  if (thrown instanceof AgentError && thrown.problem === 'unavailable') facts.push(AGENT_AWAY);
  return [...facts, ...causesOf(thrown)].join('; ');
}

// Messages of the causes that add something, outermost first; never a stack.
function causesOf(thrown: unknown): string[] {
  const causes: string[] = [];
  let said = messageOf(thrown);
  let cause = thrown instanceof Error ? thrown.cause : undefined;
  // Bounded by depth, not by what was found: a chain of causes may lead back into itself.
  for (let depth = 0; cause !== undefined && depth < 5; depth++) {
    // grpc-js puts `3 INVALID_ARGUMENT: ` in front of what the other end said.
    const message = messageOf(cause).replace(/^\d+ [A-Z_]+: /, '');
    if (!said.includes(message) && !message.startsWith(NO_CONNECTION)) causes.push(message);
    said = message;
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return causes;
}

// Trimmed: runtimes hand the text on in a gRPC trailer, and HTTP/2 drops a header value that ends in a blank.
function cut(text: string): string {
  const trimmed = text.trim();
  return trimmed.length > TEXT_MAX ? `${trimmed.slice(0, TEXT_MAX - 3)}...` : trimmed;
}
