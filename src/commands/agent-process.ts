// The resident process, put together: real stores, authority, kernel and sockets around the agent. Opened in the order
// that never serves Envoy or the plugin something incomplete; closed in reverse.
import { chmodSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openMeshDns } from '../adapters/dns/mesh-dns.ts';
import { followResolvConf } from '../adapters/dns/resolv-conf.ts';
import { type AdminServerOptions, openAdminServer } from '../adapters/grpc/admin-server.ts';
import { createAdsServer } from '../adapters/grpc/ads-server.ts';
import { openCniServer } from '../adapters/grpc/cni-server.ts';
import { agentHost } from '../adapters/host/agent-host.ts';
import { systemClock } from '../adapters/host/clock.ts';
import { createHealthGateway } from '../adapters/host/health-gateway.ts';
import { hasIpv6 } from '../adapters/host/host-address.ts';
import { type LoopDelayMonitor, watchLoopDelay } from '../adapters/host/loop-delay.ts';
import { removeStaleSocket } from '../adapters/host/unix-listener.ts';
import { openEmbeddedAuthority } from '../adapters/identity/embedded-authority.ts';
import { holdNetns } from '../adapters/kernel/hold-pin.ts';
import { attachmentBook } from '../adapters/store/attachment-book.ts';
import { listOldPins, listPins } from '../adapters/store/list-pins.ts';
import { FileRecordStore, type SmallFiles } from '../adapters/store/record-store.ts';
import { FileRemovalQueue } from '../adapters/store/removal-queue.ts';
import { readServicesFile, watchServicesFile } from '../adapters/store/services-file.ts';
import { FileVipStore } from '../adapters/store/vip-store.ts';
import type { HealthGateway, MeshTables, VipRoutes } from '../agent/deps.ts';
import { dropStalePins } from '../agent/drop-stale-pins.ts';
import { LocalAdmin } from '../agent/local-admin.ts';
import { NodeAgent, type NodeAgentSettings } from '../agent/node-agent.ts';
import { checkNode } from '../agent/node-check.ts';
import { PodLife } from '../agent/pod-life.ts';
import { reportBarePods } from '../agent/report-bare-pods.ts';
import { SnapshotCache } from '../agent/snapshot-cache.ts';
import { replayRemovals, type StartReport, startAgent } from '../agent/start-up.ts';
import type { VipPins } from '../agent/vip-pins.ts';
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { formatSocketAddress, type SocketAddress } from '../core/socket-address.ts';
import { attachmentDirOf } from '../plugin/call-context.ts';
import type { Namespaces, RuleReader } from '../plugin/deps.ts';
import { EmbeddedRegistry } from '../registry/embedded.ts';
import { openMemoryTrimmer } from './agent-memory.ts';
import { openAgentRelay, type RelayKernel } from './agent-relay.ts';
import type { AgentSettings } from './agent-settings.ts';

/** Within the time that the tool waits for the answer. */
const CHECK_MS = 8000;
/** Far longer than any ADD takes. */
const STALE_PIN_MS = 600_000;

/** What touches the kernel. */
export interface KernelDeps {
  readonly namespaces: Namespaces;
  readonly tables: MeshTables & RuleReader;
  readonly routes: VipRoutes;
  /** Absent: Node's own way. */
  readonly files?: SmallFiles;
  /** Gives the bytes let go. Absent: nothing is trimmed. */
  readonly trimMemory?: () => Promise<number>;
  /** Absent: the relay is not served. */
  readonly relay?: RelayKernel;
}

export interface AgentProcessOptions {
  readonly settings: AgentSettings;
  readonly kernel: KernelDeps;
  readonly log: Log;
  readonly version: string;
}

export interface AgentProcess {
  readonly agent: NodeAgent;
  readonly life: PodLife;
  readonly cache: SnapshotCache;
  readonly report: StartReport;
  /** Where mesh DNS listens, with the ports chosen. */
  readonly dnsAddresses: readonly SocketAddress[];
  /** Sockets, routes and timers go; the pods' rules and Envoy's configuration stay. Throws AggregateError at the end. */
  close(): Promise<void>;
}

/** Starts everything. Throws StoreError, IdentityError, AgentError, InputError or the error of a bind; nothing is left open then. */
export async function openAgentProcess(options: AgentProcessOptions): Promise<AgentProcess> {
  const undo = new Undo();
  try {
    return await open(options, undo);
  } catch (error) {
    await undo.run().catch((later: unknown) => options.log.error('agent.undo.failed', { reason: messageOf(later) }));
    throw error;
  }
}

