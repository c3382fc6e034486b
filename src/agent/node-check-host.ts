// The host, judged: sockets, kernel, limits, pins, queued removals. Facts in, findings out; nothing is asked here.
import { type Finding, FindingList } from '../core/finding.ts';
import type { EnvoyProcess, NodePlaces, PinDirFacts, SocketFacts } from './node-check-deps.ts';

const formatMode = (mode: number): string => mode.toString(8).padStart(4, '0');

/** A socket that is root's (or as the agent was told) and answers. `wantedMode`: 0o600. */
export function judgeSocket(
  facts: SocketFacts,
  { path, what, wantedMode }: { readonly path: string; readonly what: string; readonly wantedMode: number },
): readonly Finding[] {
  const list = new FindingList('socket');
  const restart = 'restart the agent, which makes it anew';
  if (facts.kind === 'absent') list.fail(path, { message: `is not there (${what})`, remedy: restart });
  else if (facts.kind === 'other') {
    list.fail(path, { message: `is no socket (${what})`, remedy: 'remove what lies there, then restart the agent' });
  } else {
    if (!facts.isAnswered) list.fail(path, { message: `nobody answers on it (${what})`, remedy: restart });
    if (facts.uid !== 0) {
      list.fail(path, { message: `belongs to uid ${facts.uid}, not to root (${what})`, remedy: `chown 0 ${path}` });
    }
    const open = facts.mode & ~wantedMode;
    if (open !== 0) {
      list.fail(path, {
        message: `has mode ${formatMode(facts.mode)}, should be ${formatMode(wantedMode)}: others can reach it (${what})`,
        remedy: `chmod ${formatMode(wantedMode)} ${path}`,
      });
    } else if (facts.mode !== wantedMode) {
      list.warn(path, {
        message: `has mode ${formatMode(facts.mode)}, should be ${formatMode(wantedMode)} (${what})`,
        remedy: `chmod ${formatMode(wantedMode)} ${path}`,
      });
    }
    if (list.all.length === 0) list.ok(path, `answers, mode ${formatMode(facts.mode)} (${what})`);
  }
  return list.all;
}

/** From here on nftables has DESTROY, so that a table is replaced in one message whatever stood there. */
const DESTROY_SINCE = [6, 3] as const;

/** `problems`: what the kernel lacks, a sentence each. */
export function judgeKernel(release: string, problems: readonly string[]): readonly Finding[] {
  const list = new FindingList('kernel');
  for (const message of problems) {
    list.fail(release, {
      message,
      remedy: 'load the module that is named (modprobe), or take a kernel that has it: no pod can be captured without',
    });
  }
  if (problems.length === 0) list.ok(release, 'takes both tables: nf_tables with nat, redirect and reject');
  const [major = 0, minor = 0] = release.split(/[.-]/).map(Number);
  const isOld = major < DESTROY_SINCE[0] || (major === DESTROY_SINCE[0] && minor < DESTROY_SINCE[1]);
  if (isOld) {
    list.warn(release, {
      message: 'is before 6.3: rules that stand already are replaced in a second attempt, some 20 ms slower',
      remedy: 'none needed; a kernel of 6.3 or later is faster where a pod is added twice',
    });
  }
  return list.all;
}

/** Five listeners of a pod, an address of each family, a socket for each worker. */
const SOCKETS_OF_POD = 10;
/** For connections, of which each takes two. */
const CONNECTIONS = 4096;

/** Whether each Envoy may open enough files for its listeners; area `limits`. */
export function judgeEnvoys(envoys: readonly EnvoyProcess[], podCount: number): readonly Finding[] {
  const list = new FindingList('limits');
  for (const { pid, openFileLimit, workers } of envoys) {
    if (openFileLimit === undefined) continue;
    const sockets = podCount * SOCKETS_OF_POD * Math.max(1, workers);
    const needed = sockets + CONNECTIONS;
    const what = `may open ${openFileLimit} files; its ${podCount} pods take ${sockets} sockets on ${workers} workers`;
    if (openFileLimit >= needed) list.ok(`Envoy, pid ${pid}`, what);
    else {
      list.warn(`Envoy, pid ${pid}`, {
        message: `${what}, and connections come on top: listeners of new pods will be refused`,
        remedy: `set LimitNOFILE=${Math.max(65_536, 2 ** Math.ceil(Math.log2(needed * 2)))} in Envoy's service and restart it; fewer workers (--concurrency) need fewer`,
      });
    }
  }
  return list.all;
}

