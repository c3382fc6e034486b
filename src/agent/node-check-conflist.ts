// The runtime's configuration, judged: does it call our plugin, in the right place, with what the agent expects?
import type { ConfDirReading, ConfEntry, ConfList } from '../cni/conf-list.ts';
import { PLUGIN_TYPE } from '../cni/conf-list.ts';
import { type Finding, FindingList } from '../core/finding.ts';
import { formatProblems } from '../core/problems.ts';
import { formatSocketAddress, type SocketAddress } from '../core/socket-address.ts';
import { MESH_DNS_PORT } from '../mesh/constants.ts';
import type { FileFacts, NodePlaces } from './node-check-deps.ts';

export interface ConfFacts {
  readonly confDir: string;
  readonly binDir: string;
  /** Undefined: no such directory. */
  readonly reading: ConfDirReading | undefined;
  /** `<binDir>/aether-cni`, and `-standalone` beside it. */
  readonly plugin: FileFacts;
  readonly standalone: FileFacts;
}

/** The full file is a hundred times as large as the relay. */
const RELAY_SIZE_MAX = 4 * 1024 * 1024;

/** `places`: the agent's own word; undefined where it is away. */
export function judgeConf(facts: ConfFacts, places: NodePlaces | undefined): readonly Finding[] {
  const list = new FindingList('conflist');
  const { reading, confDir } = facts;
  if (reading === undefined || (reading.active === undefined && reading.broken.length === 0)) {
    list.warn(confDir, {
      message: 'no network configuration is here: whether new pods enter the mesh cannot be told',
      remedy: 'name the directory of the container runtime with --cni-conf-dir, or install the primary plugin',
    });
    return [...list.all, ...judgeBinary(facts, undefined)];
  }
  for (const { file, reason } of reading.broken) {
    list.warn(`${confDir}/${file}`, {
      message: `the runtime passes it over: ${reason}`,
      remedy: 'correct or remove the file',
    });
  }
  const { active } = reading;
  if (active !== undefined) judgeActive(list, { ...facts, active, others: reading.others, places });
  return [...list.all, ...judgeBinary(facts, active)];
}

interface ActiveConf extends ConfFacts {
  readonly active: ConfList;
  readonly others: readonly ConfList[];
  readonly places: NodePlaces | undefined;
}

function judgeActive(list: FindingList, conf: ActiveConf): void {
  const { active, others, confDir } = conf;
  const subject = `${confDir}/${active.file}`;
  const [entry, second] = active.entries;
  if (entry === undefined) {
    const elsewhere = others.find(({ entries }) => entries.length > 0);
    const where = elsewhere === undefined ? '' : ` (${elsewhere.file} has it, which the runtime does not use)`;
    list.warn(subject, {
      message: `the active configuration does not call ${PLUGIN_TYPE}${where}: new pods start outside of the mesh`,
      remedy: `make {"type":"${PLUGIN_TYPE}", …} the last of its "plugins" (README, "Use it on a node"), and see to it that the primary plugin does not write it away again; then recreate the pods that started without`,
    });
    return;
  }
  if (second !== undefined) {
    list.fail(subject, {
      message: `${PLUGIN_TYPE} is listed ${active.entries.length} times: the second call of each pod is refused`,
      remedy: 'leave one entry, behind the primary plugin',
    });
  }
  if (entry.index === 0) {
    list.fail(subject, {
      message: `${PLUGIN_TYPE} is the first plugin: it makes no interface, so every new pod is refused`,
      remedy: 'move it behind the primary plugin',
    });
  }
  judgeEntry(list, entry, { subject, places: conf.places });
  if (list.all.every(({ status }) => status === 'ok')) list.ok(subject, `calls ${active.types.join(', ')}`);
}

