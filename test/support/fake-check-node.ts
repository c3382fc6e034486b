// A node for `check` as the tool sees it: agent, host and kernel in memory, all in order until a test breaks one thing.
import { Buffer } from 'node:buffer';
import type { AgentAnswer, HostProbe, NodePlaces, ToolAgent } from '../../src/agent/node-check-deps.ts';
import { checkFromTool, type ToolCheck, type ToolCheckOptions } from '../../src/agent/node-check-tool.ts';
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { NetnsError } from '../../src/core/errors.ts';
import { parseContainerId } from '../../src/core/identifiers.ts';
import type { PodRecord } from '../../src/mesh/workload.ts';
import type { KernelTable } from '../../src/nft/kernel-table.ts';
import { reportTable } from './kernel-report.ts';
import { makeIp } from './services.ts';

const DNS = { address: makeIp('10.0.0.1'), port: 18054 };
const PLACES: NodePlaces = {
  ...{ adminSocket: '/r/admin.sock', cniSocket: '/r/cni.sock', relaySocket: '/r/relay.sock' },
  ...{ xdsSocket: '/r/xds.sock', xdsSocketMode: 0o600, recordDir: '/l/registry', pinDir: '/r/netns' },
  ...{ deleteQueueDir: '/l/queue', meshDns: [DNS], meshDomain: 'aether.internal' },
};
const ENTRY = {
  type: 'aether-cni',
  capabilities: { 'io.kubernetes.cri.pod-annotations': true },
  ...{ agent_cni_path: '/r/cni.sock', admin_socket: '/r/admin.sock', netns_pin_dir: '/r/netns' },
  ...{ delete_queue_dir: '/l/queue', mesh_dns_enabled: true, host_ip: '10.0.0.1' },
};
export const SCOPED: CapturePolicy = { redirectAll: false, excludePorts: [], excludeRanges: [], dns: DNS };

/** A managed pod `demo/<name>`, scoped. */
export function makeRecord(name: string, annotations: Readonly<Record<string, string>> = {}): PodRecord {
  return {
    ...{ name, namespace: 'demo', containerId: `c-${name}`, networkNamespace: `/r/netns/c-${name}` },
    ...{ ips: ['10.1.2.3'], labels: {}, serviceAccount: 'shop', terminating: false, uid: '' },
    annotations: { 'aether.io/managed': 'true', 'capture.aether.io/redirect-all': 'false', ...annotations },
  };
}

/** A node in order, with two pods; a test breaks one thing of it. */
export class FakeCheckNode {
  uid = 0;
  answer: AgentAnswer = {
    ...{ kind: 'status', version: '1', nodeName: 'node-a', startedAt: undefined, ready: true, problems: [] },
    ...{ podCount: 2, serviceCount: 1, places: PLACES },
  };
  agentFindings: Awaited<ReturnType<ToolAgent['check']>> = {
    kind: 'findings',
    findings: [
      { status: 'ok', area: 'registry', subject: 'node', message: 'answers', remedy: '' },
      { status: 'ok', area: 'proxy', subject: 'demo/web-0', message: 'Envoy has its listeners', remedy: '' },
      { status: 'ok', area: 'proxy', subject: 'demo/shop-0', message: 'Envoy has its listeners', remedy: '' },
    ],
  };
  readonly askedAbout: string[] = [];
  records: readonly PodRecord[] = [makeRecord('shop-0'), makeRecord('web-0')];
  stored: PodRecord[] = [...this.records];
  broken: { file: string; reason: string }[] = [];
  plugins: readonly object[] = [{ type: 'bridge' }, ENTRY];
  readonly gone = new Set<string>();
  /** `<netns> <table>` */
  readonly tables = new Map<string, KernelTable>();
  dnsAnswers = true;
  host: Partial<HostProbe> = {};
  readTable: ToolCheckOptions['kernel']['rules']['readTable'] = async (netns, { name }) =>
    this.tables.get(`${netns} ${name}`);

  constructor() {
    for (const { networkNamespace } of this.records) {
      this.setRules(networkNamespace, SCOPED);
      const mesh = planMeshTable(SCOPED, { tcp: [], vip: [], shim: [] });
      this.tables.set(`${networkNamespace} ${mesh.name}`, reportTable(mesh));
    }
  }

  setRules(netns: string, policy: CapturePolicy): void {
    this.tables.set(`${netns} aether`, reportTable(planPluginTable(policy)));
  }

  changeRules(netns: string, change: (table: KernelTable) => KernelTable): void {
    const table = this.tables.get(`${netns} aether`);
    if (table === undefined) throw new Error('no table');
    this.tables.set(`${netns} aether`, change(table));
  }

  check(subject = '', more: Partial<ToolCheckOptions> = {}): Promise<ToolCheck> {
    return checkFromTool({
      subject,
      places: {
        ...{ adminSocket: '/r/admin.sock', confDir: '/etc/cni/net.d', binDir: '/opt/cni/bin' },
        ...{ recordDir: undefined, pinDir: undefined, deleteQueueDir: undefined },
      },
      agent: {
        status: async () => this.answer,
        check: async (about) => {
          this.askedAbout.push(about);
          return this.agentFindings;
        },
        listRecords: async () => (this.answer.kind === 'status' ? this.records : undefined),
      },
      host: { ...this.#host(), ...this.host },
      kernel: {
        namespaces: {
          assertUsable: async (path) => {
            if (this.gone.has(path)) throw new NetnsError('missing', path, `work in "${path}": it does not exist`);
          },
        },
        rules: { readTable: (netns, planned) => this.readTable(netns, planned) },
      },
      stepMs: 300,
      podsMs: 600,
      ...more,
    });
  }

  #host(): HostProbe {
    const conf = JSON.stringify({ cniVersion: '1.0.0', name: 'pods', plugins: this.plugins });
    return {
      uid: this.uid,
      kernelRelease: '6.18.0',
      probeKernel: async () => [],
      readSocket: async () => ({ kind: 'socket', mode: 0o600, uid: 0, isAnswered: true }),
      listEnvoys: async () => [{ pid: 7, openFileLimit: 65_536, workers: 2 }],
      readPinDir: async () => ({
        ...{ isThere: true, mode: 0o700, mountPoint: '/r', isMount: false, isShared: true },
        containerIds: this.records
          .map(({ containerId }) => parseContainerId(containerId))
          .filter((id) => typeof id === 'string'),
      }),
      readConfFiles: async () => [{ name: '10-pods.conflist', bytes: Buffer.from(conf) }],
      readFile: async () => ({ isThere: true, isExecutable: true, sizeBytes: 127_000_000 }),
      readRecords: async () => ({ records: this.stored, broken: this.broken }),
      listRemovals: async () => [],
      queryDns: async () => this.dnsAnswers,
      now: () => new Date('2026-11-29T12:00:00Z'),
    };
  }
}
