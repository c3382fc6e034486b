// Another container in the same network namespace: an ADD into a namespace that is taken is refused, and what follows for the
// refused container (its DEL, GC) must not take the rules of the one that is there.
import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import { pinPathsOf } from './remove-rules.ts';

/** One of `others` that is in the mesh, and whose pin, or path where it has none, leads to the namespace. */
export async function findSharer(
  netns: NetnsPath | undefined,
  others: Iterable<ContainerId>,
  context: CallContext,
): Promise<ContainerId | undefined> {
  const { config, deps } = context;
  const identity = netns === undefined ? undefined : await deps.namespaces.identify(netns);
  if (identity === undefined) return undefined;
  for (const id of others) {
    // The pin of one that is gone may stay for a while, without a note.
    const note = await deps.attachments.find(attachmentDirOf(config), id);
    const path = note?.netns ?? pinPathsOf(context, id)[0];
    if (note === undefined || path === undefined) continue;
    if ((await deps.namespaces.identify(path)) === identity) return id;
  }
  return undefined;
}

/** Another container than this that is in the mesh in the namespace. Throws StoreError. */
export async function findOther(
  { containerId, netns }: { readonly containerId: ContainerId; readonly netns: NetnsPath },
  context: CallContext,
): Promise<ContainerId | undefined> {
  const notes = await context.deps.attachments.list(attachmentDirOf(context.config));
  const others = notes.map((note) => note.containerId).filter((id) => id !== containerId);
  return findSharer(netns, others, context);
}
