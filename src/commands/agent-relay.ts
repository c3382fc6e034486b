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
      return answerCall({ env, readStdin: () => stdin, signal: call }, (config, about) => {
        const opened = { ...deps, log: logs.open(config, about) };
        if (view === undefined) return opened;
        const seen = new NodeInView(options, { own: env['CNI_NETNS'] ?? '', view });
        return { ...opened, namespaces: seen, rules: seen, threshold: seen };
      });
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
class NodeInView implements Namespaces, RuleProgrammer, RuleReader, Threshold {
  readonly #node: AgentRelayOptions;
  readonly #own: string;
  readonly #seen: NetnsPath;

  constructor(node: AgentRelayOptions, { own, view }: { readonly own: string; readonly view: CallView }) {
    this.#node = node;
    this.#own = own;
    this.#seen = view.resolve(own) as NetnsPath;
  }

  assertUsable(path: NetnsPath): ReturnType<Namespaces['assertUsable']> {
    return this.#node.namespaces.assertUsable(this.#see(path));
  }

  identify(path: NetnsPath): ReturnType<Namespaces['identify']> {
    return this.#node.namespaces.identify(this.#see(path));
  }

  pin(...[path, options]: Parameters<Namespaces['pin']>): ReturnType<Namespaces['pin']> {
    return this.#node.namespaces.pin(this.#see(path), options);
  }

  unpin(...[options]: Parameters<Namespaces['unpin']>): ReturnType<Namespaces['unpin']> {
    return this.#node.namespaces.unpin(options);
  }

  replaceTable(...[path, table, options]: Parameters<RuleProgrammer['replaceTable']>): Promise<void> {
    return this.#node.rules.replaceTable(this.#see(path), table, options);
  }

  destroyTable(...[path, name, options]: Parameters<RuleProgrammer['destroyTable']>): Promise<void> {
    return this.#node.rules.destroyTable(this.#see(path), name, options);
  }

  readTable(...[path, planned]: Parameters<RuleReader['readTable']>): ReturnType<RuleReader['readTable']> {
    return this.#node.rules.readTable(this.#see(path), planned);
  }

  enter(...[path, options]: Parameters<Threshold['enter']>): ReturnType<Threshold['enter']> {
    return this.#node.threshold.enter(this.#see(path), options);
  }

  leave(...[paths, options]: Parameters<Threshold['leave']>): ReturnType<Threshold['leave']> {
    return this.#node.threshold.leave(
      paths.map((path) => this.#see(path)),
      options,
    );
  }

  #see(path: NetnsPath): NetnsPath {
    return path === this.#own ? this.#seen : path;
  }
}
