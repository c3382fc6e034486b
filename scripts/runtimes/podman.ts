// podman of the runtime tests with its CNI backend, everything it has in one directory, containers from a directory as root
// file system (no image, no registry). Only inside a room: it keeps locks and namespaces in /run.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PAUSE_BINARY } from './places.ts';

export interface PodmanOptions {
  readonly dir: string;
  readonly confDir: string;
  readonly binDir: string;
  readonly cgroupParent: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** One podman store. Both calls throw with podman's words. */
export interface Podman {
  /** Starts a container that waits, attached to a network of the configuration directory; returns its id. */
  run(name: string, network: string): string;
  /** Stops and removes it, and detaches it. */
  remove(name: string): void;
}

export function openPodman(options: PodmanOptions): Podman {
  const dir = join(options.dir, 'podman');
  const rootfs = join(dir, 'rootfs');
  mkdirSync(rootfs, { recursive: true });
  copyFileSync(PAUSE_BINARY, join(rootfs, 'pause'));
  writeFileSync(join(dir, 'containers.conf'), buildConfig(dir, options));
  const podman = (...args: string[]) => {
    const store = ['--root', `${dir}/root`, '--runroot', `${dir}/run`, '--storage-driver', 'vfs'];
    const env = { ...process.env, ...options.env, CONTAINERS_CONF: join(dir, 'containers.conf') };
    return execFileSync('podman', [...store, ...args], { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] });
  };
  return {
    run: (name, network) => {
      const cgroup = ['--cgroup-parent', options.cgroupParent];
      const plain = ['--security-opt', 'apparmor=unconfined', '--security-opt', 'seccomp=unconfined', '--no-hosts'];
      const container = ['--detach', '--name', name, '--network', network, '--rootfs', rootfs, '/pause'];
      return podman('run', ...cgroup, ...plain, ...container).trim();
    },
    remove: (name) => {
      podman('rm', '--force', '--time', '2', name);
    },
  };
}

function buildConfig(dir: string, options: PodmanOptions): string {
  return `[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
tmp_dir = "${dir}/tmp"
runtime = "runc"
[containers]
log_driver = "k8s-file"
[network]
network_backend = "cni"
cni_plugin_dirs = ["${options.binDir}"]
network_config_dir = "${options.confDir}"
`;
}
