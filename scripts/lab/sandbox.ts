// A room of its own for the lab: a process that begins new PID, network and mount namespaces. Everything the lab makes
// (processes, pods' namespaces, bridge, rules, mounts, files on a private tmpfs) lives in there, so the kernel removes
// all of it with the room's first process, however that ends: by itself, on Ctrl-C, or killed together with its parent.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DIR_VARIABLE = 'AETHER_LAB_DIR';
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
const ROOM_PATIENCE_MS = 3000;
const COMMAND_PATIENCE_MS = 20_000;
const NPM_VARIABLE = 'npm_lifecycle_event';

/** `dir`: an empty directory on a tmpfs that only the room sees, below TMPDIR or /tmp: short enough for unix sockets. */
export interface Sandbox {
  readonly dir: string;
}

/** `prepare`: commands to run before the room opens; the first that fails ends the process with its exit code. */
export interface SandboxOptions {
  readonly prepare?: readonly Command[];
}

type Command = readonly [string, ...string[]];

/**
 * Returns only inside a room. Outside it runs `file` (this very script) in a new one with the same arguments, waits,
 * removes the mount point and ends this process with the same exit code, or 128 + n after signal n.
 * Needs root. Call it first thing: everything before it happens twice.
 */
export async function enterSandbox(file: string, options: SandboxOptions = {}): Promise<Sandbox> {
  const dir = process.env[DIR_VARIABLE];
  if (dir !== undefined) return settleIn(dir);
  if (process.getuid?.() !== 0) {
    process.stderr.write('making namespaces: this needs root\n');
    process.exit(2);
  }
  process.exit(await supervise(file, options.prepare ?? []));
}

function settleIn(dir: string): Sandbox {
  // The parent holds the other end of the channel: when it is gone, so is the room.
  process.once('disconnect', () => process.exit(1));
  if (!process.connected) process.exit(1);
  process.channel?.unref();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=0755,size=512m', 'aether-lab', dir]);
  process.env['TMPDIR'] = dir;
  return { dir };
}

async function supervise(file: string, prepare: readonly Command[]): Promise<number> {
  let child: ChildProcess | undefined;
  let received: keyof typeof SIGNALS | undefined;
  const interrupt = (signal: keyof typeof SIGNALS) => {
    received ??= signal;
    if (child !== undefined) end(child);
  };
  for (const signal of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]) process.on(signal, () => interrupt(signal));
  onOrphaned(() => interrupt('SIGTERM'));
  const run = async (next: ChildProcess): Promise<number> => {
    child = next;
    const code = await exitOf(child);
    return received === undefined ? code : 128 + SIGNALS[received];
  };
  const dir = mkdtempSync(join(tmpdir().length < 40 ? tmpdir() : '/tmp', 'ae-'));
  try {
    // What a command that is interrupted leaves goes with the directory.
    const env = { ...process.env, TMPDIR: dir };
    for (const [command, ...args] of prepare) {
      const code = await run(spawn(command, args, { stdio: 'inherit', detached: true, env }));
      if (code !== 0) return code;
    }
    return await run(openRoom(file, dir));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

// setpriv: the room falls with this process even when SIGKILL takes it. detached: Ctrl-C in a terminal reaches only
// this process, which then closes the room as a whole, instead of each process of the room by itself.
function openRoom(file: string, dir: string): ChildProcess {
  const unshare = ['unshare', '--net', '--mount', '--pid', '--mount-proc', '--fork', '--kill-child=SIGKILL'];
  const node = [process.execPath, ...process.execArgv, file, ...process.argv.slice(2)];
  return spawn('setpriv', ['--pdeathsig', 'KILL', ...unshare, ...node], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [DIR_VARIABLE]: dir },
    detached: true,
  });
}

// npm hands a SIGTERM on to its shell, which ends and tells nobody, perhaps before we came to look: what npm started has a
// parent with npm's variables.
function onOrphaned(callback: () => void): void {
  if (process.env[NPM_VARIABLE] === undefined) return;
  const timer = setInterval(() => {
    if (hasNpmParent()) return;
    clearInterval(timer);
    callback();
  }, 100);
  timer.unref();
}

function hasNpmParent(): boolean {
  try {
    return readFileSync(`/proc/${process.ppid}/environ`, 'latin1').includes(`${NPM_VARIABLE}=`);
  } catch {
    // A parent that ended just now has no environment; the init process that inherited us may hide its own.
    return false;
  }
}

// A room has a channel: its first process ends itself when that closes, and unshare returns when the kernel has ended
// all others. A preparing command has none and is a process group; it may need seconds to come to its signal handler.
function end(child: ChildProcess): void {
  const isRoom = child.connected;
  if (isRoom) child.disconnect();
  else if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM');
  setTimeout(() => child.kill('SIGKILL'), isRoom ? ROOM_PATIENCE_MS : COMMAND_PATIENCE_MS).unref();
}

function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
}
