// The room of a test file in test/runtimes: import it first. Outside it runs the test file again in a room (scripts/lab/
// sandbox.ts), whose end removes every process, mount and namespace; inside it gives the test runner and a node to work on.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type AgentPlaces, agentPlaces, startAgent } from '../../scripts/lab/agent.ts';
import { prepareNode } from '../../scripts/lab/network.ts';
import type { LabProcess } from '../../scripts/lab/processes.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';

/** Of a whole file; tap's own is short for a machine that is busy. */
const TIMEOUT_MS = 180_000;
const CGROUP_ROOT = '/sys/fs/cgroup';
const CGROUP_VARIABLE = 'AETHER_TEST_CGROUP';
/** Where the room has an empty tmpfs of its own: runtimes keep locks, namespaces and results there. */
const HIDDEN_DIRS = ['/run', '/var/lib/cni', '/var/lib/aether', '/var/log/aether-cni'];

// Cgroups are the one thing that outlives the room's processes. They are named by the outer process, which removes them, and
// those of earlier ones that were killed.
const CGROUP_NAME = /^aether-test-(\d+)$/;
if (process.env[CGROUP_VARIABLE] === undefined) removeStaleCgroups();
process.env[CGROUP_VARIABLE] ??= `aether-test-${process.pid}`;
const cgroup = process.env[CGROUP_VARIABLE];
process.once('exit', () => removeCgroups(cgroup));

const { dir } = await enterSandbox(process.argv[1] ?? '');
for (const hidden of HIDDEN_DIRS) {
  mkdirSync(hidden, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=0755', 'aether-test', hidden]);
}
mkdirSync('/run/netns');
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

function removeCgroups(name: string): void {
  const hierarchies = [CGROUP_ROOT, ...listDirs(CGROUP_ROOT)];
  for (const path of hierarchies.map((hierarchy) => join(hierarchy, name))) {
    // The kernel lets go of a cgroup a moment after its last process.
    for (let tries = 0; tries < 50 && !removeTree(path); tries++)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  }
}

function removeStaleCgroups(): void {
  const names = [CGROUP_ROOT, ...listDirs(CGROUP_ROOT)].flatMap(listDirs).map((path) => basename(path));
  for (const name of new Set(names)) {
    const pid = CGROUP_NAME.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) removeCgroups(name);
  }
}

/** Whether it is gone. */
function removeTree(path: string): boolean {
  for (const child of listDirs(path)) removeTree(child);
  try {
    rmdirSync(path);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'; // what node:fs throws
  }
}

function listDirs(path: string): readonly string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(path, entry.name));
  } catch {
    return [];
  }
}
