// `aether-cni check` as a use case: the agent's own findings joined with what only the tool can see, also when there is no
// agent. Every step is bounded; one that fails is a finding of its own, and the others go on.

import { type Finding, FindingList } from '../core/finding.ts';
import { isNamedBy } from '../core/pod-subject.ts';
import { formatSocketAddress, type SocketAddress } from '../core/socket-address.ts';
import { MESH_DNS_PORT } from '../mesh/constants.ts';
import type { PodRecord } from '../mesh/workload.ts';
import { withinTime } from './bounded.ts';
import { judgeConf } from './node-check-conflist.ts';
import type { AgentAnswer, HostProbe, NodePlaces, PodKernel } from './node-check-deps.ts';
import { judgeEnvoys, judgeKernel, judgePins, judgeRemovals, judgeSocket, listSockets } from './node-check-host.ts';
import { type Look, type LookOptions, lookAround, notSeen, type ToolPlaces } from './node-check-look.ts';
import { checkPodRules, type NodeRules, podSubject } from './node-check-rules.ts';

export interface ToolCheckOptions extends LookOptions {
  /** `<namespace>/<pod>` or a container id; '': the node and all its pods. */
  readonly subject: string;
  readonly kernel: PodKernel;
  /** For all pods together. */
  readonly podsMs: number;
}

/** Findings, and the pods that were looked at, as `<namespace>/<pod>`. */
export interface ToolCheck {
  readonly findings: readonly Finding[];
  readonly pods: ReadonlySet<string>;
}

const PARALLEL = 8;

/** Never rejects. */
export async function checkFromTool(options: ToolCheckOptions): Promise<ToolCheck> {
  const { agent, host } = options;
  if (host.uid !== 0) return { findings: notRoot(host.uid), pods: new Set() };
  const answer = await agent.status();
  const node = await lookAround(options, answer);
  const pods = node.records.filter((record) => isMeant(record, options.subject));
  if (options.subject !== '' && pods.length === 0 && node.broken.length === 0) {
    return { findings: [...judgeAgent(answer, options), ...unknownPod(options.subject)], pods: new Set() };
  }
  const own = answer.kind === 'status' ? await askAgent(options, answer) : [];
  const isOwnPod = ({ subject }: Finding): boolean => subject.includes('/') && node.subjects.has(subject);
  return {
    findings: [
      ...judgeAgent(answer, options),
      ...(await checkHost(options, node)),
      ...own.filter((finding) => !isOwnPod(finding)),
      ...joinByPod(pods, [...(await checkPods(pods, { options, node })), ...own.filter(isOwnPod)]),
    ],
    pods: new Set(pods.map(podSubject)),
  };
}

/** Whether the subject (`<namespace>/<pod>`, a container id, '' for all) means this pod. */
export function isMeant(record: PodRecord, subject: string): boolean {
  return subject === '' || isNamedBy(record, subject);
}

function notRoot(uid: number): readonly Finding[] {
  const list = new FindingList('tool');
  list.fail(`uid ${uid}`, {
    message: 'only root can look into sockets, records and pods',
    remedy: 'run it as root: sudo aether-cni check',
  });
  return list.all;
}

/** A subject that is no pod of this node. */
function unknownPod(subject: string): readonly Finding[] {
  const list = new FindingList('pod');
  list.fail(subject, {
    message: 'no pod of this node is called so, and no container has this id: neither the agent nor a record has it',
    remedy: '"aether-cni pods" lists them; a pod without the annotation aether.io/managed: "true" is not in the mesh',
  });
  return list.all;
}

function judgeAgent(answer: AgentAnswer, { places }: ToolCheckOptions): readonly Finding[] {
  const list = new FindingList('agent');
  if (answer.kind === 'away') {
    list.fail(places.adminSocket, {
      message: `the agent is away: ${answer.reason}`,
      remedy:
        'start "aether-cni agent", or restart one that is silent (its log says why); until then new pods are refused, pods whose DNS it answers (mesh_dns_enabled) resolve no name, and the rest goes on. The way out without an agent: take the entry "aether-cni" out of the active conflist',
    });
    return list.all;
  }
  const { nodeName, version, podCount, serviceCount, startedAt } = answer;
  const since = startedAt === undefined ? '' : `, since ${startedAt.toISOString()}`;
  if (answer.ready) list.ok(nodeName, `ready: version ${version}, ${podCount} pods, ${serviceCount} services${since}`);
  else {
    list.fail(nodeName, {
      message: `is not ready, new pods are refused: ${answer.problems.join('; ') || 'it does not say why'}`,
      remedy:
        'mend what it names; its log has more. The way out: take the entry "aether-cni" out of the active conflist',
    });
  }
  return list.all;
}

async function askAgent(
  { agent, subject }: ToolCheckOptions,
  answer: Extract<AgentAnswer, { kind: 'status' }>,
): Promise<readonly Finding[]> {
  const found = await agent.check(subject);
  if (found.kind === 'findings') return found.findings;
  const list = new FindingList('agent');
  if (found.kind === 'failed') {
    list.fail(answer.nodeName, {
      message: `could not check itself: ${found.reason}`,
      remedy: 'is it very busy, or stopped? See its CPU and its log; restart it if this stays',
    });
  } else {
    list.warn(answer.nodeName, {
      message: `version ${answer.version} cannot check itself: registrations, Envoy's acknowledgements, certificates and its own tables were not looked at`,
      remedy: 'update the agent',
    });
  }
  for (const message of answer.problems) list.fail(answer.nodeName, { message, remedy: "see the agent's log" });
  return list.all;
}

