// What the agent itself can say about the node when `check` asks: what it holds, what Envoy made of it, and what the
// kernel has, held against what it believes. Changes nothing, and ends in bounded time. What only the tool can see
// (sockets, the runtime's configuration, the plugin's rules) is in node-check-host.ts and node-check-rules.ts.

import { X509Certificate } from 'node:crypto';
import { messageOf } from '../core/errors.ts';
import { type Finding, FindingList } from '../core/finding.ts';
import { isNamedBy } from '../core/pod-subject.ts';
import { formatProblems } from '../core/problems.ts';
import type { RuleReader } from '../plugin/deps.ts';
import { PUSH_ORDER } from '../xds/resource.ts';
import type { Rejection } from './ads-protocol.ts';
import type { AgentPod } from './agent-pod.ts';
import { withinTime } from './bounded.ts';
import type { NodeAgent } from './node-agent.ts';
import { checkPod } from './node-check-pod.ts';

/** How late the event loop came to what there was to do, within `windowMs` until lately. */
export interface LoopDelay {
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly windowMs: number;
}

/** What the agent's own process and namespace are like. */
export interface AgentHost {
  /** Undefined: it had little to do lately. */
  loopDelay(): LoopDelay | undefined;
  /** Soft RLIMIT_NOFILE of this process; undefined: unknown. */
  openFileLimit(): number | undefined;
  /** Of these ranges (`10.254.0.0/16`) those for which the namespace has no route that refuses. */
  listUnrefused(ranges: readonly string[]): readonly string[];
}

export interface NodeCheckOptions {
  /** `<namespace>/<pod>` or a container id; '': the node and all its pods. */
  readonly subject: string;
  readonly rules: RuleReader;
  readonly host: AgentHost;
  readonly listRejections: () => readonly Rejection[];
  readonly timeoutMs: number;
}

/** How many pods are looked at side by side. Few: what the kernel says is read on the thread that also answers ADDs. */
const PARALLEL = 2;
const REGISTRY_TIMEOUT_MS = 2000;
/** A certificate is renewed at half of its life: with a quarter left something is wrong. The root is not renewed by itself. */
const ROOT_WARN_MS = 90 * 24 * 60 * 60 * 1000;
const BUNDLE = 'trust bundle';
const RENEW_ROOT = 'give every node a new root in --ca-dir and restart the agents';
const RENEW = "agent.certificate.failed in the agent's log has the reason; check the node's clock, restart the agent";
/** Sockets of clients, Envoys and batches under way. */
const OPEN_FILES_MIN = 4096;
/** What Envoy's requests and the runtime's calls may lose by the agent's own work. */
const LOOP_DELAY_MS = 20;

/** Never rejects. A subject that is no pod of this agent has findings about the node alone. */
export async function checkNode(agent: NodeAgent, options: NodeCheckOptions): Promise<readonly Finding[]> {
  const deadlineMs = Date.now() + options.timeoutMs;
  const pods = agent.listPods().filter((pod) => isMeant(pod, options.subject));
  const node = [
    ...checkSnapshot(agent),
    ...checkProxy(agent, options),
    ...(await checkRegistry(agent)),
    ...checkServices(agent),
    ...checkCertificates(agent, pods, options),
    ...(options.subject === '' ? checkProcess(agent, options) : []),
  ];
  return [...node, ...(await checkPods(agent, pods, { ...options, deadlineMs }))];
}

/** Whether the subject (`<namespace>/<pod>`, a container id, '' for all) means this pod. */
function isMeant({ workload: { record } }: AgentPod, subject: string): boolean {
  return subject === '' || isNamedBy(record, subject);
}

async function checkPods(
  agent: NodeAgent,
  pods: readonly AgentPod[],
  options: NodeCheckOptions & { readonly deadlineMs: number },
): Promise<readonly Finding[]> {
  const waiting = [...pods.entries()];
  const findings: (readonly Finding[])[] = pods.map(() => []);
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, pod] = next;
      const timeoutMs = options.deadlineMs - Date.now();
      findings[index] = await checkPod(agent, pod, { rules: options.rules, timeoutMs });
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  return findings.flat();
}

function checkSnapshot(agent: NodeAgent): readonly Finding[] {
  const list = new FindingList('snapshot');
  const { snapshot, refused, leftOut } = agent;
  if (refused.length > 0) {
    list.fail('node', {
      message: `what was built last is not published: ${formatProblems(refused)}`,
      remedy:
        'Envoy goes on with the last good configuration; correct the annotations or services named here, and report it: the agent should not build such a thing',
    });
  }
  for (const { kind, name, problems } of leftOut) {
    list.fail(`${kind} ${name}`, {
      message: `is left out of the proxy's configuration: ${formatProblems(problems)}`,
      remedy: `correct what is named here in the ${kind === 'pod' ? "pod's annotations" : "annotations of the service's pods"} and recreate them; all others are served`,
    });
  }
  const count = PUSH_ORDER.reduce((sum, kind) => sum + (snapshot?.resources[kind].size ?? 0), 0);
  if (refused.length === 0) list.ok('node', `${count} resources published`);
  return list.all;
}

