// A node for the plugin's use cases: namespaces, pins, rules, agent, queue and notes as plain maps, with the validation of
// the real ones. Every effect is counted and can be made to fail; what is left afterwards can be compared.
import { podRequestFromMessage, podRequestToMessage } from '../../src/adapters/grpc/proto-pod.ts';
import { parseAgentPod, recordOfRequest } from '../../src/agent/agent-pod.ts';
import { AgentError, NetnsError } from '../../src/core/errors.ts';
import { type ContainerId, type NetnsPath, parseNetnsPath } from '../../src/core/identifiers.ts';
import { formatProblems } from '../../src/core/problems.ts';
import type { PodRecord } from '../../src/mesh/workload.ts';
import type { KernelTable } from '../../src/nft/kernel-table.ts';
import type { Table } from '../../src/nft/model.ts';
import { formatTableBody } from '../../src/nft/text.ts';
import type { AttachmentNote, NodeDeps, PodRequest, ProxyReady, RecordAnswer } from '../../src/plugin/deps.ts';
import { reportTable } from './kernel-report.ts';
import { RecordingLog } from './recording-log.ts';

/** The effects that can fail, by name. */
export type Effect =
  | 'assertUsable'
  | 'claim'
  | 'pin'
  | 'addPod'
  | 'replaceTable'
  | 'destroyTable'
  | 'removePod'
  | 'unpin'
  | 'release'
  | 'find'
  | 'enqueue'
  | 'collect';

const FACTS = {
  nodeName: 'node-1',
  clusterName: 'local',
  region: '',
  zone: '',
  hostIp: '10.0.0.1',
  trustDomain: 'aether.internal',
  redirectAllDefault: false,
};

export class FakePluginNode {
  readonly calls: string[] = [];
  readonly failures = new Map<Effect, unknown>();
  readonly log = new RecordingLog();
  readonly namespaces = new Set<string>(['/run/netns/a', '/run/netns/b']);
  /** Pin path by container id, and the namespace behind it. */
  readonly pins = new Map<string, string>();
  /** `<namespace> <table>` -> text. */
  readonly tables = new Map<string, string>();
  readonly records = new Map<string, PodRecord>();
  readonly requests: (PodRequest & { readonly timeoutMs: number; readonly proxyReady: ProxyReady })[] = [];
  readonly queue = new Map<string, string>();
  /** By container id: until when the agent is to leave the pin. */
  readonly unpinTimes = new Map<string, Date>();
  /** The runtime's path in an entry of the queue, by container id. */
  readonly queuedPaths = new Map<string, string>();
  readonly notes = new Map<string, AttachmentNote>();
  readonly collected: string[][] = [];
  warnings: readonly string[] = [];
  status: { readonly ready: boolean; readonly problems: readonly string[] } = { ready: true, problems: [] };
  /** Of every record. */
  problems: readonly string[] = [];
  tableDifferences: readonly string[] = [];
  hasAdmin = true;
  missingModules: readonly string[] = [];
  /** What stands behind `tables`; may be changed by a test. */
  readonly kernel = new Map<string, KernelTable>();

  /** Everything that is left, for comparison. */
  get state(): Readonly<Record<string, readonly string[]>> {
    return {
      pins: [...this.pins.keys()],
      tables: [...this.tables.keys()],
      records: [...this.records.keys()],
      queue: [...this.queue.keys()],
      notes: [...this.notes.keys()],
    };
  }

