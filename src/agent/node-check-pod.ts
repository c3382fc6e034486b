// One pod as the agent sees it: its own table in the pod's kernel, the registry's entries, Envoy's acknowledgements.
import { MESH_TABLE } from '../capture/mesh-table.ts';
import { messageOf, NetnsError } from '../core/errors.ts';
import { type Finding, FindingList } from '../core/finding.ts';
import { formatProblems } from '../core/problems.ts';
import type { Endpoint } from '../mesh/endpoint.ts';
import {
  captureListenerName,
  captureShimListenerName,
  captureTcpListenerName,
  formatServiceKey,
  inboundListenerName,
  outboundListenerName,
} from '../mesh/names.ts';
import type { Protocol } from '../mesh/port-protocols.ts';
import { compareTable, formatDifference, type TableDifference } from '../nft/compare.ts';
import type { RuleReader } from '../plugin/deps.ts';
import type { AgentPod } from './agent-pod.ts';
import { withinTime } from './bounded.ts';
import type { NodeAgent } from './node-agent.ts';

export interface PodCheckOptions {
  readonly rules: RuleReader;
  /** What is left of the whole check's time. */
  readonly timeoutMs: number;
}

/** More differences than this say nothing more. */
const DIFFERENCES_MAX = 5;

/** Findings with the subject `<namespace>/<pod>`. Never rejects. */
export async function checkPod(agent: NodeAgent, pod: AgentPod, options: PodCheckOptions): Promise<readonly Finding[]> {
  const subject = nameOf(pod);
  try {
    const findings = await withinTime(
      Promise.all([checkTable(agent, pod, options), checkRegistration(agent, pod), checkListeners(agent, pod)]).then(
        (parts) => parts.flat(),
      ),
      options.timeoutMs,
    );
    // Removed or added again meanwhile: what was seen is of a pod that is no more.
    return agent.findPod(pod.workload.record.containerId) === pod ? findings : [];
  } catch (error) {
    const list = new FindingList('pod');
    list.fail(subject, {
      message: `could not be looked at by the agent: ${messageOf(error)}`,
      remedy: `ask again for this pod alone: aether-cni check ${subject}`,
    });
    return list.all;
  }
}

/** The first few differences, `; ` between them, and how many more. */
export function formatDifferences(differences: readonly TableDifference[]): string {
  const shown = differences.slice(0, DIFFERENCES_MAX).map(formatDifference);
  const more = differences.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}

async function checkTable(agent: NodeAgent, pod: AgentPod, { rules }: PodCheckOptions): Promise<readonly Finding[]> {
  const list = new FindingList('rules');
  const subject = nameOf(pod);
  if (agent.settings.node.captureForm === 'single') {
    list.ok(subject, `no table inet ${MESH_TABLE}: in the single form Envoy decides`);
    return list.all;
  }
  const compare = async () => {
    const plan = agent.tables.plan(pod);
    return compareTable(plan, await rules.readTable(pod.netns, plan));
  };
  try {
    let differences = await compare();
    // Perhaps seen in the middle of a change: once more, when nothing changes.
    if (differences.length > 0) differences = await agent.runner.run(compare);
    if (differences.length === 0) list.ok(subject, `table inet ${MESH_TABLE} as the agent has it, elements included`);
    else {
      list.fail(subject, {
        message: `table inet ${MESH_TABLE} differs: ${formatDifferences(differences)}`,
        remedy: 'restart the agent: it puts its table in place again in every pod; find out who changed it',
      });
    }
  } catch (error) {
    if (error instanceof NetnsError) list.fail(subject, goneNamespace(error));
    else {
      list.fail(subject, {
        message: `table inet ${MESH_TABLE} cannot be read: ${messageOf(error)}`,
        remedy: 'the kernel\'s answer names what is missing; see "aether-cni check" for the node',
      });
    }
  }
  return list.all;
}

/** For a pod whose namespace is not there any more. */
export function goneNamespace(error: NetnsError) {
  return {
    message: `its network namespace is not usable: ${error.message}`,
    remedy:
      'if the pod is gone, its DEL never came: delete the sandbox in the runtime (crictl rmp), or let the runtime run GC; if it runs, recreate it',
  };
}

