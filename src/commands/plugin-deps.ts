// What one CNI call of the full file works with: everything real, and everything loaded at its first use, because a call
// that passes through needs none of it.
import type { NetConfig } from '../cni/net-config.ts';
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import type { AgentAdmin, NodeDeps, PodService } from '../plugin/deps.ts';

export interface PluginDepsOptions {
  /** Told a sentence for stderr. */
  readonly note: (sentence: string) => void;
}

/** Throws only where a module of this program cannot be loaded. */
export async function openPluginDeps(config: NetConfig, { note }: PluginDepsOptions): Promise<NodeDeps> {
  const { attachmentBook } = await import('../adapters/store/attachment-book.ts');
  const { deleteQueue } = await import('../adapters/store/delete-queue.ts');
  return {
    pods: lazyPods(config),
    admin: lazyAdmin(config),
    ...lazyKernel(),
    attachments: attachmentBook,
    deleteQueue,
    log: await openLog(config, note),
    holdPin: async (options) => (await import('../adapters/kernel/hold-pin.ts')).holdPin(options),
    listPins: async (pinDir) => (await import('../adapters/store/list-pins.ts')).listPins(pinDir),
  };
}

async function openLog({ logFile, logLevel }: NetConfig, note: (sentence: string) => void): Promise<Log> {
  try {
    const { openPluginLog } = await import('../adapters/log/plugin-log.ts');
    return openPluginLog({ file: logFile, level: logLevel, note });
  } catch (error) {
    note(`no log is written: ${messageOf(error)}`);
    return SILENT;
  }
}

const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => SILENT };

function lazyPods({ agentSocket: socketPath }: NetConfig): PodService {
  const open = once(async () => (await import('../adapters/grpc/cni-client.ts')).createCniClient({ socketPath }));
  return {
    addPod: async (pod, options) => (await open()).addPod(pod, options),
    removePod: async (pod, options) => (await open()).removePod(pod, options),
  };
}

function lazyAdmin({ adminSocket, agentSocket }: NetConfig): AgentAdmin {
  const open = once(async () => {
    const { createAdminClient } = await import('../adapters/grpc/admin-client.ts');
    return createAdminClient({ adminSocket, agentSocket });
  });
  return {
    status: async (options) => (await open()).status(options),
    findRecord: async (containerId, options) => (await open()).findRecord(containerId, options),
    collect: async (valid, options) => (await open()).collect(valid, options),
  };
}

type Kernel = Pick<NodeDeps, 'namespaces' | 'rules' | 'probeKernel'>;

function lazyKernel(): Kernel {
  const open = once(loadKernel);
  return {
    namespaces: {
      assertUsable: async (path) => (await open()).namespaces.assertUsable(path),
      // Without libraries there is nothing to be done to a namespace, but a DEL goes on.
      identify: async (path) => (await open().catch(() => undefined))?.namespaces.identify(path),
      pin: async (path, options) => (await open()).namespaces.pin(path, options),
      unpin: async (options) => (await open()).namespaces.unpin(options),
    },
    rules: {
      replaceTable: async (netns, table, options) => (await open()).rules.replaceTable(netns, table, options),
      destroyTable: async (netns, name, options) => (await open()).rules.destroyTable(netns, name, options),
      readTable: async (netns, planned) => (await open()).rules.readTable(netns, planned),
    },
    probeKernel: async () => (await open()).probeKernel(),
  };
}

async function loadKernel(): Promise<Kernel> {
  const { loadFfi } = await import('../adapters/host/load-ffi.ts');
  const { locateNativeLibraries } = await import('../adapters/host/native-assets.ts');
  const { openNativeLibrary } = await import('../adapters/kernel/native-library.ts');
  const { createNamespaces } = await import('../adapters/kernel/namespaces.ts');
  const { createKernelProbe } = await import('../adapters/kernel/probe-kernel.ts');
  const { createRules } = await import('../adapters/kernel/rules.ts');
  const native = openNativeLibrary(locateNativeLibraries(), loadFfi());
  return {
    namespaces: createNamespaces(native),
    rules: createRules(native),
    probeKernel: createKernelProbe(native),
  };
}

// One load for all callers; one that failed fails them all alike.
function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () => {
    loading ??= load();
    return loading;
  };
}
