// Pods as the tool sees them, without the agent: the record on disk, the namespace, the plugin's rules in the kernel.
import { MESH_TABLE } from '../capture/mesh-table.ts';
import { parseCapturePolicy } from '../capture/parse-policy.ts';
import { planPluginTable } from '../capture/plugin-table.ts';
import type { CapturePolicy } from '../capture/policy.ts';
import { messageOf, NetnsError } from '../core/errors.ts';
import { type Finding, FindingList } from '../core/finding.ts';
import { type NetnsPath, parseNetnsPath } from '../core/identifiers.ts';
import { formatProblems, type Parsed } from '../core/problems.ts';
import { formatSocketAddress } from '../core/socket-address.ts';
import {
  ANNOTATION_EXCLUDE_PORTS,
  ANNOTATION_EXCLUDE_RANGES,
  ANNOTATION_REDIRECT_ALL,
  MESH_DNS_PORT,
} from '../mesh/constants.ts';
import { type PodRecord, parseWorkload } from '../mesh/workload.ts';
import { compareTable, type TableDifference } from '../nft/compare.ts';
import type { KernelTable } from '../nft/kernel-table.ts';
import type { Table } from '../nft/model.ts';
import { raiseRule } from '../nft/raise.ts';
import { withinTime } from './bounded.ts';
import type { PodKernel } from './node-check-deps.ts';
import { formatDifferences, goneNamespace } from './node-check-pod.ts';

type Dns = CapturePolicy['dns'];

/** What the plugin's rules of this node follow from, besides the pod's record. */
export interface NodeRules {
  readonly redirectAllDefault: boolean;
  /** What a new pod gets. */
  readonly dns: Dns;
  /** What older pods may have been given: rules with one of these are told from tampered ones. */
  readonly otherDns: readonly Dns[];
  /** Path of the configuration with our entry, for the remedy. */
  readonly confFile: string | undefined;
}

export interface PodRulesOptions {
  readonly kernel: PodKernel;
  readonly node: NodeRules;
  /** The agent cannot be asked: whether its table is there at all is looked at here. */
  readonly isAgentAway: boolean;
  readonly timeoutMs: number;
}

/** `demo/shop-0`: the subject of all findings about the pod. */
export function podSubject({ namespace, name }: Pick<PodRecord, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}

/** Never rejects. */
export async function checkPodRules(record: PodRecord, options: PodRulesOptions): Promise<readonly Finding[]> {
  const subject = podSubject(record);
  try {
    return await withinTime(look(record, options), options.timeoutMs);
  } catch (error) {
    const list = new FindingList('rules');
    list.fail(subject, {
      message: `could not be looked at: ${messageOf(error)}`,
      remedy: `ask again for this pod alone: aether-cni check ${subject}`,
    });
    return list.all;
  }
}

async function look(record: PodRecord, options: PodRulesOptions): Promise<readonly Finding[]> {
  const subject = podSubject(record);
  const netnsList = new FindingList('netns');
  const netns = parseNetnsPath(record.networkNamespace);
  if (typeof netns === 'object') {
    netnsList.fail(subject, { message: `its record's network namespace ${netns.problem}`, remedy: 'recreate the pod' });
    return netnsList.all;
  }
  try {
    await options.kernel.namespaces.assertUsable(netns);
  } catch (error) {
    if (!(error instanceof NetnsError)) throw error;
    netnsList.fail(subject, goneNamespace(error));
    return netnsList.all;
  }
  netnsList.ok(subject, `alive: ${netns}`);
  const rules = await checkTables(record, netns, options);
  return [...netnsList.all, ...checkRecord(record, options.node), ...rules];
}

/** The record itself; whether it is on disk at all is another matter. */
function checkRecord(record: PodRecord, node: NodeRules): readonly Finding[] {
  const list = new FindingList('record');
  const parsed = [parseWorkload(record), parsePolicy(record, { node, dns: undefined })];
  const problems = parsed.flatMap((part) => (part.kind === 'problems' ? part.problems : []));
  const warnings = parsed.flatMap((part) => (part.kind === 'value' ? part.warnings : []));
  if (problems.length > 0) {
    list.fail(podSubject(record), {
      message: `its record is of no valid pod: ${formatProblems(problems)}`,
      remedy: 'correct its annotations and recreate the pod',
    });
  } else if (warnings.length > 0) {
    list.warn(podSubject(record), {
      message: formatProblems(warnings),
      remedy: 'change the annotation if that is not meant',
    });
  }
  return list.all;
}

