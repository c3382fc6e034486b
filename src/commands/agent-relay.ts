// The plugin inside the agent: what the relay hands over is answered by the same code as in the full file, with the agent
// itself in place of its sockets, and namespaces opened as the caller of the relay sees them.
import { holdPin } from '../adapters/kernel/hold-pin.ts';
import { CallLogs } from '../adapters/log/call-logs.ts';
import type { CallView, OpenView } from '../adapters/relay/relay-connection.ts';
import type { ListenRelay } from '../adapters/relay/relay-listener.ts';
import { createRelayServer, type RelayServer } from '../adapters/relay/relay-server.ts';
import { attachmentBook } from '../adapters/store/attachment-book.ts';
import { deleteQueue } from '../adapters/store/delete-queue.ts';
import { listPins } from '../adapters/store/list-pins.ts';
import type { NetConfig } from '../cni/net-config.ts';
import { AgentError } from '../core/errors.ts';
import type { NetnsPath } from '../core/identifiers.ts';
import type { Log } from '../core/log.ts';
import type {
  AgentAdmin,
  Namespaces,
  NodeDeps,
  PodService,
  RuleProgrammer,
  RuleReader,
  Threshold,
} from '../plugin/deps.ts';
import { answerCall } from '../plugin/dispatch.ts';

/** What only a real kernel has. */
export interface RelayKernel {
  readonly rules: RuleProgrammer & RuleReader;
  readonly threshold: Threshold;
  readonly listen: ListenRelay;
  /** Paths as that process sees them. Throws where it has ended. */
  readonly openPeerView: (peer: { readonly fd: number; readonly pid: number }) => CallView;
  readonly probeKernel: NodeDeps['probeKernel'];
}

export interface AgentRelayOptions extends RelayKernel {
  readonly socketPath: string;
  readonly namespaces: Namespaces;
  readonly pods: PodService;
  readonly admin: AgentAdmin;
  readonly log: Log;
  /** Called at every call but STATUS. */
  readonly onWork?: () => void;
}

/** Listens. Throws StoreError. */
export function openAgentRelay(options: AgentRelayOptions): Promise<RelayServer> {
  const { socketPath, listen, probeKernel, log } = options;
  const deps: NodeDeps = {
    pods: options.pods,
    admin: options.admin,
    namespaces: options.namespaces,
    rules: options.rules,
    threshold: options.threshold,
    attachments: attachmentBook,
    deleteQueue,
    log,
    holdPin,
    listPins,
    probeKernel,
  };
  const logs = new CallLogs({ log });
  return createRelayServer({
    socketPath,
    mode: 0o600,
    listen,
    openView: viewOpener(options),
    log,
    handle: (call) => {
      const { env, stdin, view } = call;
      // That one is asked every few seconds of an idle node, too.
      if (env['CNI_COMMAND'] !== 'STATUS') options.onWork?.();
      const seen = view === undefined ? deps : withView(deps, env['CNI_NETNS'] ?? '', view);
      const open = async (config: NetConfig): Promise<NodeDeps> => ({ ...seen, log: logs.open(config) });
      return answerCall({ env, readStdin: () => stdin, signal: call }, open);
    },
  });
}

function viewOpener({ openPeerView }: RelayKernel): OpenView {
  return ({ env, peer: { pid }, socketFd }) => {
    if (!env['CNI_NETNS']) return undefined;
    // A process of another pid namespace has no number here, and its files cannot be found (hostPID is missing).
    if (pid === 0)
      throw new AgentError('failed', "looking at the caller's files: its process cannot be seen from here");
    return openPeerView({ fd: socketFd, pid });
  };
}

// Only the runtime's own path is another's; pins and whatever else there is are our own.
function withView(deps: NodeDeps, given: string, view: CallView): NodeDeps {
  const seen = view.resolve(given) as NetnsPath;
  const own = given as NetnsPath;
  const see = (path: NetnsPath): NetnsPath => (path === own ? seen : path);
  const { namespaces, rules, threshold } = deps;
  return {
    ...deps,
    namespaces: {
      assertUsable: (path) => namespaces.assertUsable(see(path)),
      identify: (path) => namespaces.identify(see(path)),
      pin: (path, options) => namespaces.pin(see(path), options),
      unpin: (options) => namespaces.unpin(options),
    },
    rules: {
      replaceTable: (path, table, options) => rules.replaceTable(see(path), table, options),
      destroyTable: (path, name, options) => rules.destroyTable(see(path), name, options),
      readTable: (path, planned) => rules.readTable(see(path), planned),
    },
    ...(threshold === undefined
      ? {}
      : {
          threshold: {
            enter: (path, options) => threshold.enter(see(path), options),
            leave: (paths, options) => threshold.leave(paths.map(see), options),
          },
        }),
  };
}
