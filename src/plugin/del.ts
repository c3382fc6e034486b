// DEL: takes a pod out of the mesh. It works with whatever the runtime still has (no namespace, no prevResult, a broken
// configuration, an agent that is away), goes on after errors and is repeatable, because a DEL that fails keeps a pod from
// ever ending.

import { POD_TABLES } from '../capture/mesh-table.ts';
import type { Detachment } from '../cni/environment.ts';
import { messageOf } from '../core/errors.ts';
import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import { formatProblem } from '../core/problems.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import { findOther } from './find-sharer.ts';
import { findPassThroughReason } from './pass-through.ts';
import { removePodSoonOrLater } from './remove-pod.ts';
import { pinPathsOf, removeRules } from './remove-rules.ts';

/** Never throws; what failed is warned about. */
export async function deleteAttachment(detachment: Detachment, context: CallContext): Promise<void> {
  const { config, deps } = context;
  for (const problem of detachment.warnings) context.warn(formatProblem(problem));
  const { containerId } = detachment;
  if (containerId === undefined) return;
  const dir = attachmentDirOf(config);
  const note = await deps.attachments.find(dir, containerId).catch(() => undefined);
  const reason = note === undefined ? findExclusion(detachment, context) : findOtherInterface(detachment, note.ifname);
  if (reason !== undefined) {
    deps.log.info('cni.del.nothing_to_do', { reason });
    return;
  }
  const attempt = async (what: string, step: () => Promise<void>): Promise<void> => {
    try {
      await step();
    } catch (error) {
      deps.log.error('cni.del.step_failed', { step: what, reason: messageOf(error) });
      context.warn(`DEL went on after ${what}: ${messageOf(error)}`);
    }
  };
  // With neither path nor pin only the agent, by its record, knows where its table is.
  const hasWay = detachment.netns !== undefined || !config.pinDisabled;
  const atOnce = config.unpinDelaySeconds === 0 && hasWay ? deps.threshold : undefined;
  const unpinNotBefore = findUnpinTime(context);
  const isStranger = note === undefined && (await isOfAnother({ containerId, netns: detachment.netns }, context));
  const netns = isStranger ? undefined : detachment.netns;
  const paths = isStranger ? [] : listPaths(detachment, pinPathsOf(context, containerId));
  const { pinDir } = config;
  let isLeft: boolean | undefined;
  const leave = (): Promise<void> =>
    attempt('leaving at one stroke', async () => {
      isLeft = false;
      isLeft = (await atOnce?.leave(paths, { tables: POD_TABLES, noteDir: dir, pinDir, containerId })) ?? false;
    });
  const takeRules = atOnce === undefined ? undefined : leave;
  await attempt('telling the agent', () =>
    removePodSoonOrLater({ containerId, ...detachment.args, takeRules, unpinNotBefore, netns }, context),
  );
  // An agent that could not be told has not asked for it.
  if (isLeft === undefined) await leave();
  if (!isLeft) {
    for (const table of POD_TABLES) {
      await attempt(`removing the table ${table}`, () => removeRules(paths, table, context));
    }
    await attempt('removing the pin', () => unpinSoonOrLater({ ...detachment, containerId, unpinNotBefore }, context));
    await attempt('removing the note', () => deps.attachments.release(dir, containerId));
  }
  deps.log.info('cni.del.done', {});
}

// First the pin, where it still holds a namespace: that is where ADD put the rules, and the runtime's path may have been given to
// another container since.
function listPaths({ netns }: Detachment, pins: readonly NetnsPath[]): readonly NetnsPath[] {
  return netns === undefined ? pins : [...pins, netns];
}

// Of a container without a note, which was never taken in or was taken out before: the runtime's path may lead to another's.
async function isOfAnother(
  { containerId, netns }: { readonly containerId: ContainerId; readonly netns: NetnsPath | undefined },
  context: CallContext,
): Promise<boolean> {
  const sharer = netns && (await findOther({ containerId, netns }, context).catch(() => undefined));
  if (sharer !== undefined) context.deps.log.info('cni.del.other_container', { sharer });
  return sharer !== undefined;
}

// Only an excluded namespace: a call without any may be the second DEL of a pod of the mesh.
function findExclusion({ args }: Detachment, { config }: CallContext): string | undefined {
  return args.podNamespace === undefined ? undefined : findPassThroughReason(args, config);
}

function findOtherInterface({ ifname }: Detachment, taken: string): string | undefined {
  if (ifname === undefined || ifname === taken) return undefined;
  return `the interface in the mesh is "${taken}"`;
}

function findUnpinTime({ config: { unpinDelaySeconds } }: CallContext): Date | undefined {
  return unpinDelaySeconds === 0 ? undefined : new Date(Date.now() + unpinDelaySeconds * 1000);
}

interface LaterRemoval {
  readonly containerId: ContainerId;
  readonly unpinNotBefore: Date | undefined;
}

// A later removal is the agent's: no process stays behind for it. One that waits for the agent already knows the time.
async function unpinSoonOrLater(
  { containerId, args, unpinNotBefore }: Pick<Detachment, 'args'> & LaterRemoval,
  { config, deps }: CallContext,
): Promise<void> {
  const { pinDir } = config;
  if (unpinNotBefore === undefined) return deps.namespaces.unpin({ pinDir, containerId });
  return deps.deleteQueue.enqueue({
    dir: config.deleteQueueDir,
    containerId,
    name: args.podName || '-',
    namespace: args.podNamespace || '-',
    notBefore: unpinNotBefore,
  });
}
