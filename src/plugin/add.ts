// ADD: takes a pod into the mesh, or leaves nothing behind. Everything is read before anything is touched, by the agent, too; then,
// at its word, namespace, note, pin, rules, in this order, undone in reverse. The answer is prevResult.

import { POD_TABLES } from '../capture/mesh-table.ts';
import {
  type CaptureDefaults,
  effectiveAnnotations,
  parseCaptureDefaults,
  parseCapturePolicy,
} from '../capture/parse-policy.ts';
import { PLUGIN_TABLE, planPluginTable } from '../capture/plugin-table.ts';
import type { CapturePolicy } from '../capture/policy.ts';
import type { Attachment } from '../cni/environment.ts';
import { formatResult, type PrevResult } from '../cni/result.ts';
import { AgentAbsentError, EnvironmentError, InputError, messageOf } from '../core/errors.ts';
import type { NetnsPath } from '../core/identifiers.ts';
import { formatProblem, type Parsed, type Problem, quoteValue } from '../core/problems.ts';
import { ANNOTATION_MANAGED, ANNOTATION_SERVICE_ACCOUNT, DEFAULT_SERVICE_ACCOUNT } from '../mesh/constants.ts';
import { parseWorkload } from '../mesh/workload.ts';
import type { Table } from '../nft/model.ts';
import { attachmentDirOf, type CallContext } from './call-context.ts';
import type { AddPodAnswer, AttachmentNote, Entered } from './deps.ts';
import { findOther } from './find-sharer.ts';
import { findPassThroughReason } from './pass-through.ts';
import { removePodSoonOrLater } from './remove-pod.ts';
import { pinPathsOf, removeRules } from './remove-rules.ts';
import { UndoStack } from './undo.ts';

const ANNOTATIONS = "reading the pod's annotations";

/** The text for stdout. Throws an AetherError of any kind; then nothing was changed, or everything undone. */
export async function addAttachment(attachment: Attachment, context: CallContext): Promise<string> {
  const { config, version, deps } = context;
  const prevResult = requirePrevResult(config.prevResult);
  const answer = `${formatResult(prevResult, version)}\n`;
  const defaults = takeValue(parseCaptureDefaults(config), 'reading the network configuration', context);
  const reason = findPassThroughReason(attachment.args, config);
  if (reason !== undefined) {
    deps.log.info('cni.add.passed_through', { reason });
    return answer;
  }
  const pod = requirePodName(attachment);
  const { ips } = prevResult;
  const plan = { attachment, pod, ips, policy: readPolicy({ attachment, pod, ips }, { context, defaults }) };
  const undo = new UndoStack();
  try {
    await takeIn(plan, { ...context, undo });
    return answer;
  } catch (error) {
    for (const failure of await undo.unwind()) {
      deps.log.error('cni.add.undo_failed', { reason: messageOf(failure) });
      context.warn(`undoing the ADD: ${messageOf(failure)}`);
    }
    throw error;
  }
}

interface Plan {
  readonly attachment: Attachment;
  readonly pod: { readonly podName: string; readonly podNamespace: string; readonly podUid: string };
  readonly ips: readonly string[];
  readonly policy: Parsed<CapturePolicy>;
}

// A pod that is meant to be in the mesh and is not because of a capital letter would run outside of it unnoticed.
function warnOfManaged({ config, warn }: CallContext): void {
  const text = config.podAnnotations[ANNOTATION_MANAGED];
  if (text === undefined || text === 'true' || text === 'false') return;
  warn(`${ANNOTATION_MANAGED}: only "true" takes a pod into the mesh, got ${quoteValue(text)}`);
}

interface AddContext extends CallContext {
  readonly undo: UndoStack;
}

async function takeIn(plan: Plan, context: AddContext): Promise<void> {
  const { config, deps, signal, undo } = context;
  const netns = workPathOf(plan.attachment, context);
  const rules = plan.policy.kind === 'value' ? planPluginTable(plan.policy.value) : undefined;
  const answer = await addPod({ ...plan, netns, rules }, context);
  if (answer.kind === 'ignored') {
    deps.log.info('cni.add.ignored', {});
    warnOfManaged(context);
    for (const failure of await undo.unwind()) context.warn(`leaving the pod alone: ${messageOf(failure)}`);
    return;
  }
  for (const warning of answer.warnings) context.warn(warning);
  const policy = takeValue(plan.policy, ANNOTATIONS, context);
  undoRules(plan.attachment, context);
  signal?.throwIfAborted();
  if (answer.hasRules !== true) {
    await deps.rules.replaceTable(netns, planPluginTable(policy), { settleFlows: true, isNew: true });
  }
  signal?.throwIfAborted();
  deps.log.info('cni.add.done', { redirectAll: policy.redirectAll, pinned: !config.pinDisabled });
}

