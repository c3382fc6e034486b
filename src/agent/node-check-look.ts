// What `check` looks at first, and where: the runtime's configuration, the agent's places, the records and pods of the node.

import { type ConfDirReading, PLUGIN_TYPE, readConfDir } from '../cni/conf-list.ts';
import { DEFAULT_DELETE_QUEUE_DIR, DEFAULT_PIN_DIR, DEFAULT_RECORD_DIR } from '../core/default-paths.ts';
import { messageOf } from '../core/errors.ts';
import { type Finding, FindingList } from '../core/finding.ts';
import { DEFAULT_MESH_DOMAIN } from '../mesh/constants.ts';
import type { PodRecord } from '../mesh/workload.ts';
import { withinTime } from './bounded.ts';
import type { ConfFacts } from './node-check-conflist.ts';
import type { AgentAnswer, HostProbe, NodePlaces, StoredRecords, ToolAgent } from './node-check-deps.ts';
import { podSubject } from './node-check-rules.ts';

/** Flags of the command: places where the agent does not say its own. */
export interface ToolPlaces {
  readonly adminSocket: string;
  readonly confDir: string;
  readonly binDir: string;
  /** Undefined: as the agent says, else our entry of the configuration, else the default. */
  readonly recordDir: string | undefined;
  readonly pinDir: string | undefined;
  readonly deleteQueueDir: string | undefined;
}

export interface LookOptions {
  readonly places: ToolPlaces;
  readonly agent: ToolAgent;
  readonly host: HostProbe;
  /** For one step. */
  readonly stepMs: number;
}

/** What was found before anything is judged. */
export interface Look {
  readonly answer: AgentAnswer;
  readonly places: NodePlaces;
  readonly confFacts: ConfFacts | undefined;
  readonly conf: ConfDirReading | undefined;
  /** The agent's, and those on disk that it does not have. */
  readonly records: readonly PodRecord[];
  readonly stored: StoredRecords;
  readonly broken: readonly Finding[];
  /** Container ids that the agent has; undefined: it cannot be asked. */
  readonly ofAgent: ReadonlySet<string> | undefined;
  readonly subjects: ReadonlySet<string>;
}

/** Looks at everything that the rest of the check stands on. Never rejects. */
export async function lookAround(options: LookOptions, answer: AgentAnswer): Promise<Look> {
  const { host, places, agent } = options;
  const broken: Finding[] = [];
  const attempt = async <T>(what: string, step: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await withinTime(step(), options.stepMs);
    } catch (error) {
      broken.push(...notSeen(what, error));
      return undefined;
    }
  };
  const files = await attempt(places.confDir, () => host.readConfFiles(places.confDir));
  const conf = files === undefined ? undefined : readConfDir(files);
  const confFacts = await attempt(places.binDir, async () => ({
    confDir: places.confDir,
    binDir: places.binDir,
    reading: conf,
    plugin: await host.readFile(`${places.binDir}/${PLUGIN_TYPE}`),
    standalone: await host.readFile(`${places.binDir}/${PLUGIN_TYPE}-standalone`),
  }));
  const where = choosePlaces(options.places, { answer, conf });
  const stored = (await attempt(where.recordDir, () => host.readRecords(where.recordDir))) ?? NO_RECORDS;
  const listed = answer.kind === 'status' ? await attempt('pods', () => agent.listRecords()) : undefined;
  const ofAgent = listed === undefined ? undefined : new Set(listed.map(({ containerId }) => containerId));
  const records = [
    ...(listed ?? []),
    ...stored.records.filter(({ containerId }) => ofAgent?.has(containerId) !== true),
  ];
  const subjects = new Set(records.map(podSubject));
  return { answer, places: where, confFacts, conf, records, stored, broken, ofAgent, subjects };
}

const NO_RECORDS: StoredRecords = { records: [], broken: [] };

function choosePlaces(
  flags: ToolPlaces,
  { answer, conf }: { readonly answer: AgentAnswer; readonly conf: ConfDirReading | undefined },
): NodePlaces {
  const told = answer.kind === 'status' ? answer.places : undefined;
  const entry = conf?.active?.entries[0]?.config;
  const dir = flags.adminSocket.replace(/\/[^/]*$/, '');
  return {
    adminSocket: flags.adminSocket,
    cniSocket: told?.cniSocket ?? entry?.agentSocket ?? `${dir}/cni.sock`,
    relaySocket: told === undefined ? `${dir}/relay.sock` : told.relaySocket,
    xdsSocket: told?.xdsSocket ?? `${dir}/xds.sock`,
    xdsSocketMode: told?.xdsSocketMode ?? 0o600,
    recordDir: flags.recordDir ?? told?.recordDir ?? DEFAULT_RECORD_DIR,
    pinDir: flags.pinDir ?? told?.pinDir ?? entry?.pinDir ?? DEFAULT_PIN_DIR,
    deleteQueueDir: flags.deleteQueueDir ?? told?.deleteQueueDir ?? entry?.deleteQueueDir ?? DEFAULT_DELETE_QUEUE_DIR,
    meshDns: told?.meshDns ?? [],
    meshDomain: told?.meshDomain ?? DEFAULT_MESH_DOMAIN,
  };
}

/** One step that failed, as a finding. */
export function notSeen(what: string, error: unknown): readonly Finding[] {
  const list = new FindingList('tool');
  list.fail(what, {
    message: `could not be looked at: ${messageOf(error)}`,
    remedy: 'mend what this says, then check again',
  });
  return list.all;
}
