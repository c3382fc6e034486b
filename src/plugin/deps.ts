// What one CNI call needs of the world. Adapters implement these; tests pass their own that share the validation.
import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import type { Log } from '../core/log.ts';
import type { PodRecord } from '../mesh/workload.ts';
import type { KernelTable } from '../nft/kernel-table.ts';
import type { Table } from '../nft/model.ts';

/** How ADD waits for the proxy: `wait` warns on time-out, `require` fails, `skip` does not wait. */
export type ProxyReady = 'wait' | 'require' | 'skip';

/** A pod as the plugin tells the agent (aether.cni.v1.CNIPod). */
export interface PodRequest {
  readonly name: string;
  readonly namespace: string;
  readonly containerId: ContainerId;
  /** The pin where one was made, else the runtime's path. */
  readonly networkNamespace: string;
  readonly ips: readonly string[];
  /** All pod annotations, with the effective capture mode and exclusions. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly uid: string;
}

/** `ignored`: the pod is not managed. Warnings are sentences for stderr. `hasRules`: the plugin's table is in place, too. */
export type AddPodAnswer =
  | { readonly kind: 'success'; readonly warnings: readonly string[]; readonly hasRules?: boolean }
  | { readonly kind: 'ignored' };

/** The agent: over gRPC from the full file, in-process inside the agent. */
export interface PodService {
  /**
   * Throws AgentError: `unavailable` (away or out of time; AgentAbsentError: it never got the request), `rejected` (the pod
   * is wrong), `failed`.
   */
  addPod(pod: PodRequest, options: AddPodOptions): Promise<AddPodAnswer>;
  /**
   * Succeeds for a pod that is unknown. Throws AgentError. `takeRules` removes the agent's table with the caller's own: called
   * once, when nobody is sent to the pod any more, beside what else there is to do. It never rejects.
   */
  removePod(
    pod: { readonly name: string; readonly namespace: string; readonly containerId: ContainerId },
    options: { readonly timeoutMs: number; readonly takeRules?: (() => Promise<void>) | undefined },
  ): Promise<void>;
}

/** `hasRules`: the tables are in place, `isSettled`: and no connection was there before them. `identity`: see Namespaces.identify. */
export interface Entered {
  readonly identity: string | undefined;
  readonly hasRules: boolean;
  readonly isSettled: boolean;
}

export interface AddPodOptions {
  readonly timeoutMs: number;
  readonly proxyReady: ProxyReady;
  /**
   * To be called before the namespace is touched, once, after all that needs none of it. Puts the tables in place, too, where there
   * are none of ours yet; those of `hasRules` must not be left behind by whoever fails afterwards. Throws what the ADD answers.
   */
  readonly enter?: (tables: readonly Table[]) => Promise<Entered>;
  /**
   * The plugin's table, from who has looked at the namespace. Whoever can puts it in place with the agent's own, in one transaction, where that succeeds; after a
   * failure nothing of it is left.
   */
  readonly rules?: Table;
}

/** Network namespaces by path, and their pins. The calling thread never changes namespace. */
export interface Namespaces {
  /** Throws NetnsError: `missing`, `not-a-namespace`, `forbidden` (the host's or this process's own). */
  assertUsable(path: NetnsPath): Promise<void>;
  /** The same text for each path to one namespace, as long as it lives. Undefined: there is none that can be used. Never throws. */
  identify(path: NetnsPath): Promise<string | undefined>;
  /**
   * Bind-mounts the namespace at `<pinDir>/<container id>` (made root-only), replacing an older pin of that id.
   * Returns the pin's path. Throws NetnsError or KernelError.
   */
  pin(path: NetnsPath, options: { readonly pinDir: string; readonly containerId: ContainerId }): Promise<NetnsPath>;
  /** Unmounts and removes a pin; fine when there is none. Throws KernelError. */
  unpin(options: { readonly pinDir: string; readonly containerId: ContainerId }): Promise<void>;
}

/** The namespace that a pin led to when it was taken hold of. */
export interface HeldPin extends Disposable {
  /** Leads there until this is disposed, in this process alone. */
  readonly netns: NetnsPath;
  /** Whether the pin leads elsewhere, or nowhere, by now. */
  isReplaced(): boolean;
}

/**
 * `settleFlows`, for the plugin's own table: connections that are under way and that the change would treat otherwise follow
 * it, unless they are established TCP. Costs nothing where no connection is tracked, as in the namespace of a new pod.
 */
export interface FlowOptions {
  readonly settleFlows?: boolean;
}

export interface ReplaceOptions extends FlowOptions {
  /** Nothing of it is expected to be there: tried first without removing, which costs the kernel less. */
  readonly isNew?: boolean;
}

/** Tables of a namespace. One transaction each; nobody waits for the kernel's grace period. */
export interface RuleProgrammer {
  /** Replaces the whole table, whatever stood there before. Throws KernelError, NetnsError. */
  replaceTable(netns: NetnsPath, table: Table, options?: ReplaceOptions): Promise<void>;
  /** Removes the table; fine when it is absent. Throws KernelError, NetnsError. */
  destroyTable(netns: NetnsPath, name: string, options?: FlowOptions): Promise<void>;
}

/** Removals that wait on disk for the agent. */
export interface DeleteQueue {
  /**
   * `notBefore`: the removal is not due earlier. `unpinNotBefore`: it is, but the pin stays until then. `netns`: where an agent
   * that was busy may still have put its table. Fine when the id is queued already. Throws StoreError.
   */
  enqueue(entry: {
    readonly dir: string;
    readonly containerId: ContainerId;
    readonly name: string;
    readonly namespace: string;
    readonly notBefore?: Date;
    readonly unpinNotBefore?: Date;
    readonly netns?: NetnsPath;
  }): Promise<void>;
}

/** Which interface of a container was taken into the mesh: a namespace has one set of rules, so a second is refused. */
export interface AttachmentNote {
  readonly containerId: ContainerId;
  readonly ifname: string;
  /** Name of the CNI network; '' in a list: the note is there, but a crash kept it from being written. */
  readonly network: string;
  /** The runtime's path, where there is no pin. */
  readonly netns?: NetnsPath;
}

/** The notes of this node, one a container, gone at a reboot. All throw StoreError. */
export interface AttachmentBook {
  /** Writes the note unless the container has one; returns the one that stands: `note` itself where it is new. */
  claim(dir: string, note: AttachmentNote): Promise<AttachmentNote>;
  /** Undefined: there is none, or it cannot be read. */
  find(dir: string, containerId: ContainerId): Promise<AttachmentNote | undefined>;
  /** Files that are no notes are left out; no directory is an empty list. */
  list(dir: string): Promise<readonly AttachmentNote[]>;
  /** Fine when there is none. */
  release(dir: string, containerId: ContainerId): Promise<void>;
}

/** `plain`: elements of sets without intervals are neither read nor compared; there may be many. */
export interface ReadOptions {
  readonly ignoreElements?: 'plain';
}

/** The rules of a namespace as the kernel has them. */
export interface RuleReader {
  /** With the elements of the plan's sets; undefined: no such table. Throws KernelError, NetnsError. */
  readTable(netns: NetnsPath, planned: Table): Promise<KernelTable | undefined>;
}

/** `problems`: a sentence each; not ready, or ready in part only. */
export interface AgentStatus {
  readonly ready: boolean;
  readonly problems: readonly string[];
}

/**
 * What the agent has about one container. `problems`: what is not as it should be for now, a sentence each;
 * `tableDifferences`: between its own table in the pod and the plan. `unknowable`: this agent has no way to ask (the Go mesh's).
 */
export type RecordAnswer =
  | {
      readonly kind: 'record';
      readonly record: PodRecord;
      readonly problems: readonly string[];
      readonly tableDifferences: readonly string[];
    }
  | { readonly kind: 'none' }
  | { readonly kind: 'unknowable' };

/** The agent as STATUS, CHECK and GC ask it: over admin.sock from the full file, in-process inside the agent. */
export interface AgentAdmin {
  /** Throws AgentError. */
  status(options: { readonly timeoutMs: number }): Promise<AgentStatus>;
  /** Throws AgentError. */
  findRecord(containerId: ContainerId, options: { readonly timeoutMs: number }): Promise<RecordAnswer>;
  /** Removes pins, records and registrations of all containers but these. False: this agent cannot. Throws AgentError. */
  collect(
    valid: { readonly network: string; readonly attachments: readonly { containerId: string; ifname: string }[] },
    options: { readonly timeoutMs: number },
  ): Promise<boolean>;
}

/**
 * Several steps of ADD and DEL as one, which spares the ways between this program's threads; where there is none, or it
 * cannot be at one stroke, the steps are taken one by one.
 */
export interface Threshold {
  /**
   * What Namespaces.assertUsable, AttachmentBook.claim and Namespaces.pin do (`pinDir` undefined: no pin), then creates the
   * tables, all or none; or nothing. Throws as those do. Undefined: nothing was done, there is a note already.
   */
  enter(
    netns: NetnsPath,
    options: {
      readonly noteDir: string;
      readonly note: AttachmentNote;
      readonly pinDir: string | undefined;
      readonly tables: readonly Table[];
    },
  ): Promise<Entered | undefined>;
  /**
   * Destroys the tables with settled flows by the first path that leads to a namespace (none does: none are left), unpins,
   * releases. False: it did not get to the end, and whatever it did can be done once more. Never throws.
   */
  leave(
    netns: readonly NetnsPath[],
    options: {
      readonly tables: readonly string[];
      readonly noteDir: string;
      readonly pinDir: string;
      readonly containerId: ContainerId;
    },
  ): Promise<boolean>;
}

/** What ADD and DEL need. */
export interface PluginDeps {
  readonly threshold?: Threshold;
  readonly pods: PodService;
  readonly namespaces: Namespaces;
  readonly rules: RuleProgrammer;
  readonly deleteQueue: DeleteQueue;
  readonly attachments: AttachmentBook;
  readonly log: Log;
  /** Container ids of all pins in the directory; no directory is an empty list. Throws StoreError. */
  listPins(pinDir: string): Promise<readonly ContainerId[]>;
  /** Undefined: there is no pin. */
  holdPin(options: { readonly pinDir: string; readonly containerId: ContainerId }): Promise<HeldPin | undefined>;
}

/** What CHECK, GC and STATUS need besides. */
export interface NodeDeps extends PluginDeps {
  readonly rules: RuleProgrammer & RuleReader;
  readonly admin: AgentAdmin;
  /** Asks the kernel whether it takes the rules: a sentence for each thing that it does not. Throws NativeError. */
  probeKernel(): Promise<readonly string[]>;
}
