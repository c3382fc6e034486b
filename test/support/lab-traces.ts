// What one pod can leave on its node, read from the kernel, the disk and Envoy themselves, not from what we say about it.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import type { Lab } from '../../scripts/lab/lab.ts';
import { inNetns } from '../../scripts/lab/processes.ts';

/** Lists of names, sorted; all empty where the pod never was. */
export interface Traces {
  /** Tables in the pod's namespace. */
  readonly tables: readonly string[];
  readonly pins: readonly string[];
  /** Mounts under the pin directory. */
  readonly pinMounts: readonly string[];
  readonly records: readonly string[];
  readonly deleteQueue: readonly string[];
  /** Envoy's listeners of the pod, `<kind>_<namespace>_<name>`. */
  readonly listeners: readonly string[];
  /** Envoy's clusters with an endpoint at the pod's address, or that belong to the pod. */
  readonly clusters: readonly string[];
}

/** What is there of one pod. A namespace that is gone has no tables. */
export async function findTraces(
  lab: Lab,
  pod: { readonly netns: string; readonly containerId: string; readonly resourceName: string; readonly ip?: string },
): Promise<Traces> {
  const ofContainer = (name: string) => name.startsWith(pod.containerId);
  const listeners = (await lab.envoy.admin('/listeners')).split('\n').map((line) => line.split('::')[0] ?? '');
  const clusters = (await lab.envoy.admin('/clusters')).split('\n').flatMap((line) => {
    const name = line.split('::')[0] ?? '';
    const atPod = pod.ip !== undefined && line.includes(`::${pod.ip}:`);
    return atPod || name.includes(pod.resourceName) ? [name] : [];
  });
  return {
    tables: listTables(pod.netns),
    pins: list(lab.places.pinDir).filter(ofContainer),
    pinMounts: readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .map((line) => line.split(' ')[4] ?? '')
      .filter((path) => path === `${lab.places.pinDir}/${pod.containerId}`),
    records: list(lab.places.recordDir).filter(ofContainer),
    deleteQueue: list(lab.places.deleteQueueDir).filter(ofContainer),
    listeners: [...new Set(listeners.filter((name) => name.endsWith(`_${pod.resourceName}`)))].sort(),
    clusters: [...new Set(clusters)].sort(),
  };
}

/** Names of all nft tables of a namespace, `inet aether`; of this process's own without a path. */
export function listTables(netns: string | undefined): readonly string[] {
  if (netns !== undefined && !existsSync(netns)) return [];
  const [file, ...args] = inNetns(netns, ['nft', 'list', 'tables']);
  return execFileSync(file, args, { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/^table /, ''))
    .sort();
}

function list(dir: string): readonly string[] {
  return existsSync(dir) ? readdirSync(dir).sort() : [];
}