// The record has the effective mode and exclusions, the node's own included: what the configuration excludes by now is
// not what this pod was given.
function parsePolicy(
  { annotations }: PodRecord,
  { node, dns }: { readonly node: NodeRules; readonly dns: Dns },
): Parsed<CapturePolicy> {
  return parseCapturePolicy(annotations, {
    redirectAll: node.redirectAllDefault,
    exclusions: { ports: [], ranges: [] },
    ...(dns === undefined ? {} : { dns }),
  });
}

async function checkTables(
  record: PodRecord,
  netns: NetnsPath,
  { kernel, node, isAgentAway }: PodRulesOptions,
): Promise<readonly Finding[]> {
  const subject = podSubject(record);
  const list = new FindingList('rules');
  const [plan, ...others] = planTables(record, node);
  if (plan === undefined) return [];
  const found = await kernel.rules.readTable(netns, plan);
  const differences = compareTable(plan, found);
  const isOther = others.some((table) => compareTable(table, found).length === 0);
  // Without the configuration nobody knows which of them is meant.
  const isAsPlanned = differences.length === 0 || (isOther && node.confFile === undefined);
  const ownDns = isAgentAway && node.confFile === undefined ? findDns(found) : undefined;
  if (isAsPlanned) list.ok(subject, `table inet ${plan.name} as planned`);
  else if (ownDns !== undefined && isPlannedWith(ownDns, { record, node, found })) {
    list.ok(
      subject,
      `table inet ${plan.name} as planned; that its DNS is ${formatSocketAddress(ownDns)} only the agent or the configuration could tell`,
    );
  } else if (isOther) {
    list.warn(subject, {
      message: `table inet ${plan.name} was made under another configuration of the node: ${formatDifferences(differences)}`,
      remedy: 'recreate the pod when it suits: rules are made at its start',
    });
  } else list.fail(subject, { message: describe(plan, differences), remedy: repairBy(record, { netns, node }) });
  if (isAgentAway) list.ok(subject, await describeMeshTable(netns, kernel));
  return list.all;
}

function describe({ name }: Table, differences: readonly TableDifference[]): string {
  const [first] = differences;
  const isAbsent = differences.length === 1 && first?.kind === 'missing' && first.subject.startsWith('table ');
  return isAbsent
    ? `missing table inet ${name}: nothing of this pod is captured by the plugin's rules`
    : `table inet ${name} differs: ${formatDifferences(differences)}`;
}

function planTables(record: PodRecord, node: NodeRules): readonly Table[] {
  return [node.dns, ...node.otherDns].flatMap((dns) => {
    const parsed = parsePolicy(record, { node, dns });
    // Of a record that is none, checkRecord has told.
    return parsed.kind === 'problems' ? [] : [planPluginTable(parsed.value)];
  });
}

// Where no configuration and no agent is left to say where the pod's DNS goes, its rules do.
function findDns(found: KernelTable | undefined): Dns {
  for (const expressions of found?.chains.flatMap(({ rules }) => rules) ?? []) {
    const verdict = raiseRule(expressions)?.verdict;
    if (verdict?.kind === 'dnat' && verdict.port === MESH_DNS_PORT) return verdict;
  }
  return undefined;
}

function isPlannedWith(
  dns: Dns,
  {
    record,
    node,
    found,
  }: { readonly record: PodRecord; readonly node: NodeRules; readonly found: KernelTable | undefined },
): boolean {
  return planTables(record, { ...node, dns, otherDns: [] }).some((table) => compareTable(table, found).length === 0);
}

function repairBy(
  { annotations }: PodRecord,
  { netns, node }: { readonly netns: NetnsPath; readonly node: NodeRules },
): string {
  const again = 'recreate the pod, and find out who changed its rules';
  if (node.confFile === undefined) return again;
  const flags = [ANNOTATION_REDIRECT_ALL, ANNOTATION_EXCLUDE_PORTS, ANNOTATION_EXCLUDE_RANGES].flatMap((key) => {
    const value = annotations[key];
    return value === undefined ? [] : [`--annotation ${key}=${quoteForShell(value)}`];
  });
  const render = ['aether-cni rules render --config', quoteForShell(node.confFile), ...flags].join(' ');
  return `${again}; or at once: ${render} | nsenter --net=${quoteForShell(netns)} nft -f -`;
}

/** A word for a POSIX shell. */
function quoteForShell(text: string): string {
  return /^[\w./,:=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

async function describeMeshTable(netns: NetnsPath, { rules }: PodKernel): Promise<string> {
  const table = await rules.readTable(netns, { name: MESH_TABLE, sets: [], chains: [] });
  return table === undefined
    ? `no table inet ${MESH_TABLE}; the agent makes it when it is back`
    : `table inet ${MESH_TABLE} is there; what it should hold only the agent knows`;
}
