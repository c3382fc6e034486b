// One call as the use cases see it: configuration read, deps open, a place for sentences that go to stderr.
import type { NetConfig } from '../cni/net-config.ts';
import type { CniVersion } from '../cni/versions.ts';
import { withoutEndSlash } from '../core/identifiers.ts';
import type { PluginDeps } from './deps.ts';

export interface CallContext<Deps extends PluginDeps = PluginDeps> {
  readonly config: NetConfig;
  readonly version: CniVersion;
  readonly deps: Deps;
  /** Adds a sentence that the caller of the runtime should see. */
  readonly warn: (sentence: string) => void;
  /** Throws the error to answer when the call is no longer wanted. */
  readonly signal?: Pick<AbortSignal, 'throwIfAborted'>;
}

/** Where the notes about attachments lie: beside the pins, and as short-lived. */
export function attachmentDirOf({ pinDir }: Pick<NetConfig, 'pinDir'>): string {
  return `${withoutEndSlash(pinDir)}.attachments`;
}

/** A call to the agent that must not hold up a DEL, nor the undoing of an ADD. */
export const REMOVE_TIMEOUT_MS = 1000;