  deps: NodeDeps = {
    log: this.log,
    namespaces: {
      assertUsable: async (path) => this.#effect('assertUsable', () => void this.#resolve(path)),
      identify: async (path) => {
        const real = this.pins.get(path) ?? path;
        return this.namespaces.has(real) ? real : undefined;
      },
      pin: async (path, { pinDir, containerId }) =>
        this.#effect('pin', () => {
          this.pins.set(`${pinDir}/${containerId}`, this.#resolve(path));
          return checkedPath(`${pinDir}/${containerId}`);
        }),
      unpin: async ({ pinDir, containerId }) =>
        this.#effect('unpin', () => void this.pins.delete(`${pinDir}/${containerId}`)),
    },
    rules: {
      replaceTable: async (netns, table) =>
        this.#effect('replaceTable', () => {
          const key = this.#tableKey(netns, table.name);
          this.tables.set(key, formatTableBody(table));
          this.kernel.set(key, reportTable(table));
        }),
      destroyTable: async (netns, name) =>
        this.#effect('destroyTable', () => {
          const key = this.#tableKey(netns, name);
          this.tables.delete(key);
          this.kernel.delete(key);
        }),
      readTable: async (netns: NetnsPath, planned: Table) => this.kernel.get(this.#tableKey(netns, planned.name)),
    },
    pods: {
      addPod: async (pod, { enter, ...options }) => {
        await enter?.([]);
        return this.#effect('addPod', () => {
          const request = podRequestFromMessage(podRequestToMessage(pod));
          const { rules: _rules, ...others } = options;
          this.requests.push({ ...request, ...others });
          const record = recordOfRequest(request);
          if (record === undefined) return { kind: 'ignored' as const };
          const parsed = parseAgentPod(record, FACTS);
          if (parsed.kind === 'problems') {
            throw new AgentError('rejected', `adding the pod: ${formatProblems(parsed.problems)}`);
          }
          this.records.set(pod.containerId, record);
          return { kind: 'success' as const, warnings: this.warnings };
        });
      },
      removePod: async ({ containerId, name, namespace }) =>
        this.#effect('removePod', () => {
          if (name === '' || namespace === '') throw new AgentError('rejected', 'removing the pod: empty field');
          this.records.delete(containerId);
        }),
    },
    deleteQueue: {
      enqueue: async ({ dir, containerId, name, namespace, unpinNotBefore, netns }) =>
        this.#effect('enqueue', () => {
          if (this.queue.has(`${dir}/${containerId}`)) return;
          this.queue.set(`${dir}/${containerId}`, `${namespace}/${name}`);
          if (netns !== undefined) this.queuedPaths.set(containerId, netns);
          if (unpinNotBefore !== undefined) this.unpinTimes.set(containerId, unpinNotBefore);
        }),
    },
    attachments: {
      claim: async (_dir, note) =>
        this.#effect('claim', () => {
          const standing = this.notes.get(note.containerId) ?? note;
          this.notes.set(note.containerId, standing);
          return standing;
        }),
      find: async (_dir, containerId) => this.#effect('find', () => this.notes.get(containerId)),
      list: async () => [...this.notes.values()],
      release: async (_dir, containerId) => this.#effect('release', () => void this.notes.delete(containerId)),
    },
    admin: {
      status: async () => this.status,
      findRecord: async (containerId): Promise<RecordAnswer> => {
        if (!this.hasAdmin) return { kind: 'unknowable' };
        const record = this.records.get(containerId);
        const { problems, tableDifferences } = this;
        return record === undefined ? { kind: 'none' } : { kind: 'record', record, problems, tableDifferences };
      },
      collect: async ({ attachments }) =>
        this.#effect('collect', () => {
          this.collected.push(attachments.map(({ containerId }) => containerId));
          return this.hasAdmin;
        }),
    },
    holdPin: async ({ pinDir, containerId }) => {
      const path = `${pinDir}/${containerId}`;
      const real = this.pins.get(path);
      if (real === undefined) return undefined;
      return { netns: checkedPath(real), isReplaced: () => this.pins.get(path) !== real, [Symbol.dispose]() {} };
    },
    listPins: async () => [...this.pins.keys()].map((path) => path.slice(path.lastIndexOf('/') + 1) as ContainerId),
    probeKernel: async () => this.missingModules,
  };

  // Whether a failing effect has done its work before is the caller's to survive: here it has not.
  #effect<T>(name: Effect, work: () => T): T {
    this.calls.push(name);
    if (this.failures.has(name)) throw this.failures.get(name);
    return work();
  }

  #resolve(path: string): string {
    const real = this.pins.get(path) ?? path;
    if (path === '/proc/1/ns/net') throw new NetnsError('forbidden', path, `work in "${path}": it is the host's`);
    if (!this.namespaces.has(real)) throw new NetnsError('missing', path, `work in "${path}": it does not exist`);
    return real;
  }

  #tableKey(netns: string, table: string): string {
    return `${this.#resolve(netns)} ${table}`;
  }
}

function checkedPath(text: string): NetnsPath {
  const path = parseNetnsPath(text);
  if (typeof path === 'object') throw new TypeError(path.problem);
  return path;
}
