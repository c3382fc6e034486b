// The room of a test file in test/runtimes: import it first. Outside it runs the test file again in a room (scripts/lab/
// sandbox.ts), whose end removes every process, mount and namespace; inside it gives the test runner and a node to work on.

import { type AgentPlaces, agentPlaces, startAgent } from '../../scripts/lab/agent.ts';
import { prepareNode } from '../../scripts/lab/network.ts';
import type { LabProcess } from '../../scripts/lab/processes.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';
import { hideHostDirs, reserveCgroup } from '../../scripts/runtimes/runtime-room.ts';

/** Of a whole file; tap's own is short for a machine that is busy. */
const TIMEOUT_MS = 180_000;

const cgroup = reserveCgroup();
const { dir } = await enterSandbox(process.argv[1] ?? '');
hideHostDirs();
prepareNode();

/** The room's directory, with a short path. */
export const ROOM_DIR: string = dir;
/** For `cgroup_parent`; removed at the end. */
export const CGROUP_PARENT: string = `/${cgroup}`;
/** Where everything of the room's agent lies. */
export const PLACES: AgentPlaces = agentPlaces(dir);
process.env['AETHER_RELAY_SOCKET'] = PLACES.relaySocket;

/** Starts the room's agent; the caller stops it. */
export function startRoomAgent(): Promise<LabProcess> {
  return startAgent({ dir, nodeName: 'runtimes-node', places: PLACES });
}

/** tap, loaded only in the room: it would report for the outer process, too. */
export const { default: t } = await import('tap');
t.setTimeout(TIMEOUT_MS);
