// CHECK: is everything that ADD did still so? The rules against the plan, missing, changed, reordered and extra ones; the
// record against the container.
import { MESH_TABLE } from '../capture/mesh-table.ts';
import { parseCaptureDefaults, parseCapturePolicy } from '../capture/parse-policy.ts';
import { planPluginTable } from '../capture/plugin-table.ts';
import type { CapturePolicy } from '../capture/policy.ts';
import type { Attachment } from '../cni/environment.ts';
import { CniError, CODE_CHECK_FAILED } from '../cni/error-object.ts';
import { InputError } from '../core/errors.ts';
import type { Parsed } from '../core/problems.ts';
import { ANNOTATION_MANAGED } from '../mesh/constants.ts';
import { compareTable, formatDifference } from '../nft/compare.ts';
import type { Table } from '../nft/model.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import type { NodeDeps, RecordAnswer } from './deps.ts';
import { findPassThroughReason } from './pass-through.ts';

/** Throws CniError 106 naming every difference, or the error of what could not be looked at. */
export async function checkAttachment(attachment: Attachment, context: CallContext<NodeDeps>): Promise<void> {
  const { config, deps } = context;
  const reason = findPassThroughReason(attachment.args, config) ?? (await findOtherInterface(attachment, context));
  if (reason !== undefined) {
    deps.log.info('cni.check.passed_through', { reason });
    return;
  }
  await deps.namespaces.assertUsable(attachment.netns);
  const answer = await deps.admin.findRecord(attachment.containerId, { timeoutMs: config.agentTimeoutMs });
  if (answer.kind === 'unknowable') context.warn("CHECK: this agent cannot be asked for the pod's record");
  const table = planTable(answer, context);
  const found = await deps.rules.readTable(attachment.netns, table);
  const isManaged = answer.kind === 'record' || config.podAnnotations[ANNOTATION_MANAGED] === 'true';
  // Neither record nor rules nor a wish for them: the pod is none of the mesh.
  if (found === undefined && !isManaged) return;
  const differences = [
    ...describeRecord(answer, attachment),
    ...compareTable(table, found).map((difference) => `rules: ${formatDifference(difference)}`),
    ...(answer.kind === 'record' ? answer.tableDifferences.map((text) => `table inet ${MESH_TABLE}: ${text}`) : []),
  ];
  // The registry or Envoy may be late: that passes, and must not cost the pod its life (CRI-O checks after each ADD).
  if (answer.kind === 'record') for (const problem of answer.problems) context.warn(`CHECK: ${problem}`);
  if (differences.length === 0) return;
  deps.log.warn('cni.check.differs', { differences });
  throw new CniError(CODE_CHECK_FAILED, `checking the container: ${differences.join('; ')}`);
}

async function findOtherInterface(
  { containerId, ifname }: Attachment,
  { config, deps }: CallContext<NodeDeps>,
): Promise<string | undefined> {
  const note = await deps.attachments.find(attachmentDirOf(config), containerId);
  return note === undefined || note.ifname === ifname ? undefined : `the interface in the mesh is "${note.ifname}"`;
}

// The runtime hands CHECK what it handed ADD; where it gives no annotations (CRI-O at times), the record has them.
function planTable(answer: RecordAnswer, { config }: CallContext): Table {
  const defaults = takeValue(parseCaptureDefaults(config), 'reading the network configuration');
  const isGiven = Object.keys(config.podAnnotations).length > 0 || answer.kind !== 'record';
  const annotations = isGiven ? config.podAnnotations : answer.record.annotations;
  const policy: CapturePolicy = takeValue(parseCapturePolicy(annotations, defaults), "reading the pod's annotations");
  return planPluginTable(policy);
}

function describeRecord(answer: RecordAnswer, { containerId, args }: Attachment): readonly string[] {
  if (answer.kind === 'unknowable') return [];
  if (answer.kind === 'none') return ['the agent has no record of this container'];
  const { record } = answer;
  const others = [
    ...(record.containerId === containerId ? [] : [`its container is "${record.containerId}"`]),
    ...(args.podName === undefined || record.name === args.podName ? [] : [`its pod is "${record.name}"`]),
    ...(record.namespace === args.podNamespace ? [] : [`its namespace is "${record.namespace}"`]),
  ];
  return others.map((text) => `record: ${text}`);
}

function takeValue<T>(parsed: Parsed<T>, what: string): T {
  if (parsed.kind === 'value') return parsed.value;
  throw new InputError(what, parsed.problems);
}