function judgeEntry(
  list: FindingList,
  { config, problems, hasAnnotations }: ConfEntry,
  { subject, places }: { readonly subject: string; readonly places: NodePlaces | undefined },
): void {
  if (problems.length > 0) {
    list.fail(subject, {
      message: `every new pod is refused for the entry "aether-cni": ${formatProblems(problems)}`,
      remedy: 'correct these keys of the entry',
    });
  }
  if (!hasAnnotations) {
    list.fail(subject, {
      message: 'the entry "aether-cni" does not ask for the annotations of pods: none is taken into the mesh',
      remedy: 'add "capabilities": {"io.kubernetes.cri.pod-annotations": true} to the entry',
    });
  }
  if (places === undefined) return;
  const pairs: readonly (readonly [key: string, entry: string, agent: string])[] = [
    ['agent_cni_path', config.agentSocket, places.cniSocket],
    ['admin_socket', config.adminSocket, places.adminSocket],
    ['netns_pin_dir', config.pinDir, places.pinDir],
    ['delete_queue_dir', config.deleteQueueDir, places.deleteQueueDir],
  ];
  for (const [key, plugin, agent] of pairs) {
    if (plugin === agent || (key === 'netns_pin_dir' && config.pinDisabled)) continue;
    list.fail(subject, {
      message: `${key}: the plugin uses ${plugin}, the agent ${agent}`,
      remedy: `give both the same: "${key}" in the entry, or --${FLAG_OF.get(key) ?? ''} of the agent`,
    });
  }
  judgeDns(list, { subject, wanted: findDns(config), meshDns: places.meshDns });
}

const FLAG_OF: ReadonlyMap<string, string> = new Map([
  ['agent_cni_path', 'cni-socket'],
  ['admin_socket', 'admin-socket'],
  ['netns_pin_dir', 'netns-pin-dir'],
  ['delete_queue_dir', 'delete-queue-dir'],
]);

function findDns({ meshDnsEnabled, hostIp }: ConfEntry['config']): SocketAddress | undefined {
  return meshDnsEnabled && hostIp !== undefined ? { address: hostIp, port: MESH_DNS_PORT } : undefined;
}

function judgeDns(
  list: FindingList,
  options: {
    readonly subject: string;
    readonly wanted: SocketAddress | undefined;
    readonly meshDns: readonly SocketAddress[];
  },
): void {
  if (options.wanted === undefined) return;
  const wanted = formatSocketAddress(options.wanted);
  const listens = options.meshDns.map(formatSocketAddress);
  const any = [`0.0.0.0:${MESH_DNS_PORT}`, `[::]:${MESH_DNS_PORT}`];
  if (listens.some((address) => address === wanted || any.includes(address))) return;
  list.fail(options.subject, {
    message: `pods send their DNS to ${wanted}, where the agent's mesh DNS does not listen (${listens.join(', ') || 'off'})`,
    remedy:
      '"host_ip" of the entry and --mesh-dns (or --host-ip) of the agent must agree; or set "mesh_dns_enabled": false',
  });
}

function judgeBinary({ binDir, plugin, standalone }: ConfFacts, active: ConfList | undefined): readonly Finding[] {
  const list = new FindingList('binary');
  const path = `${binDir}/${PLUGIN_TYPE}`;
  const isCalled = (active?.entries.length ?? 0) > 0;
  if (!plugin.isThere || !plugin.isExecutable) {
    const message = plugin.isThere ? 'is not executable' : 'is not there';
    const trouble = {
      message: isCalled ? `${message}: the runtime refuses every new pod` : message,
      remedy:
        'put the relay (or the full file) there, mode 0755, or name the directory of the container runtime with --cni-bin-dir',
    };
    if (isCalled) list.fail(path, trouble);
    else list.warn(path, trouble);
    return list.all;
  }
  const isRelay = plugin.sizeBytes <= RELAY_SIZE_MAX;
  if (isRelay && !(standalone.isThere && standalone.isExecutable)) {
    list.warn(`${path}-standalone`, {
      message: 'the relay has nothing to fall back to while the agent is away: it cannot even queue a removal',
      remedy: `put the full file there, mode 0755`,
    });
  } else list.ok(path, isRelay ? 'the relay, with the full file beside it' : 'the full file');
  return list.all;
}