// The way in from here on: the pin's, where one is made.
function workPathOf({ containerId, netns }: Attachment, context: CallContext): NetnsPath {
  return (context.config.pinDisabled ? undefined : pinPathsOf(context, containerId)[0]) ?? netns;
}

// By the runtime's path where a DEL that overtook this call has taken the pin.
function undoRules(attachment: Attachment, context: AddContext): void {
  const paths = [workPathOf(attachment, context), attachment.netns];
  for (const table of POD_TABLES) context.undo.push(() => removeRules(paths, table, context));
}

// Namespace, note and pin, and rules: at one stroke where that can be.
async function enter(attachment: Attachment, tables: readonly Table[], context: AddContext): Promise<Entered> {
  const { config, deps, undo } = context;
  const { containerId, netns } = attachment;
  const noteDir = attachmentDirOf(config);
  const pinDir = config.pinDisabled ? undefined : config.pinDir;
  const note = noteOf(attachment, context);
  const entered = await deps.threshold?.enter(netns, { noteDir, note, pinDir, tables });
  if (entered === undefined) {
    await deps.namespaces.assertUsable(netns);
    const standing = await claim(attachment, context);
    if (standing === undefined) await pin(attachment, context);
    else await enterAgain({ attachment, standing }, context);
    return NOT_MORE;
  }
  undo.push(() => deps.attachments.release(noteDir, containerId));
  if (pinDir !== undefined) undo.push(() => deps.namespaces.unpin({ pinDir, containerId }));
  if (entered.hasRules) undoRules(attachment, context);
  return entered;
}

const NOT_MORE: Entered = { identity: undefined, hasRules: false, isSettled: false };

// Our rules are there already, most likely; where the container has another namespace now, they are in the one it had.
async function enterAgain(
  { attachment, standing }: { readonly attachment: Attachment; readonly standing: AttachmentNote },
  context: AddContext,
): Promise<void> {
  const { config, deps, undo } = context;
  const { containerId, netns } = attachment;
  using held = config.pinDisabled ? undefined : await deps.holdPin({ pinDir: config.pinDir, containerId });
  await pin(attachment, context);
  // Before it may be refused: no path of its own leads there any more.
  const left = held?.isReplaced() ? held.netns : await findLeft(attachment, { standing, context });
  if (left !== undefined) {
    deps.log.info('cni.add.moved', {});
    for (const table of POD_TABLES) await removeRules([left], table, context);
  }
  await refuseTaken(attachment, context);
  undo.push(() => deps.rules.destroyTable(netns, PLUGIN_TABLE, { settleFlows: true }));
}

// Where a container without a pin was, unless another is there by now. The note says where it is from here on.
async function findLeft(
  attachment: Attachment,
  { standing, context }: { readonly standing: AttachmentNote; readonly context: AddContext },
): Promise<NetnsPath | undefined> {
  const { containerId, netns } = standing;
  const note = noteOf(attachment, context);
  if (netns === note.netns) return undefined;
  const dir = attachmentDirOf(context.config);
  await context.deps.attachments.release(dir, containerId);
  await context.deps.attachments.claim(dir, note);
  if (netns === undefined || netns === attachment.netns) return undefined;
  return (await findOther({ containerId, netns }, context)) === undefined ? netns : undefined;
}

// The agent refuses it, too; here what is undone would take the other's rules.
async function refuseTaken(attachment: Attachment, context: AddContext): Promise<void> {
  const sharer = await findOther(attachment, context);
  if (sharer === undefined) return;
  const message = `"${attachment.netns}" is the network namespace of container "${sharer}"`;
  throw new InputError('adding the container', [{ path: 'CNI_NETNS', message }]);
}

function noteOf({ containerId, ifname, netns }: Attachment, { config }: AddContext): AttachmentNote {
  return { containerId, ifname, network: config.name, ...(config.pinDisabled ? { netns } : {}) };
}

// A namespace has one table of ours, and an agent one record of a container: a second interface would share both. Gives the
// note of a container that was in the mesh before.
async function claim(attachment: Attachment, context: AddContext): Promise<AttachmentNote | undefined> {
  const { config, deps, undo } = context;
  const { containerId, ifname } = attachment;
  const dir = attachmentDirOf(config);
  const note = noteOf(attachment, context);
  const standing = await deps.attachments.claim(dir, note);
  if (standing.ifname !== ifname) {
    const message = `the container is in the mesh with "${standing.ifname}" already; one interface is all it can have`;
    throw new InputError('adding an interface', [{ path: 'CNI_IFNAME', message }]);
  }
  undo.push(() => deps.attachments.release(dir, containerId));
  return standing === note ? undefined : standing;
}

