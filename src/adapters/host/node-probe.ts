// The host as `check` asks about it: files, sockets, mounts, processes. Looks only.
import { lstat, readdir, readFile, realpath, stat } from 'node:fs/promises';
import { release } from 'node:os';
import { join } from 'node:path';
import { encode } from 'dns-packet';
import type { HostProbe, PinDirFacts } from '../../agent/node-check-deps.ts';
import { type ConfFile, isConfName } from '../../cni/conf-list.ts';
import { parseContainerId } from '../../core/identifiers.ts';
import { forwardQuery } from '../dns/forward.ts';
import { findObstacle } from '../grpc/admin-tool.ts';
import { isAbsent } from '../store/atomic-file.ts';
import { readRecords } from '../store/read-records.ts';
import { listEnvoys } from './envoy-processes.ts';

const DNS_MS = 1000;

/** `probeKernel`: a sentence for each thing that the kernel lacks. */
export function createNodeProbe({ probeKernel }: Pick<HostProbe, 'probeKernel'>): HostProbe {
  return {
    uid: process.getuid?.() ?? 0,
    kernelRelease: release(),
    probeKernel,
    listEnvoys: (xdsSocket) => listEnvoys(xdsSocket),
    readPinDir,
    now: () => new Date(),

    async readSocket(path) {
      const found = await lstat(path).catch(undefinedIfAbsent);
      if (found === undefined) return { kind: 'absent', mode: 0, uid: 0, isAnswered: false };
      const [mode, uid] = [found.mode & 0o7777, found.uid];
      if (!found.isSocket()) return { kind: 'other', mode, uid, isAnswered: false };
      return { kind: 'socket', mode, uid, isAnswered: (await findObstacle(path)) === undefined };
    },

    async readConfFiles(dir) {
      const names = await readdir(dir).catch(undefinedIfAbsent);
      if (names === undefined) return undefined;
      const read = async (name: string): Promise<readonly ConfFile[]> => {
        const path = join(dir, name);
        return (await stat(path)).isFile() ? [{ name, bytes: await readFile(path) }] : [];
      };
      return (await Promise.all(names.filter(isConfName).map(read))).flat();
    },

    async readFile(path) {
      const found = await stat(path).catch(undefinedIfAbsent);
      if (found === undefined) return { isThere: false, isExecutable: false, sizeBytes: 0 };
      return { isThere: true, isExecutable: found.isFile() && (found.mode & 0o111) !== 0, sizeBytes: found.size };
    },

    async readRecords(dir) {
      const isThere = (await stat(dir).catch(undefinedIfAbsent)) !== undefined;
      return isThere ? readRecords(dir) : { records: [], broken: [] };
    },

    async listRemovals(dir) {
      const names = (await readdir(dir).catch(undefinedIfAbsent)) ?? [];
      const files = await Promise.all(
        names.filter((name) => name.endsWith('.json')).map((name) => stat(join(dir, name)).catch(undefinedIfAbsent)),
      );
      return files.flatMap((file) => (file === undefined ? [] : [file.mtime]));
    },

    async queryDns(address, name) {
      const query = encode({ type: 'query', id: 1, questions: [{ type: 'A', name }] });
      const reply = await forwardQuery(query, { upstreams: [address], transport: 'udp', timeoutMs: DNS_MS });
      return reply !== undefined;
    },
  };
}

async function readPinDir(path: string): Promise<PinDirFacts> {
  const found = await stat(path).catch(undefinedIfAbsent);
  if (found?.isDirectory() !== true) {
    return { isThere: false, mode: 0, mountPoint: '', isMount: false, isShared: false, containerIds: [] };
  }
  const mount = findMount(await readFile('/proc/self/mountinfo', 'utf8'), await realpath(path));
  const names = await readdir(path);
  const containerIds = names.map(parseContainerId).filter((id) => typeof id === 'string');
  return { isThere: true, mode: found.mode & 0o7777, ...mount, containerIds };
}

/**
 * The mount that a path lies on, out of /proc/self/mountinfo (proc_pid_mountinfo(5)): the longest mount point above it, of
 * equal ones the last. `path` without symbolic links.
 */
export function findMount(
  mountinfo: string,
  path: string,
): { readonly mountPoint: string; readonly isMount: boolean; readonly isShared: boolean } {
  let found = { mountPoint: '/', isShared: false };
  for (const line of mountinfo.split('\n')) {
    const fields = line.split(' ');
    const mountPoint = unescapeOctal(fields[4] ?? '');
    const isAbove = mountPoint === path || path.startsWith(mountPoint === '/' ? '/' : `${mountPoint}/`);
    if (mountPoint === '' || !isAbove || mountPoint.length < found.mountPoint.length) continue;
    const optional = fields.slice(6, fields.indexOf('-', 6));
    found = { mountPoint, isShared: optional.some((field) => field.startsWith('shared:')) };
  }
  return { ...found, isMount: found.mountPoint === path };
}

// A blank in a path is \040.
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

function undefinedIfAbsent(error: unknown): undefined {
  if (isAbsent(error)) return undefined;
  throw error;
}
