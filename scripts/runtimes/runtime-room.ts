// What a room (scripts/lab/sandbox.ts) needs besides for container runtimes in it: a cgroup, the one thing that outlives the
// room's processes, and directories of the host's that are hidden.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { basename, join } from 'node:path';

const CGROUP_ROOT = '/sys/fs/cgroup';
const CGROUP_VARIABLE = 'AETHER_TEST_CGROUP';
const CGROUP_NAME = /^aether-test-(\d+)$/;

/** Where the room gets an empty tmpfs of its own: runtimes keep locks, namespaces and results there. */
const HIDDEN_DIRS = ['/run', '/var/lib/cni', '/var/lib/aether', '/var/log/aether-cni'];

/** Only inside a room. */
export function hideHostDirs(): void {
  for (const hidden of HIDDEN_DIRS) {
    mkdirSync(hidden, { recursive: true });
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=0755', 'aether-test', hidden]);
  }
  mkdirSync('/run/netns');
}

/**
 * A name that is the same inside and outside. The process that opens the room removes the cgroup at its exit, and those of
 * earlier ones that were killed. Call it before the room is entered.
 */
export function reserveCgroup(): string {
  if (process.env[CGROUP_VARIABLE] === undefined) removeStaleCgroups();
  process.env[CGROUP_VARIABLE] ??= `aether-test-${process.pid}`;
  const cgroup = process.env[CGROUP_VARIABLE];
  process.once('exit', () => removeCgroups(cgroup));
  return cgroup;
}

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
