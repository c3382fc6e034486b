// The node agent of the lab: the real executable with every path and address in the lab's own directory.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { HOST_IP } from './network.ts';
import { EXECUTABLE } from './places.ts';
import { type LabProcess, startProcess, waitUntil } from './processes.ts';

/** Where everything of the agent lies. */
export interface AgentPlaces {
  readonly cniSocket: string;
  readonly relaySocket: string;
  readonly xdsSocket: string;
  readonly adminSocket: string;
  readonly healthSocket: string;
  readonly recordDir: string;
  readonly pinDir: string;
  readonly caDir: string;
  readonly deleteQueueDir: string;
}

export function agentPlaces(dir: string): AgentPlaces {
  return {
    cniSocket: join(dir, 'run/cni.sock'),
    relaySocket: join(dir, 'run/relay.sock'),
    xdsSocket: join(dir, 'run/xds.sock'),
    adminSocket: join(dir, 'run/admin.sock'),
    healthSocket: join(dir, 'run/health.sock'),
    recordDir: join(dir, 'lib/registry'),
    pinDir: join(dir, 'run/netns'),
    caDir: join(dir, 'lib/ca'),
    deleteQueueDir: join(dir, 'lib/delete-queue'),
  };
}

/** Starts the agent in this namespace and waits for its sockets. `more` are further flags. */
export async function startAgent(options: {
  readonly dir: string;
  readonly nodeName: string;
  readonly places: AgentPlaces;
  readonly more?: readonly string[];
  /** In place of the executable: another way to start the same program. */
  readonly program?: readonly [string, ...string[]];
  /** Added to ours. */
  readonly env?: Readonly<Record<string, string>>;
}): Promise<LabProcess> {
  const { places } = options;
  const program: readonly [string, ...string[]] = options.program ?? [EXECUTABLE];
  const agent = startProcess({
    name: 'agent',
    command: [...program, 'agent', ...flags(places), '--node-name', options.nodeName, ...(options.more ?? [])],
    logFile: join(options.dir, 'agent.log'),
    ...(options.env === undefined ? {} : { env: options.env }),
  });
  const sockets = [places.cniSocket, places.xdsSocket, places.adminSocket];
  await waitUntil("the agent's sockets", () => sockets.every((path) => existsSync(path)), {
    timeoutMs: 30_000,
    process: agent,
  });
  return agent;
}

function flags(places: AgentPlaces): readonly string[] {
  return [
    ...['--cni-socket', places.cniSocket],
    ...['--relay-socket', places.relaySocket],
    ...['--xds-socket', places.xdsSocket],
    ...['--admin-socket', places.adminSocket],
    ...['--health-socket', places.healthSocket],
    ...['--record-dir', places.recordDir],
    ...['--netns-pin-dir', places.pinDir],
    ...['--ca-dir', places.caDir],
    ...['--delete-queue-dir', places.deleteQueueDir],
    ...['--host-ip', HOST_IP],
  ];
}
