// What one CNI call needs of the world. Adapters implement these; tests pass their own that share the validation.
import type { ContainerId, NetnsPath } from '../core/identifiers.ts';
import type { Log } from '../core/log.ts';
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

/** `ignored`: the pod is not managed. Warnings are sentences for stderr. */
export type AddPodAnswer =
  | { readonly kind: 'success'; readonly warnings: readonly string[] }
  | { readonly kind: 'ignored' };

/** The agent: over gRPC from the full file, in-process inside the agent. */
export interface PodService {
  /** Throws AgentError: `unavailable` (away or out of time), `rejected` (the pod is wrong), `failed`. */
  addPod(
    pod: PodRequest,
    options: { readonly timeoutMs: number; readonly proxyReady: ProxyReady },
  ): Promise<AddPodAnswer>;
  /** Succeeds for a pod that is unknown. Throws AgentError. */
  removePod(
    pod: { readonly name: string; readonly namespace: string; readonly containerId: ContainerId },
    options: { readonly timeoutMs: number },
  ): Promise<void>;
}

/** Network namespaces by path, and their pins. The calling thread never changes namespace. */
export interface Namespaces {
  /** Throws NetnsError: `missing`, `not-a-namespace`, `forbidden` (the host's or this process's own). */
  assertUsable(path: NetnsPath): Promise<void>;
  /**
   * Bind-mounts the namespace at `<pinDir>/<container id>` (made root-only), replacing an older pin of that id.
   * Returns the pin's path. Throws NetnsError or KernelError.
   */
  pin(path: NetnsPath, options: { readonly pinDir: string; readonly containerId: ContainerId }): Promise<NetnsPath>;
  /** Unmounts and removes a pin; fine when there is none. Throws KernelError. */
  unpin(options: { readonly pinDir: string; readonly containerId: ContainerId }): Promise<void>;
}

/**
 * `settleFlows`, for the plugin's own table: connections that are under way and that the change would treat otherwise follow
 * it, unless they are established TCP. Costs nothing where no connection is tracked, as in the namespace of a new pod.
 */
export interface FlowOptions {
  readonly settleFlows?: boolean;
}

/** Tables of a namespace. One transaction each; nobody waits for the kernel's grace period. */
export interface RuleProgrammer {
  /** Replaces the whole table, whatever stood there before. Throws KernelError, NetnsError. */
  replaceTable(netns: NetnsPath, table: Table, options?: FlowOptions): Promise<void>;
  /** Removes the table; fine when it is absent. Throws KernelError, NetnsError. */
  destroyTable(netns: NetnsPath, name: string, options?: FlowOptions): Promise<void>;
}

/** Removals that wait on disk for the agent. */
export interface DeleteQueue {
  /** Fine when the id is queued already. Throws StoreError. */
  enqueue(entry: {
    readonly dir: string;
    readonly containerId: ContainerId;
    readonly name: string;
    readonly namespace: string;
  }): Promise<void>;
}

export interface PluginDeps {
  readonly pods: PodService;
  readonly namespaces: Namespaces;
  readonly rules: RuleProgrammer;
  readonly deleteQueue: DeleteQueue;
  readonly log: Log;
}