function checkProxy(agent: NodeAgent, { subject, listRejections }: NodeCheckOptions): readonly Finding[] {
  const list = new FindingList('proxy');
  const { streams } = agent.deps.publisher;
  if (streams > 0) list.ok('node', `${streams} Envoy${streams === 1 ? ' is' : 's are'} connected`);
  else {
    list.fail('node', {
      message: 'no Envoy is connected: nothing captured is answered, no pod receives through the mesh',
      remedy:
        'start the node\'s Envoy with the bootstrap of "aether-cni envoy-bootstrap"; its log says why it cannot connect to the xDS socket',
    });
  }
  const unseen = agent.liveness?.problem;
  if (streams > 0 && unseen !== undefined) {
    list.warn('health', {
      message: unseen,
      remedy:
        'until Envoy answers, the pods keep the health that they had; is its bootstrap the one of this agent\'s "aether-cni envoy-bootstrap"?',
    });
  }
  // With a subject its listeners are looked at by name.
  if (subject !== '') return list.all;
  for (const { kind, name, message } of listRejections()) {
    list.fail(`${kind} ${name}`, {
      message: `Envoy refused it: ${message}`,
      remedy: `mend the cause in Envoy's words (see it with "aether-cni snapshot"); it is sent again when it changes, and when Envoy restarts`,
    });
  }
  return list.all;
}

async function checkRegistry({ deps: { registry }, registrar }: NodeAgent): Promise<readonly Finding[]> {
  const list = new FindingList('registry');
  try {
    const services = await withinTime(registry.listServices(), REGISTRY_TIMEOUT_MS);
    list.ok('node', `answers; ${services.size} services have endpoints`);
  } catch (error) {
    list.fail('node', {
      message: `cannot be read: ${messageOf(error)}`,
      remedy:
        'bring the registry back; until then the node goes on with the endpoints it knows, and new pods are not seen by other nodes',
    });
  }
  if (registrar.pendingCount > 0) {
    list.fail('node', {
      message: `${registrar.pendingCount} registrations wait to be written`,
      remedy:
        'they are tried again by themselves once the registry takes writes; the log event agent.registry.write_failed has its words',
    });
  }
  return list.all;
}

function checkServices({ catalog }: NodeAgent): readonly Finding[] {
  const list = new FindingList('services');
  for (const message of catalog.problems) {
    list.fail('node', { message, remedy: 'give the agent a wider --vip-cidr, or fix addresses with --services' });
  }
  if (catalog.problems.length === 0) list.ok('node', `${catalog.views.length} services have addresses`);
  return list.all;
}

function checkCertificates(
  { certificates, deps: { clock } }: NodeAgent,
  pods: readonly AgentPod[],
  { subject }: NodeCheckOptions,
): readonly Finding[] {
  if (certificates === undefined) return [];
  const list = new FindingList('certificate');
  const nowMs = clock.now().getTime();
  const wanted = new Set(pods.map((pod) => pod.node.identity));
  const kept = certificates.list().filter(({ identity }) => subject === '' || wanted.has(identity));
  const all = [
    { name: BUNDLE, pem: certificates.trustBundlePem },
    ...kept.map(({ identity, certificateChainPem }) => ({ name: identity, pem: certificateChainPem })),
  ];
  let firstMs = Number.POSITIVE_INFINITY;
  for (const { name, pem } of all) {
    const { validFromDate, validToDate } = new X509Certificate(pem);
    const [startMs, endMs] = [validFromDate.getTime(), validToDate.getTime()];
    firstMs = Math.min(firstMs, endMs);
    const message = `${endMs <= nowMs ? 'expired' : 'expires'} ${validToDate.toISOString()}`;
    const trouble = { message, remedy: name === BUNDLE ? RENEW_ROOT : RENEW };
    const isLate = endMs - nowMs < Math.min(ROOT_WARN_MS, (endMs - startMs) / 4);
    if (endMs <= nowMs) list.fail(name, trouble);
    else if (isLate) list.warn(name, trouble);
  }
  for (const identity of wanted) {
    if (!certificates.isPending(identity)) continue;
    list.fail(identity, {
      message: 'is not issued',
      remedy: `it is tried again by itself; ${RENEW}`,
    });
  }
  if (list.all.length === 0) {
    list.ok('node', `${all.length} in order, the first one expires ${new Date(firstMs).toISOString()}`);
  }
  return list.all;
}

function checkProcess(agent: NodeAgent, { host }: NodeCheckOptions): readonly Finding[] {
  const limits = new FindingList('limits');
  const limit = host.openFileLimit();
  if (limit !== undefined && limit < OPEN_FILES_MIN) {
    limits.warn('agent', {
      message: `may open ${limit} files, ${OPEN_FILES_MIN} are advised`,
      remedy: `set LimitNOFILE=${OPEN_FILES_MIN * 16} in the agent's service`,
    });
  } else if (limit !== undefined) limits.ok('agent', `may open ${limit} files`);
  checkLoop(host.loopDelay(), limits);
  const routes = new FindingList('routes');
  const ranges = agent.settings.vipRanges.map(({ text }) => text);
  const without = host.listUnrefused(ranges);
  for (const range of without) {
    routes.warn(range, {
      message:
        'the node has no prohibit route for this range: what is not captured leaves by the default route and hangs',
      remedy: `ip route add prohibit ${range}, or restart the agent; find out who removed it`,
    });
  }
  if (without.length === 0 && ranges.length > 0) routes.ok('node', `${ranges.join(', ')} refused where not captured`);
  return [...limits.all, ...routes.all];
}

function checkLoop(delay: LoopDelay | undefined, list: FindingList): void {
  if (delay === undefined) return;
  const { p99Ms, maxMs, windowMs } = delay;
  const minutes = Math.max(1, Math.round(windowMs / 60_000));
  const message = `events waited ${Math.round(maxMs)} ms at most, 99 of 100 up to ${Math.round(p99Ms)} ms, within ${minutes} min`;
  if (p99Ms <= LOOP_DELAY_MS) list.ok('event loop', message);
  else
    list.warn('event loop', { message, remedy: 'give the agent more CPU; if it has enough, report it with its log' });
}