async function open({ settings, kernel, log, version }: AgentProcessOptions, undo: Undo): Promise<AgentProcess> {
  const startedAt = systemClock.now();
  // Before anything is read or written: a second agent on the same places would undo the work of the first.
  for (const path of [settings.cniSocket, settings.adminSocket, settings.xdsSocket, settings.relaySocket]) {
    makeSocketDir(dirname(path));
    await removeStaleSocket(path);
  }
  const pins: VipPins = settings.servicesFile === undefined ? new Map() : await readServicesFile(settings.servicesFile);
  makeSocketDir(dirname(settings.healthSocket));
  const health = createHealthGateway(settings.healthSocket);
  undo.add(async () => health[Symbol.dispose]());
  const loop = watchLoopDelay();
  undo.add(async () => loop[Symbol.dispose]());
  const trim = openMemoryTrimmer(kernel.trimMemory, log);
  undo.add(async () => trim[Symbol.dispose]());
  const onWork = (): void => {
    loop.touch();
    trim.touch();
  };
  const parts = await build({ settings, kernel, log, pins, health, onWork });
  const { agent, life, cache } = parts;
  undo.add(() => agent[Symbol.asyncDispose]());
  const report = await startAgent(agent);
  await tidyPins(agent);
  const startProblems = report.broken.map((record) => `a pod record cannot be used: ${record}`);
  startProblems.push(...(await prohibitRanges({ settings, kernel, log, undo })));

  const xds = createAdsServer({ socketPath: settings.xdsSocket, mode: settings.xdsSocketMode, cache, log });
  undo.add(() => xds.close());
  await xds.start();
  const dnsAddresses = await openDns({ settings, agent, log, undo });
  const admin = new LocalAdmin({ agent, life, listPins, startProblems });
  await openSockets({ settings, kernel, log, undo, version, startedAt, admin, dnsAddresses, parts, loop });
  void reportBarePods(agent);
  const replay = replayRemovals(agent, (containerId) => life.replayRemoval(containerId));
  undo.add(async () => replay[Symbol.dispose]());
  if (settings.servicesFile !== undefined) {
    const watch = watchServicesFile({ path: settings.servicesFile, log }, (next) => agent.setPins(next));
    undo.add(async () => watch[Symbol.dispose]());
  }
  await trim.now();
  return { ...parts, report, dnsAddresses, close: () => undo.run() };
}

// A directory that cannot be read is found by whoever needs it.
async function tidyPins(agent: NodeAgent): Promise<void> {
  const { pinDir } = agent.settings;
  const old = await listOldPins(pinDir, { olderThanMs: STALE_PIN_MS }).catch(() => []);
  await dropStalePins(agent, { old, release: (id) => attachmentBook.release(attachmentDirOf({ pinDir }), id) });
}

// The plugin is let in last: everything that a pod needs is there.
async function openSockets(options: {
  readonly settings: AgentSettings;
  readonly kernel: KernelDeps;
  readonly log: Log;
  readonly undo: Undo;
  readonly version: string;
  readonly startedAt: Date;
  readonly admin: LocalAdmin;
  readonly dnsAddresses: readonly SocketAddress[];
  readonly parts: Built;
  readonly loop: LoopDelayMonitor;
}): Promise<void> {
  const { settings, kernel, log, undo, admin, loop } = options;
  const { agent, life, cache } = options.parts;
  const listRejections = () => cache.listRejections();
  const host = { ...agentHost, loopDelay: loop.read };
  const adminServer = await openAdminServer({
    socketPath: settings.adminSocket,
    mode: 0o600,
    agent,
    admin,
    version: options.version,
    startedAt: options.startedAt,
    listRejections,
    places: describePlaces(settings, { dnsAddresses: options.dnsAddresses, hasRelay: kernel.relay !== undefined }),
    loopDelay: loop.read,
    check: (subject) => checkNode(agent, { subject, rules: kernel.tables, host, listRejections, timeoutMs: CHECK_MS }),
    log,
  });
  undo.add(() => adminServer.close());
  const cni = await openCniServer({ socketPath: settings.cniSocket, mode: 0o600, pods: life, log });
  undo.add(() => cni.close());
  if (kernel.relay === undefined) return;
  const { namespaces, relay } = kernel;
  const { relaySocket: socketPath } = settings;
  const relayServer = await openAgentRelay({
    ...relay,
    socketPath,
    namespaces,
    pods: life,
    admin,
    log,
    onWork: loop.touch,
  });
  undo.add(() => relayServer.close());
}

function describePlaces(
  settings: AgentSettings,
  { dnsAddresses, hasRelay }: { readonly dnsAddresses: readonly SocketAddress[]; readonly hasRelay: boolean },
): AdminServerOptions['places'] {
  return {
    cniSocket: settings.cniSocket,
    relaySocket: hasRelay ? settings.relaySocket : '',
    xdsSocket: settings.xdsSocket,
    xdsSocketMode: settings.xdsSocketMode,
    recordDir: settings.recordDir,
    netnsPinDir: settings.netnsPinDir,
    deleteQueueDir: settings.deleteQueueDir,
    meshDns: dnsAddresses.map(formatSocketAddress),
    meshDomain: settings.meshDomain,
  };
}

interface Built {
  readonly agent: NodeAgent;
  readonly life: PodLife;
  readonly cache: SnapshotCache;
}

