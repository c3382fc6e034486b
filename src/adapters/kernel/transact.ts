// Sends one batch to many namespaces in one native call, off the event loop, and reads the outcome of each.
import { Buffer } from 'node:buffer';
import { type AetherError, NativeError } from '../../core/errors.ts';
import type { NetnsPath } from '../../core/identifiers.ts';
import { ABI } from './abi.ts';
import type { Batch } from './batch-writer.ts';
import { errnoName, kernelError } from './errno.ts';
import type { NativeLibrary } from './native-library.ts';
import { missingModule, netnsStageError } from './netns-error.ts';
import { plainPath } from './peer-view.ts';

export interface Outcome {
  readonly netns: NetnsPath;
  /** Absent: done. */
  readonly failure?: Failure;
  /** Present where it was asked for: connections tracked in the namespace afterwards; 0 where nothing translates them. */
  readonly flows?: number;
}

export interface Failure {
  /** `EINVAL` */
  readonly errnoName: string;
  /** Index in the batch of the message that the kernel refused; -1: it got no batch, or no answer came. */
  readonly message: number;
  /** The kernel does not know a message type newer than our headers; nothing of the batch was applied. */
  readonly isUnknownMessage: boolean;
  /** Made only where somebody wants it. */
  toError(what: string): AetherError;
}

export interface TransactOptions {
  readonly batch: Batch;
  readonly countFlows?: boolean;
  /** In a new namespace that is gone afterwards, instead of each that is named. */
  readonly inNewNamespace?: boolean;
}

/** One transaction a namespace, in order; one that fails does not keep the others from being tried. */
export async function transact(
  native: NativeLibrary,
  netns: readonly NetnsPath[],
  { batch, countFlows = false, inNewNamespace = false }: TransactOptions,
): Promise<readonly Outcome[]> {
  if (netns.length === 0) return [];
  const paths = encodePaths(netns);
  const outcomes = Buffer.alloc(netns.length * ABI.SIZEOF_AE_OUTCOME);
  const flags =
    (batch.mayDelete ? ABI.AE_CLOSE_LATE : 0) |
    (countFlows ? ABI.AE_COUNT_FLOWS : 0) |
    (inNewNamespace ? ABI.AE_NEW_NAMESPACE : 0);
  const { bytes } = batch;
  const status = await native.callOffThread(
    'ae_transact',
    ...([paths, netns.length, bytes, bytes.length, flags, outcomes] as const),
  );
  if (status < 0) throw new NativeError(`send a batch to ${netns.length} namespaces: ${errnoName(-status)}`);
  return netns.map((path, index) =>
    readOutcome(path, outcomes.subarray(index * ABI.SIZEOF_AE_OUTCOME), { batch, countFlows }),
  );
}

/** As libaether.h has them. */
export function encodePaths(netns: readonly NetnsPath[]): Buffer {
  return Buffer.from(netns.map((path) => `${path}\0`).join(''));
}

const REFUSALS: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP']);

function readOutcome(
  netns: NetnsPath,
  bytes: Buffer,
  { batch, countFlows }: { readonly batch: Batch; readonly countFlows: boolean },
): Outcome {
  const errno = bytes.readInt32LE(0);
  if (errno === 0) return countFlows ? { netns, flows: bytes.readUInt32LE(ABI.OFFSET_AE_OUTCOME_FLOWS) } : { netns };
  const stage = bytes.readInt32LE(ABI.OFFSET_AE_OUTCOME_STAGE);
  const message = bytes.readInt32LE(ABI.OFFSET_AE_OUTCOME_MESSAGE);
  const label = batch.labels[message];
  // nfnetlink answers so to a type beyond the subsystem's table.
  const isUnknownMessage = label?.isNewer === true && REFUSALS.has(errnoName(errno));
  const toError = (what: string): AetherError => {
    if (stage !== ABI.AE_STAGE_KERNEL || label === undefined) return netnsStageError(what, netns, { stage, errno });
    const why = missingModule(errno, label.module);
    return kernelError(`${what} in network namespace "${plainPath(netns)}": ${label.what}`, errno, why);
  };
  return { netns, failure: { errnoName: errnoName(errno), message, isUnknownMessage, toError } };
}
