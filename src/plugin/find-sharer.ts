// Another container in the same network namespace: an ADD into a namespace that is taken is refused, and what follows for the
// refused container (its DEL, GC) must not take the rules of the one that is there.
import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import { pinPathsOf } from './remove-rules.ts';

/** One of `others` that is in the mesh, and whose pin leads to the namespace. */
export async function findSharer(
  netns: NetnsPath | undefined,
  others: Iterable<ContainerId>,
  context: CallContext,
): Promise<ContainerId | undefined> {
  const { config, deps } = context;
  const identity = netns === undefined ? undefined : await deps.namespaces.identify(netns);
  if (identity === undefined) return undefined;
  for (const id of others) {
    const [pin] = pinPathsOf(context, id);
    if (pin === undefined || (await deps.namespaces.identify(pin)) !== identity) continue;
    // The pin of one that is gone may stay for a while.
    if ((await deps.attachments.find(attachmentDirOf(config), id)) !== undefined) return id;
  }
  return undefined;
}
