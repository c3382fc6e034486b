// The node that the runtime tests work on: its network lists, our entry in them, and what must be gone after a DEL.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Json, NetworkList, PluginConfig } from '../../scripts/lab/cni-runtime.ts';
import { pluginEntry } from '../../scripts/lab/lab.ts';
import { podNetwork } from '../../scripts/lab/network.ts';
import { EXECUTABLE } from '../../scripts/lab/places.ts';
import { makePluginDir, type PluginForm } from '../../scripts/runtimes/plugin-dir.ts';
import { PLACES, ROOM_DIR } from './runtimes-room.ts';

export const ANNOTATIONS_CAPABILITY = 'io.kubernetes.cri.pod-annotations';
/** Annotations that make a pod ours. */
export const MANAGED: Readonly<Record<string, string>> = {
  'aether.io/managed': 'true',
  'aether.io/service-account': 'shop',
};
export const CONF_DIR: string = join(ROOM_DIR, 'conf');
const IPAM_DIR = join(ROOM_DIR, 'ipam');
mkdirSync(CONF_DIR);

/** Our entry of a list, with every path in the room; no Envoy runs, so nothing waits for it. */
export function ownEntry(more: Json = {}): PluginConfig {
  return { ...pluginEntry(PLACES, ROOM_DIR), proxy_ready: 'skip', ...more };
}

/** An entry of the recorder, and the file it writes to. */
export function recorderEntry(name: string): PluginConfig & { readonly recordFile: string } {
  const recordFile = join(ROOM_DIR, `record-${name}`);
  return { type: 'recorder', recordFile, capabilities: { [ANNOTATIONS_CAPABILITY]: true } };
}

/** bridge with host-local in both families, then `chained`. */
export function bridgeNetwork(name: string, chained: readonly PluginConfig[]): NetworkList {
  return { ...podNetwork(IPAM_DIR, chained), name };
}

/** Puts a list into the configuration directory. */
export function writeNetwork(list: NetworkList): void {
  writeFileSync(join(CONF_DIR, `${list.name}.conflist`), JSON.stringify(list));
}

/** A directory of plugins with ours in one of its forms. */
export function pluginDir(form: PluginForm): string {
  const dir = join(ROOM_DIR, `bin-${form}`);
  if (!existsSync(dir)) makePluginDir(dir, form);
  return dir;
}

/** Container ids of the agent's records. */
export function listRecords(): readonly string[] {
  return listFiles(PLACES.recordDir)
    .filter((name) => name.endsWith('.json'))
    .map((name) => name.slice(0, -5));
}

/** Container ids of the pinned namespaces. */
export function listPins(): readonly string[] {
  return listFiles(PLACES.pinDir);
}

/** Removals that wait for the agent. */
export function listQueue(): readonly string[] {
  return listFiles(PLACES.deleteQueueDir);
}

/** Addresses that host-local has given out on a network. */
export function listAddresses(network: string): readonly string[] {
  return listFiles(join(IPAM_DIR, network)).filter((name) => /^[0-9a-f.:]+$/.test(name));
}

/** Command lines of our executable's processes, without those of `known` pids. */
export function listOwnProcesses(known: readonly number[]): readonly string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && !known.includes(Number(name)))
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return command[0]?.includes('aether-cni') || command[0] === EXECUTABLE ? [`${pid} ${command.join(' ')}`] : [];
      } catch {
        return [];
      }
    });
}

function listFiles(dir: string): readonly string[] {
  return existsSync(dir) ? readdirSync(dir) : [];
}
