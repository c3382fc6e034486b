// errno by name, and what a refusal by nf_tables means for people: ENOENT for an expression is a missing kernel module.
import { constants } from 'node:os';
import { KernelError } from '../../core/errors.ts';

const NAMES: ReadonlyMap<number, string> = new Map(
  // Linux has two names for these numbers; the common one is kept.
  Object.entries(constants.errno)
    .filter(([name]) => name !== 'EWOULDBLOCK' && name !== 'ENOTSUP')
    .map(([name, value]) => [value, name]),
);

/** `ENOENT` for 2; `errno 4711` for a number that has no name. */
export function errnoName(errno: number): string {
  return NAMES.get(errno) ?? `errno ${errno}`;
}

const TRANSIENT: ReadonlySet<string> = new Set(['EAGAIN', 'EBUSY', 'EINTR', 'ENOBUFS', 'ENOMEM', 'ETIMEDOUT']);

/** `what`: what was attempted; `why`: more than the errno's name, where more is known. */
export function kernelError(what: string, errno: number, why?: string): KernelError {
  const name = errnoName(errno);
  return new KernelError(`${what}: ${why === undefined ? name : `${why} (${name})`}`, errno, name, {
    retryable: TRANSIENT.has(name),
  });
}