async function checkRegistration(agent: NodeAgent, pod: AgentPod): Promise<readonly Finding[]> {
  const list = new FindingList('registry');
  const subject = nameOf(pod);
  const { workload, endpoint } = pod;
  const { service } = workload;
  if (endpoint === undefined) {
    list.ok(subject, 'has no address to register: it dials, and nobody is sent to it');
    return list.all;
  }
  const wrong: string[] = [];
  for (const protocol of pod.protocols) {
    const listed = await agent.deps.registry.listEndpoints(service, protocol);
    const found = listed.find(({ ip }) => ip === endpoint.ip);
    const difference = describeEndpoint(endpoint, found);
    if (difference !== undefined) wrong.push(`under ${protocol.toUpperCase()} ${difference}`);
  }
  const where = `${formatServiceKey(service)} at ${endpoint.ip}`;
  if (wrong.length > 0) {
    list.fail(subject, {
      message: `${where}: ${wrong.join('; ')}`,
      remedy:
        'if another pod has this address now, the runtime gave it twice: recreate this one; else restart the agent, which registers its pods again',
    });
  } else list.ok(subject, `registered as ${where}: ${formatPorts(endpoint)}`);
  return [...list.all, ...checkHealth(agent, pod)];
}

function checkHealth({ liveness, deps }: NodeAgent, pod: AgentPod): readonly Finding[] {
  // Said once, for the node: without Envoy nobody has asked the application.
  if (deps.publisher.streams === 0) return [];
  const list = new FindingList('health');
  if (liveness?.healthOf(pod) !== 'unhealthy') return [];
  const { primary, served } = pod.workload.ports;
  const isTcp = served.find(({ port }) => port === primary)?.protocol === 'tcp';
  list.warn(nameOf(pod), {
    message: `Envoy gets no good answer from its application on port ${primary}: it gets no new connections`,
    remedy: [
      'does the application listen there, on 127.0.0.1, too? Is the pod\'s interface "lo" up?',
      isTcp ? '' : ' Does endpoint.aether.io/health-path name a path that answers 200?',
    ].join(''),
  });
  return list.all;
}

function describeEndpoint(wanted: Endpoint, found: Endpoint | undefined): string | undefined {
  if (found === undefined) return 'the registry does not have it';
  if (found.containerId !== wanted.containerId) {
    return `the registry has another pod there, ${found.namespace}/${found.podName} (container ${found.containerId})`;
  }
  const ports = [wanted, found].map(formatPorts);
  return ports[0] === ports[1] ? undefined : `the registry has ports ${ports[1]} instead of ${ports[0]}`;
}

/** `8080*,9000=tcp`: the primary with a star. */
function formatPorts({ port, ports, portProtocols }: Endpoint): string {
  const suffix = (protocol: Protocol | undefined): string => (protocol === 'tcp' ? '=tcp' : '');
  return ports.map((each) => `${each}${suffix(portProtocols.get(each))}${each === port ? '*' : ''}`).join(',');
}

async function checkListeners(agent: NodeAgent, pod: AgentPod): Promise<readonly Finding[]> {
  const { publisher } = agent.deps;
  // Said once, for the node.
  if (publisher.streams === 0) return [];
  const list = new FindingList('proxy');
  const subject = nameOf(pod);
  const { resourceName } = pod.node;
  const unfit = agent.leftOut.find(({ kind, name }) => kind === 'pod' && name === resourceName);
  if (unfit !== undefined) {
    list.fail(subject, {
      message: `the proxy is not told of it: ${formatProblems(unfit.problems)}`,
      remedy: "correct the pod's annotations and recreate it",
    });
    return list.all;
  }
  const names = LISTENERS.map((nameFor) => nameFor(resourceName)).filter((name) =>
    agent.snapshot?.resources.listener.has(name),
  );
  const result = await publisher.waitForAck(
    names.map((name) => ({ kind: 'listener', name })),
    { timeoutMs: ACK_MS },
  );
  if (result.kind === 'acknowledged') list.ok(subject, `Envoy has its ${names.length} listeners`);
  else if (result.kind === 'rejected') {
    for (const { name, message } of result.resources) {
      list.fail(subject, {
        message: `Envoy refused ${name}: ${message}`,
        remedy:
          "mend the cause in Envoy's words (a port in use by the application, a namespace that Envoy cannot enter, its limit of open files); then restart Envoy",
      });
    }
  } else {
    const waitingFor = result.kind === 'timeout' ? result.waitingFor.join(', ') : 'Envoy to connect';
    list.fail(subject, {
      message: `Envoy has not acknowledged ${waitingFor}`,
      remedy: 'see whether Envoy is busy or stopped (its log, its CPU); restart it if this stays',
    });
  }
  return list.all;
}

/** A listener that has just been sent is not a problem yet. */
const ACK_MS = 1000;

const LISTENERS = [
  outboundListenerName,
  inboundListenerName,
  captureListenerName,
  captureTcpListenerName,
  captureShimListenerName,
];

function nameOf({ workload: { record } }: AgentPod): string {
  return `${record.namespace}/${record.name}`;
}
