// The plugin inside the agent: what the relay hands over is answered by the same code as in the full file, with the agent
// itself in place of its sockets.
import type { PeerCredentials } from '../adapters/relay/relay-connection.ts';
import { createRelayServer, type RelayServer } from '../adapters/relay/relay-server.ts';
import { attachmentBook, listContainerIds } from '../adapters/store/attachment-book.ts';
import { deleteQueue } from '../adapters/store/delete-queue.ts';
import type { Log } from '../core/log.ts';
import type { AgentAdmin, Namespaces, NodeDeps, PodService, RuleProgrammer, RuleReader } from '../plugin/deps.ts';
import { answerCall } from '../plugin/dispatch.ts';

/** What only a real kernel has. */
export interface RelayKernel {
  readonly rules: RuleProgrammer & RuleReader;
  /** SO_PEERCRED of a connected socket. */
  readonly peerCredentials: (fd: number) => PeerCredentials;
  readonly probeKernel: NodeDeps['probeKernel'];
}

export interface AgentRelayOptions extends RelayKernel {
  readonly socketPath: string;
  readonly namespaces: Namespaces;
  readonly pods: PodService;
  readonly admin: AgentAdmin;
  readonly log: Log;
}

/** Listens. Throws StoreError. */
export function openAgentRelay(options: AgentRelayOptions): Promise<RelayServer> {
  const { socketPath, peerCredentials, probeKernel, log } = options;
  const deps: NodeDeps = {
    pods: options.pods,
    admin: options.admin,
    namespaces: options.namespaces,
    rules: options.rules,
    attachments: attachmentBook,
    deleteQueue,
    log,
    listPins: listContainerIds,
    probeKernel,
  };
  return createRelayServer({
    socketPath,
    mode: 0o600,
    peerCredentials,
    log,
    handle: ({ env, stdin, signal }) => answerCall({ env, readStdin: async () => stdin, signal }, async () => deps),
  });
}
