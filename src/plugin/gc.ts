// GC: removes what containers left that the runtime no longer has. Only of this network: another network's containers are
// told apart by the notes that ADD wrote.

import { POD_TABLES } from '../capture/mesh-table.ts';
import { messageOf } from '../core/errors.ts';
import type { ContainerId } from '../core/identifiers.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import type { NodeDeps } from './deps.ts';
import { findSharer } from './find-sharer.ts';
import { removePodSoonOrLater } from './remove-pod.ts';
import { pinPathsOf, removeRules } from './remove-rules.ts';

/** Throws an AggregateError at the end of what failed. Without a list of valid attachments nothing is removed. */
export async function collectGarbage(context: CallContext<NodeDeps>): Promise<void> {
  const { config, deps } = context;
  if (config.validAttachments === undefined) {
    context.warn('GC: the runtime gave no list of valid attachments, so nothing is removed');
    return;
  }
  const dir = attachmentDirOf(config);
  const notes = await deps.attachments.list(dir);
  const foreign = notes.filter(({ network }) => network !== '' && network !== config.name);
  const attachments = [...config.validAttachments, ...foreign];
  const kept = new Set(attachments.map(({ containerId }) => String(containerId)));

  const failures: unknown[] = [];
  const attempt = async (step: () => Promise<void>): Promise<void> => {
    await step().catch((error: unknown) => failures.push(error));
  };
  const stale = new Set<ContainerId>();
  const pins = await deps.listPins(config.pinDir);
  const keptPins = pins.filter((id) => kept.has(id));
  for (const id of [...pins, ...notes.map(({ containerId }) => containerId)]) {
    if (!kept.has(id)) stale.add(id);
  }
  // While there is a way into the namespace: the agent takes the pins away, too.
  for (const containerId of stale) {
    const [pin] = pinPathsOf(context, containerId);
    if ((await findSharer(pin, keptPins, context)) !== undefined) continue;
    for (const table of POD_TABLES) {
      await attempt(() => removeRules(pinPathsOf(context, containerId), table, context));
    }
  }
  let isCollected = false;
  await attempt(async () => {
    const options = { timeoutMs: config.agentTimeoutMs };
    isCollected = await deps.admin.collect({ network: config.name, attachments }, options);
  });
  for (const containerId of stale) {
    deps.log.info('cni.gc.removed', { pod: containerId });
    if (!isCollected) await attempt(() => removePodSoonOrLater({ containerId }, context));
    await attempt(() => deps.namespaces.unpin({ pinDir: config.pinDir, containerId }));
    await attempt(() => deps.attachments.release(dir, containerId));
  }
  if (failures.length > 0) throw new AggregateError(failures, `collecting: ${failures.map(messageOf).join('; ')}`);
}
