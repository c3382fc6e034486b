// A process with mounts of its own that connects to a Unix socket and stays: what a containerised agent sees of a runtime.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { NetnsPath } from '../../src/core/identifiers.ts';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

export interface ViewPeer {
  readonly pid: number;
  /** Of the accepted connection. */
  readonly fd: number;
  /** A pod's namespace that only the peer can see, and an absolute link to it that leads there only in the peer's view. */
  readonly pod: NetnsPath;
  readonly link: NetnsPath;
  /** The same in the /proc that both share. */
  readonly process: NetnsPath;
  /** The peer's own namespace, at a place that only the peer can see. */
  readonly own: NetnsPath;
  end(): Promise<void>;
}

// `unshare --mount` makes all mounts private: nothing of it is seen outside.
const SCRIPT = `
mount -t tmpfs view "$1" && touch "$1/pod" "$1/own" && unshare "--net=$1/pod" true && ln -s "$1/pod" "$1/link" &&
mount --bind /proc/self/ns/net "$1/own" && nsenter "--net=$1/pod" sleep 60 & sleeper=$!
sleep 0.2
exec "$2" -e 'const s = require("net").connect(process.argv[1]); s.write(process.argv[2]); s.on("close", () => process.exit())' "$1.sock" "$sleeper"
`;

/** `--net`: the peer is in a namespace of its own, which must be refused as its own. */
export async function startViewPeer(t: TearsDown, options: { readonly ownNetns?: boolean } = {}): Promise<ViewPeer> {
  const dir = mkdtempSync('/tmp/ae-view-');
  const server = createServer();
  const connected = new Promise<{ readonly socket: Socket; readonly sleeper: string }>((resolve) => {
    server.once('connection', (socket) => socket.once('data', (data) => resolve({ socket, sleeper: String(data) })));
  });
  await new Promise<void>((resolve) => server.listen(`${dir}.sock`, resolve));
  const flags = ['--mount', ...(options.ownNetns ? ['--net'] : [])];
  const child = spawn('unshare', [...flags, 'sh', '-c', SCRIPT, 'sh', dir, process.execPath], {
    stdio: 'inherit',
    detached: true,
  });
  t.teardown(async () => {
    await end(child);
    server.close();
    rmSync(dir, { recursive: true, force: true });
    rmSync(`${dir}.sock`, { force: true });
  });
  const { socket, sleeper } = await connected;
  socket.on('error', () => {});
  const at = (name: string): NetnsPath => join(dir, name) as NetnsPath;
  return {
    pid: child.pid ?? 0,
    fd: descriptorOf(socket),
    pod: at('pod'),
    link: at('link'),
    process: `/proc/${sleeper}/ns/net` as NetnsPath,
    own: at('own'),
    end: () => end(child),
  };
}

// With the process that holds the pod's namespace: it is of the same group.
async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  process.kill(-child.pid, 'SIGKILL');
  await ended;
}

/** Node has no public way to it. */
function descriptorOf(socket: Socket): number {
  return (socket as unknown as { readonly _handle: { readonly fd: number } })._handle.fd;
}
