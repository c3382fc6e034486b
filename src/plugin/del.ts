// DEL: takes a pod out of the mesh. It works with whatever the runtime still has (no namespace, no prevResult, a broken
// configuration, an agent that is away), goes on after errors and is repeatable, because a DEL that fails keeps a pod from
// ever ending.
import { MESH_TABLE } from '../capture/mesh-table.ts';
import { PLUGIN_TABLE } from '../capture/plugin-table.ts';
import type { Detachment } from '../cni/environment.ts';
import { messageOf, NetnsError } from '../core/errors.ts';
import { type ContainerId, type NetnsPath, parseNetnsPath } from '../core/identifiers.ts';
import { formatProblem } from '../core/problems.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import { findPassThroughReason } from './pass-through.ts';
import { removePodSoonOrLater } from './remove-pod.ts';

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
  await attempt('telling the agent', () => removePodSoonOrLater({ containerId, ...detachment.args }, context));
  const netns = detachment.netns ?? pinPathOf(context, containerId);
  await attempt('removing the rules', () => removeRules(netns, PLUGIN_TABLE, context));
  // The agent removes its own when it can be told; later it has no path into this namespace any more.
  await attempt("removing the agent's rules", () => removeRules(netns, MESH_TABLE, context));
  await attempt('removing the pin', () => unpinSoonOrLater(containerId, detachment, context));
  await attempt('removing the note', () => deps.attachments.release(dir, containerId));
  deps.log.info('cni.del.done', {});
}

// Only an excluded namespace: a call without any may be the second DEL of a pod of the mesh.
function findExclusion({ args }: Detachment, { config }: CallContext): string | undefined {
  return args.podNamespace === undefined ? undefined : findPassThroughReason(args, config);
}

function findOtherInterface({ ifname }: Detachment, taken: string): string | undefined {
  if (ifname === undefined || ifname === taken) return undefined;
  return `the interface in the mesh is "${taken}"`;
}

function pinPathOf({ config }: CallContext, containerId: ContainerId): NetnsPath | undefined {
  const path = parseNetnsPath(`${config.pinDir.replace(/\/+$/, '')}/${containerId}`);
  return typeof path === 'string' ? path : undefined;
}

// A later removal is the agent's: no process stays behind for it.
async function unpinSoonOrLater(
  containerId: ContainerId,
  { args }: Detachment,
  { config, deps }: CallContext,
): Promise<void> {
  const { pinDir, unpinDelaySeconds } = config;
  if (unpinDelaySeconds === 0) return deps.namespaces.unpin({ pinDir, containerId });
  return deps.deleteQueue.enqueue({
    dir: config.deleteQueueDir,
    containerId,
    name: args.podName || '-',
    namespace: args.podNamespace || '-',
    notBefore: new Date(Date.now() + unpinDelaySeconds * 1000),
  });
}

async function removeRules(netns: NetnsPath | undefined, table: string, { deps }: CallContext): Promise<void> {
  if (netns === undefined) return;
  try {
    await deps.rules.destroyTable(netns, table, { settleFlows: table === PLUGIN_TABLE });
  } catch (error) {
    // The rules went with the namespace; a file that is none never had any; the host's own has none of ours.
    if (!(error instanceof NetnsError)) throw error;
    deps.log.debug('cni.del.no_namespace', { reason: error.message });
  }
}
