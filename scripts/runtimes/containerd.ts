// containerd of the runtime tests: the distribution's, with everything it has in one directory. It must be started inside a
// room (scripts/lab/sandbox.ts): the namespaces of its sandboxes are in /var/run/netns, its shims outlive it.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LabProcess, startProcess, waitUntil } from '../lab/processes.ts';
import { CriClient } from './cri.ts';
import { PAUSE_IMAGE, PAUSE_TAR } from './places.ts';

/** `env` is what plugins get besides CNI_*: containerd hands its own environment on. */
export interface ContainerdOptions {
  readonly dir: string;
  readonly confDir: string;
  readonly binDir: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A running containerd. `kill` and `restart` are for the tests that lose it between two calls. */
export interface Containerd extends AsyncDisposable {
  readonly cri: CriClient;
  process(): LabProcess;
  /** Ends it at once, as the kernel's OOM killer would. Sandboxes live on. */
  kill(): Promise<void>;
  /** Starts it again and waits until it serves. */
  restart(): Promise<void>;
}

/** Starts containerd, imports the sandbox image, and waits until runtime and network are ready. */
export async function startContainerd(options: ContainerdOptions): Promise<Containerd> {
  const dir = join(options.dir, 'containerd');
  const socket = join(dir, 'cd.sock');
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, 'config.toml'), buildConfig(dir, options));
  const start = () =>
    startProcess({
      name: 'containerd',
      command: ['containerd', '--config', join(dir, 'config.toml')],
      logFile: join(dir, 'containerd.log'),
      ...(options.env === undefined ? {} : { env: options.env }),
    });
  let process = start();
  const cri = new CriClient(socket);
  const ready = () =>
    waitUntil('containerd to be ready', async () => (await cri.readyConditions()).length === 2, {
      timeoutMs: 30_000,
      stepMs: 50,
      process,
    });
  try {
    await ready();
    importImage(socket);
  } catch (error) {
    cri[Symbol.dispose]();
    await process.stop('SIGKILL');
    throw error;
  }
  return {
    cri,
    process: () => process,
    kill: () => process.stop('SIGKILL'),
    restart: async () => {
      process = start();
      await ready();
    },
    [Symbol.asyncDispose]: async () => {
      cri[Symbol.dispose]();
      await process.stop();
    },
  };
}

function importImage(socket: string): void {
  const ctr = ['--address', socket, '--namespace', 'k8s.io', 'images', 'import', '--snapshotter', 'native', PAUSE_TAR];
  execFileSync('ctr', ctr, { stdio: ['ignore', 'ignore', 'pipe'] });
}

// native: works where overlayfs doesn't (inside a container). The other two settings are for machines that deny a change of
// oom_score_adj or have no AppArmor.
function buildConfig(dir: string, options: ContainerdOptions): string {
  return `version = 2
root = "${dir}/root"
state = "${dir}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "${dir}/cd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "${dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "${options.binDir}"
  conf_dir = "${options.confDir}"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
`;
}