async function pin({ containerId, netns }: Attachment, { config, deps, undo }: AddContext): Promise<void> {
  if (config.pinDisabled) return;
  const options = { pinDir: config.pinDir, containerId };
  undo.push(() => deps.namespaces.unpin(options));
  await deps.namespaces.pin(netns, options);
}

interface Work {
  readonly netns: NetnsPath;
  readonly rules: Table | undefined;
}

async function addPod(
  { attachment, pod, ips, policy, netns, rules }: Plan & Work,
  context: AddContext,
): Promise<AddPodAnswer> {
  const { config, deps, signal, undo } = context;
  const { containerId, netns: given } = attachment;
  const { podAnnotations } = config;
  const request = {
    name: pod.podName,
    namespace: pod.podNamespace,
    containerId,
    networkNamespace: netns,
    ips,
    annotations: policy.kind === 'value' ? effectiveAnnotations(podAnnotations, policy.value) : podAnnotations,
    uid: pod.podUid,
  };
  // Before the namespace is entered nothing is kept of the pod: what is known of the container is from before.
  let mayKnow = false;
  let refusal: unknown;
  const entry = undo.nest();
  const enterOnce = async (tables: readonly Table[]): Promise<Entered> => {
    try {
      const entered = await enter(attachment, tables, { ...context, undo: entry });
      signal?.throwIfAborted();
      mayKnow = true;
      return entered;
    } catch (error) {
      refusal = error;
      throw error;
    }
  };
  undo.push(async () => {
    if (mayKnow) await removePodSoonOrLater({ containerId, ...pod, netns: given }, context);
  });
  try {
    const options = {
      timeoutMs: config.agentTimeoutMs,
      proxyReady: config.proxyReady,
      enter: enterOnce,
      ...(rules === undefined ? {} : { rules }),
    };
    const answer = await deps.pods.addPod(request, options);
    if (answer.kind === 'ignored') mayKnow = false;
    return answer;
  } catch (error) {
    if (error instanceof AgentAbsentError) mayKnow = false;
    // The agent may have put its own words around what was found here.
    throw refusal ?? error;
  }
}

function requirePrevResult(prevResult: PrevResult | undefined): PrevResult {
  if (prevResult !== undefined) return prevResult;
  const message = 'is missing: this plugin must be chained after one that makes the interface';
  throw new InputError('reading the network configuration', [{ path: 'prevResult', message }]);
}

function requirePodName({ args: { podName = '', podNamespace = '', podUid = '' } }: Attachment): Plan['pod'] {
  if (podName !== '') return { podName, podNamespace, podUid };
  throw new EnvironmentError([{ path: 'CNI_ARGS.K8S_POD_NAME', message: 'is required beside K8S_POD_NAMESPACE' }]);
}

// Whether a pod is managed is for the agent to say, and the mistakes of one that is not must not stop it: unless the pod
// itself says that it is, they are looked at again after the agent's answer.
function readPolicy(
  subject: Omit<Plan, 'policy'>,
  { context, defaults }: { readonly context: CallContext; readonly defaults: CaptureDefaults },
): Parsed<CapturePolicy> {
  const { podAnnotations } = context.config;
  const policy = parseCapturePolicy(podAnnotations, defaults);
  if (policy.kind === 'problems' && podAnnotations[ANNOTATION_MANAGED] === 'true') {
    throw new InputError(ANNOTATIONS, [...policy.problems, ...findOtherMistakes(subject, podAnnotations)]);
  }
  return policy;
}

// What the agent would say of the other annotations: whoever corrects them wants to do it once.
function findOtherMistakes(
  { attachment: { containerId }, pod, ips }: Omit<Plan, 'policy'>,
  annotations: Readonly<Record<string, string>>,
): readonly Problem[] {
  const names = { name: pod.podName, namespace: pod.podNamespace, uid: pod.podUid, containerId };
  const serviceAccount = annotations[ANNOTATION_SERVICE_ACCOUNT] || DEFAULT_SERVICE_ACCOUNT;
  const rest = { networkNamespace: '', labels: {}, terminating: false };
  const workload = parseWorkload({ ...names, ...rest, ips, annotations, serviceAccount });
  return workload.kind === 'problems' ? workload.problems : [];
}

function takeValue<T>(parsed: Parsed<T>, what: string, context: CallContext): T {
  if (parsed.kind === 'problems') throw new InputError(what, parsed.problems);
  for (const warning of parsed.warnings) context.warn(formatProblem(warning));
  return parsed.value;
}