async function build(options: {
  readonly settings: AgentSettings;
  readonly kernel: KernelDeps;
  readonly log: Log;
  readonly pins: VipPins;
  readonly health: HealthGateway;
  readonly onWork: () => void;
}): Promise<Built> {
  const { settings, kernel, log, pins, health, onWork } = options;
  const clock = systemClock;
  const trustDomain = settings.meshDomain;
  const authority =
    settings.identity === 'none'
      ? undefined
      : await openEmbeddedAuthority({
          caDir: settings.caDir,
          trustDomain,
          clock,
          lifetimeMs: settings.certificateLifetimeMs,
        });
  const cache: SnapshotCache = new SnapshotCache({
    clock,
    log,
    isPending: (kind, name) => agent.isPending(kind, name),
    onAsk: (kind, name) => agent.noteAsked(kind, name),
  });
  const agent = new NodeAgent(
    {
      records: new FileRecordStore(settings.recordDir, kernel.files),
      vips: new FileVipStore(join(settings.stateDir, 'vips.json')),
      removals: new FileRemovalQueue(settings.deleteQueueDir),
      registry: new EmbeddedRegistry(),
      authority,
      namespaces: kernel.namespaces,
      holdNetns,
      tables: kernel.tables,
      publisher: cache,
      health,
      clock,
      log,
      onWork,
    },
    nodeSettings(settings, pins),
  );
  return { agent, life: new PodLife(agent), cache };
}

function nodeSettings(settings: AgentSettings, pins: VipPins): NodeAgentSettings {
  const { meshDomain, region, zone } = settings;
  return {
    facts: {
      nodeName: settings.nodeName,
      clusterName: settings.clusterName,
      region,
      zone,
      hostIp: settings.hostIp?.text ?? '',
      trustDomain: meshDomain,
      redirectAllDefault: settings.captureRedirectAllDefault,
      ...(settings.kubeletPodsDir === undefined ? {} : { kubeletPodsDir: settings.kubeletPodsDir }),
    },
    node: {
      meshDomain,
      trustDomain: meshDomain,
      identity: settings.identity === 'none' ? 'none' : 'mtls',
      ...(region === '' && zone === '' ? {} : { locality: { region, zone } }),
      ipv6: hasIpv6(),
      healthSocket: settings.healthSocket,
      captureForm: settings.captureForm,
      onDemandTcp: settings.onDemandTcp,
      ...(settings.accessLog === undefined ? {} : { accessLog: settings.accessLog }),
    },
    vipRanges: settings.vipRanges,
    pins,
    pinDir: settings.netnsPinDir,
    scope: settings.serviceScope,
  };
}

// Without these routes a dial that nothing captured hangs instead of failing: a pity, not a reason to be down.
async function prohibitRanges(options: {
  readonly settings: AgentSettings;
  readonly kernel: KernelDeps;
  readonly log: Log;
  readonly undo: Undo;
}): Promise<readonly string[]> {
  const ranges = options.settings.vipRanges.map(({ text }) => text);
  options.undo.add(() => options.kernel.routes.release(ranges));
  try {
    await options.kernel.routes.prohibit(ranges);
    return [];
  } catch (error) {
    options.log.error('agent.vip_route.failed', { reason: messageOf(error) });
    return [`the ranges of service addresses have no prohibit route: ${messageOf(error)}`];
  }
}

async function openDns(options: {
  readonly settings: AgentSettings;
  readonly agent: NodeAgent;
  readonly log: Log;
  readonly undo: Undo;
}): Promise<readonly SocketAddress[]> {
  const { settings, agent, log, undo } = options;
  if (settings.meshDns.length === 0) return [];
  const dns = await openMeshDns({
    listen: settings.meshDns,
    domain: settings.meshDomain,
    names: agent.catalog,
    upstreams: settings.dnsUpstreams.length > 0 ? () => settings.dnsUpstreams : followResolvConf('/etc/resolv.conf'),
    log,
  }).catch((error: unknown) => {
    const remedy = '--mesh-dns says where it listens (by default on --host-ip), or "off"';
    throw new Error(`mesh DNS: ${messageOf(error)}: ${remedy}`, { cause: error });
  });
  undo.add(() => dns.close());
  return dns.addresses;
}

// Everybody may look into a directory that we make for sockets (the sockets have modes of their own): Envoy need not be root.
function makeSocketDir(path: string): void {
  if (mkdirSync(path, { recursive: true }) !== undefined) chmodSync(path, 0o755);
}

/** What was opened, closed once, last first, going on after errors. */
class Undo {
  readonly #steps: (() => Promise<void>)[] = [];
  #done: Promise<void> | undefined;

  add(step: () => Promise<void>): void {
    this.#steps.push(step);
  }

  run(): Promise<void> {
    this.#done ??= this.#runAll();
    return this.#done;
  }

  async #runAll(): Promise<void> {
    const problems: unknown[] = [];
    for (const step of this.#steps.toReversed()) await step().catch((error: unknown) => problems.push(error));
    if (problems.length > 0) throw new AggregateError(problems, problems.map(messageOf).join('; '));
  }
}