/** `known`: container ids that have a record; `pinned`: how many of these say that their namespace lies here. */
export function judgePins(
  facts: PinDirFacts,
  { path, known, pinned }: { readonly path: string; readonly known: ReadonlySet<string>; readonly pinned: number },
): readonly Finding[] {
  const list = new FindingList('pins');
  if (!facts.isThere) {
    if (pinned === 0) list.ok(path, 'not made yet: no pod is pinned');
    else {
      list.fail(path, {
        message: `is not there, although ${pinned} pods are recorded with a pin in it`,
        remedy: 'was it unmounted, or /run emptied? Recreate the pods of the node',
      });
    }
    return list.all;
  }
  if ((facts.mode & 0o077) !== 0) {
    list.warn(path, { message: `has mode ${formatMode(facts.mode)}, should be 0700`, remedy: `chmod 0700 ${path}` });
  }
  const orphans = facts.containerIds.filter((id) => !known.has(id));
  if (orphans.length > 0) {
    list.warn(path, {
      message: `pins of no recorded pod, which keep namespaces alive: ${orphans.length}, such as ${orphans.slice(0, 3).join(', ')}`,
      remedy: "the runtime's GC removes them; by hand, for one that no sandbox has: umount it and remove the file",
    });
  }
  const own = facts.isMount ? 'a mount of its own' : 'on the mount above it';
  if (facts.isShared) list.ok(path, `${facts.containerIds.length} pins; ${own}, shared`);
  else {
    list.warn(path, {
      message: `${own}, which is not shared: an Envoy in a mount namespace of its own does not see new pins`,
      remedy: `run the agent on the host, or in a container whose volume of this directory has mountPropagation: Bidirectional; on the host: mount --make-shared ${facts.mountPoint}`,
    });
  }
  return list.all;
}

/** Replayed every few seconds: one that waits longer than this is stuck. */
const STUCK_MS = 30_000;

/** `writtenAt`: when each became due; `path` is the queue's directory; area `queue`. */
export function judgeRemovals(
  writtenAt: readonly Date[],
  { path, now, isAgentThere }: { readonly path: string; readonly now: Date; readonly isAgentThere: boolean },
): readonly Finding[] {
  const list = new FindingList('queue');
  const oldestMs = Math.max(0, ...writtenAt.map((date) => now.getTime() - date.getTime()));
  const waiting = writtenAt.length === 1 ? '1 removal waits' : `${writtenAt.length} removals wait`;
  const message = `${waiting}, the oldest for ${Math.round(oldestMs / 1000)} s`;
  if (writtenAt.length === 0) list.ok(path, 'no removal waits');
  else if (isAgentThere && oldestMs > STUCK_MS) {
    list.fail(path, {
      message,
      remedy:
        'agent.removal.failed in the log of the agent has the reason; is this the directory that the agent reads?',
    });
  } else if (isAgentThere) list.ok(path, message);
  else list.warn(path, { message, remedy: 'the agent makes up for them when it is back' });
  return list.all;
}

/** The sockets of an agent: path, what it is for, mode. */
export function listSockets(places: NodePlaces): readonly {
  readonly path: string;
  readonly what: string;
  readonly wantedMode: number;
}[] {
  return [
    { path: places.adminSocket, what: 'tool and plugin', wantedMode: 0o600 },
    { path: places.cniSocket, what: 'plugin', wantedMode: 0o600 },
    ...(places.relaySocket === undefined ? [] : [{ path: places.relaySocket, what: 'relay', wantedMode: 0o600 }]),
    { path: places.xdsSocket, what: 'Envoy', wantedMode: places.xdsSocketMode },
  ];
}
