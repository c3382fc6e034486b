// Every kind of failure that this program distinguishes, each with a stable code. A code is never renamed or reused.
//
//   E_INPUT        untrusted input is wrong; carries every problem                     not retryable
//   E_DECODE       text from outside is not the JSON that it must be                      not retryable
//   E_ENVIRONMENT  a CNI_* variable is missing or malformed                            not retryable
//   E_VERSION      the CNI version of a configuration is not supported                 not retryable
//   E_NETNS        a network namespace is gone, is no namespace, or is a forbidden one not retryable
//   E_KERNEL       the kernel refused an operation (errno attached)                    when errno says so
//   E_AGENT        the node agent is away, refuses, or answered with an error          as marked
//   E_STORE        a file of ours could not be read or written                         as marked
//   E_REGISTRY     the service registry is away or refused                             retryable
//   E_IDENTITY     a certificate or key could not be made                              not retryable
//   E_NATIVE       the native libraries inside the executable could not be loaded      not retryable
//   E_INTERNAL     a defect of ours                                                    not retryable
import { formatProblems, type Problem } from './problems.ts';

export interface ErrorDetails {
  readonly cause?: unknown;
  readonly retryable?: boolean;
}

/** Base of all our errors. `message` reads `what was attempted: why`, lower case. */
export abstract class AetherError extends Error {
  abstract readonly code: `E_${string}`;
  readonly retryable: boolean;

  constructor(message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.retryable = details.retryable ?? false;
  }
}

/** Untrusted input is wrong. The message lists every problem. */
export class InputError extends AetherError {
  readonly code = 'E_INPUT';
  readonly problems: readonly Problem[];

  constructor(subject: string, problems: readonly Problem[]) {
    super(`${subject}: ${formatProblems(problems)}`);
    this.problems = problems;
  }
}

/** Text is not the JSON that it must be. The message says where, never what stands there: it may be a secret. */
export class DecodeError extends AetherError {
  readonly code = 'E_DECODE';
}

/** CNI_* variables are missing or malformed. */
export class EnvironmentError extends AetherError {
  readonly code = 'E_ENVIRONMENT';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(`reading the CNI environment: ${formatProblems(problems)}`);
    this.problems = problems;
  }
}

/** The configuration's cniVersion is not one of `supported`, or too old for the verb. */
export class VersionError extends AetherError {
  readonly code = 'E_VERSION';
  readonly supported: readonly string[];

  constructor(message: string, supported: readonly string[]) {
    super(message);
    this.supported = supported;
  }
}

export type NetnsProblem = 'missing' | 'not-a-namespace' | 'forbidden';

/** A network namespace cannot be used. `forbidden`: it is the host's or this process's own. */
export class NetnsError extends AetherError {
  readonly code = 'E_NETNS';
  readonly problem: NetnsProblem;
  readonly path: string;

  constructor(problem: NetnsProblem, path: string, message: string, details: ErrorDetails = {}) {
    super(message, details);
    this.problem = problem;
    this.path = path;
  }
}

/** The kernel refused. `errno` is the positive number, `errnoName` its C name (`ENOENT`). */
export class KernelError extends AetherError {
  readonly code = 'E_KERNEL';
  readonly errno: number;
  readonly errnoName: string;

  constructor(message: string, errno: number, errnoName: string, details: ErrorDetails = {}) {
    super(message, details);
    this.errno = errno;
    this.errnoName = errnoName;
  }
}

/**
 * `unavailable`: not reachable in time. `rejected`: it answered that the request is wrong. `gone`: that the pod's network
 * namespace is not there (any more). `store`: that a file of its own could not be read or written. `failed`: it failed.
 */
export type AgentProblem = 'unavailable' | 'rejected' | 'gone' | 'store' | 'failed';

/** The node agent did not do what it was asked for; retryable when it is `unavailable`. */
export class AgentError extends AetherError {
  readonly code = 'E_AGENT';
  readonly problem: AgentProblem;

  constructor(problem: AgentProblem, message: string, details: ErrorDetails = {}) {
    super(message, { retryable: problem === 'unavailable', ...details });
    this.problem = problem;
  }
}

/** Nobody listened: the request certainly did not arrive, so nothing of it has to be undone. */
export class AgentAbsentError extends AgentError {
  constructor(message: string, details: ErrorDetails = {}) {
    super('unavailable', message, details);
  }
}

/** A file or directory of ours could not be read or written; the message names the path. */
export class StoreError extends AetherError {
  readonly code = 'E_STORE';
}

/** The service registry is away or refused. */
export class RegistryError extends AetherError {
  readonly code = 'E_REGISTRY';
}

/** A key or certificate could not be read or made. */
export class IdentityError extends AetherError {
  readonly code = 'E_IDENTITY';
}

/** Native code could not be loaded, or not be run at all. */
export class NativeError extends AetherError {
  readonly code = 'E_NATIVE';
}

/** A defect of ours: something that the code itself must rule out. */
export class InternalError extends AetherError {
  readonly code = 'E_INTERNAL';
}

/** The message of anything thrown, for wrapping; never a stack. */
export function messageOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return 'a value without text was thrown';
  }
}