async function checkHost(options: ToolCheckOptions, node: Look): Promise<readonly Finding[]> {
  const { host, stepMs, subject } = options;
  const { places, answer } = node;
  const step = async (what: string, look: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> => {
    try {
      return await withinTime(look(), stepMs);
    } catch (error) {
      return notSeen(what, error);
    }
  };
  const kernel = step('kernel', async () => judgeKernel(host.kernelRelease, await host.probeKernel()));
  const dns = step('mesh DNS', () => checkDns(host, places));
  // Of one pod only what it stands on.
  if (subject !== '') return [...node.broken, ...(await Promise.all([kernel, dns])).flat()];
  const isAgentThere = answer.kind === 'status';
  const known = new Set([...(node.ofAgent ?? []), ...node.stored.records.map(({ containerId }) => containerId)]);
  const pinned = node.records.filter(({ networkNamespace }) => networkNamespace.startsWith(`${places.pinDir}/`)).length;
  const all = await Promise.all([
    ...(isAgentThere
      ? listSockets(places).map((socket) =>
          step(socket.path, async () => judgeSocket(await host.readSocket(socket.path), socket)),
        )
      : []),
    kernel,
    node.confFacts === undefined ? [] : judgeConf(node.confFacts, isAgentThere ? answer.places : undefined),
    step(places.pinDir, async () =>
      judgePins(await host.readPinDir(places.pinDir), { path: places.pinDir, known, pinned }),
    ),
    step(places.deleteQueueDir, async () =>
      judgeRemovals(await host.listRemovals(places.deleteQueueDir), {
        path: places.deleteQueueDir,
        now: host.now(),
        isAgentThere,
      }),
    ),
    checkRecords(node),
    step('Envoy', async () => judgeEnvoys(await host.listEnvoys(places.xdsSocket), node.records.length)),
    dns,
  ]);
  return [...node.broken, ...all.flat()];
}

async function checkDns(host: HostProbe, { meshDns, meshDomain }: NodePlaces): Promise<readonly Finding[]> {
  const list = new FindingList('dns');
  for (const address of meshDns) {
    const subject = formatSocketAddress(address);
    if (await host.queryDns(address, `aether-check.${meshDomain}`)) list.ok(subject, 'mesh DNS answers');
    else {
      list.fail(subject, {
        message: 'mesh DNS does not answer: pods that use it resolve nothing at all',
        remedy: 'does a firewall rule of the host drop it? Else restart the agent',
      });
    }
  }
  return list.all;
}

function checkRecords({ stored, ofAgent, places }: Look): readonly Finding[] {
  const list = new FindingList('record');
  for (const { file, reason } of stored.broken) {
    list.fail(`${places.recordDir}/${file}`, {
      message: `is no record: ${reason}`,
      remedy: 'the pod that it is about is not in the mesh: recreate that pod, then remove the file',
    });
  }
  for (const record of stored.records) {
    if (ofAgent === undefined || ofAgent.has(record.containerId)) continue;
    list.fail(podSubject(record), {
      message: `has a record, ${record.containerId}.json, but the agent does not know the pod`,
      remedy: 'restart the agent; if this stays, its log names what is wrong with the record (agent.record.broken)',
    });
  }
  if (list.all.length === 0) list.ok(places.recordDir, `${stored.records.length} records, all readable`);
  return list.all;
}

async function checkPods(
  pods: readonly PodRecord[],
  { options, node }: { readonly options: ToolCheckOptions; readonly node: Look },
): Promise<readonly Finding[]> {
  const waiting = [...pods.entries()];
  const found: (readonly Finding[])[] = pods.map(() => []);
  const rules = nodeRules(options.places, node);
  const isAgentAway = node.ofAgent === undefined;
  const endMs = Date.now() + options.podsMs;
  const onDisk = new Set(node.stored.records.map(({ containerId }) => containerId));
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, record] = next;
      const timeoutMs = Math.min(options.stepMs, endMs - Date.now());
      found[index] = [
        ...(await checkPodRules(record, { kernel: options.kernel, node: rules, isAgentAway, timeoutMs })),
        ...recordOnDisk(record, { isThere: onDisk.has(record.containerId), dir: node.places.recordDir }),
      ];
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  return found.flat();
}

function recordOnDisk(record: PodRecord, at: { readonly isThere: boolean; readonly dir: string }): readonly Finding[] {
  const list = new FindingList('record');
  const path = `${at.dir}/${record.containerId}.json`;
  if (at.isThere) list.ok(podSubject(record), path);
  else {
    list.fail(podSubject(record), {
      message: `its record ${path} is missing or not readable: after its next start the agent does not know the pod`,
      remedy: 'recreate the pod before the agent is restarted; find out who removed the file',
    });
  }
  return list.all;
}

function nodeRules(flags: ToolPlaces, { conf, places }: Look): NodeRules {
  const active = conf?.active;
  const config = active?.entries[0]?.config;
  const ofAgent = places.meshDns.map(({ address }) => ({ address, port: MESH_DNS_PORT }));
  const toDns = ({ meshDnsEnabled, hostIp }: NonNullable<typeof config>): SocketAddress | undefined =>
    meshDnsEnabled && hostIp !== undefined ? { address: hostIp, port: MESH_DNS_PORT } : undefined;
  return {
    redirectAllDefault: config?.redirectAllDefault ?? false,
    dns: config === undefined ? undefined : toDns(config),
    otherDns: [undefined, ...ofAgent],
    confFile: config === undefined ? undefined : `${flags.confDir}/${active?.file ?? ''}`,
  };
}

// All findings of a pod stand together, whoever found them.
function joinByPod(pods: readonly PodRecord[], findings: readonly Finding[]): readonly Finding[] {
  return [...new Set(pods.map(podSubject))].flatMap((pod) => findings.filter(({ subject }) => subject === pod));
}
