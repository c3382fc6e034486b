// What `check` needs of the world besides the agent's own findings: the agent as the tool reaches it, and the host.
import type { ConfFile } from '../cni/conf-list.ts';
import type { Finding } from '../core/finding.ts';
import type { ContainerId } from '../core/identifiers.ts';
import type { SocketAddress } from '../core/socket-address.ts';
import type { PodRecord } from '../mesh/workload.ts';
import type { Namespaces, RuleReader } from '../plugin/deps.ts';

/** Where the agent keeps what; absolute paths. */
export interface NodePlaces {
  readonly adminSocket: string;
  readonly cniSocket: string;
  /** Undefined: not served. */
  readonly relaySocket: string | undefined;
  readonly xdsSocket: string;
  readonly xdsSocketMode: number;
  readonly recordDir: string;
  readonly pinDir: string;
  readonly deleteQueueDir: string;
  readonly meshDns: readonly SocketAddress[];
  readonly meshDomain: string;
}

/** `away`: nothing can be asked, with the reason. */
export type AgentAnswer =
  | {
      readonly kind: 'status';
      readonly version: string;
      readonly nodeName: string;
      readonly startedAt: Date | undefined;
      readonly ready: boolean;
      readonly problems: readonly string[];
      readonly podCount: number;
      readonly serviceCount: number;
      /** Undefined: an agent from before it told. */
      readonly places: NodePlaces | undefined;
    }
  | { readonly kind: 'away'; readonly reason: string };

/** `unsupported`: the agent is older than its Check. */
export type AgentFindings =
  | { readonly kind: 'findings'; readonly findings: readonly Finding[] }
  | { readonly kind: 'unsupported' }
  | { readonly kind: 'failed'; readonly reason: string };

/** The agent over admin.sock. No method rejects. */
export interface ToolAgent {
  status(): Promise<AgentAnswer>;
  check(subject: string): Promise<AgentFindings>;
  /** Undefined: it cannot be asked. */
  listRecords(): Promise<readonly PodRecord[] | undefined>;
}

export interface SocketFacts {
  readonly kind: 'absent' | 'other' | 'socket';
  /** Permission bits. */
  readonly mode: number;
  readonly uid: number;
  /** Somebody accepts connections. */
  readonly isAnswered: boolean;
}

export interface EnvoyProcess {
  readonly pid: number;
  /** Soft RLIMIT_NOFILE. */
  readonly openFileLimit: number | undefined;
  readonly workers: number;
}

export interface PinDirFacts {
  readonly isThere: boolean;
  readonly mode: number;
  /** The mount that it lies on. */
  readonly mountPoint: string;
  readonly isMount: boolean;
  /** Mounts made on it arrive in other mount namespaces. */
  readonly isShared: boolean;
  readonly containerIds: readonly ContainerId[];
}

export interface FileFacts {
  readonly isThere: boolean;
  readonly isExecutable: boolean;
  readonly sizeBytes: number;
}

export interface StoredRecords {
  readonly records: readonly PodRecord[];
  readonly broken: readonly { readonly file: string; readonly reason: string }[];
}

/** The host as root's own process sees it. Any method may reject; what is not there is no error. */
export interface HostProbe {
  readonly uid: number;
  /** `6.1.0-18-amd64` */
  readonly kernelRelease: string;
  /** A sentence for each thing that the kernel lacks. */
  probeKernel(): Promise<readonly string[]>;
  readSocket(path: string): Promise<SocketFacts>;
  /** Those that are told of this xDS socket; all where that cannot be known. */
  listEnvoys(xdsSocket: string): Promise<readonly EnvoyProcess[]>;
  readPinDir(path: string): Promise<PinDirFacts>;
  /** Undefined: no such directory. */
  readConfFiles(dir: string): Promise<readonly ConfFile[] | undefined>;
  readFile(path: string): Promise<FileFacts>;
  readRecords(dir: string): Promise<StoredRecords>;
  /** When each waiting removal was written. */
  listRemovals(dir: string): Promise<readonly Date[]>;
  /** Whether a query for the name is answered at all. */
  queryDns(address: SocketAddress, name: string): Promise<boolean>;
  now(): Date;
}

/** The kernel of pods. */
export interface PodKernel {
  readonly namespaces: Pick<Namespaces, 'assertUsable'>;
  readonly rules: RuleReader;
}
