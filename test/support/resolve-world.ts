// A node whose every connection leaves evidence: clients of both capture modes, pods that serve whatever services a test
// makes up, and a world outside that answers at any address. Dials go through the real kernel and the real Envoy; what
// became of each is said in the same words as what resolve() says of it (resolve-words.ts). Root only.
import { execFile, execFileSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { duplexPair } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { startProcess, waitUntil } from '../../scripts/lab/processes.ts';
import { createRules } from '../../src/adapters/kernel/rules.ts';
import { planMeshTable } from '../../src/capture/mesh-table.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { CapturePolicy } from '../../src/capture/policy.ts';
import { RESERVED_TCP_PORTS } from '../../src/mesh/constants.ts';
import type { ServedPort } from '../../src/mesh/port-protocols.ts';
import type { Dial } from '../../src/mesh/resolve-in-kernel.ts';
import type { ServiceView } from '../../src/mesh/service-view.ts';
import type { NodeSettings } from '../../src/xds/input.ts';
import type { Snapshot } from '../../src/xds/resource.ts';
import { openNative } from './native.ts';
import type { DialJob, DialReport } from './resolve-dialler.ts';
import { addEvidence, type LogLine, readEvidence } from './resolve-evidence.ts';
import { type Dialler, sayTraces } from './resolve-words.ts';
import { makeView } from './services.ts';
import { EXAMPLE_NODE } from './xds-example.ts';
import { startXdsNode, type XdsNode, type XdsPod } from './xds-node.ts';

const run = promisify(execFile);

/** A service as a test makes it up: `{ name: 'shop', vips, primary: 8080, ports: { 8080: 'http', 7070: 'h2', 9000: 'tcp' } }`. */
export interface ServiceSpec {
  readonly name: string;
  readonly vips: readonly [string, string];
  readonly primary: number;
  /** Empty: the service has no endpoint. */
  readonly ports: Readonly<Record<number, 'http' | 'h2' | 'tcp'>>;
}

/** A dial of one of the clients. */
export interface ClientDial {
  readonly client: string;
  readonly dial: Dial;
}

export type CaptureForm = NonNullable<NodeSettings['captureForm']>;

/** Ranges of the world outside, and of service addresses: there is nobody there but the world. */
const OUTSIDE_RANGES = ['10.96.0.0/16', 'fd96::/64'] as const;
/** Where a client's own application listens, on all its addresses. */
export const CLIENT_APP_PORT = 7777;
export const CLIENTS: Readonly<Record<string, CapturePolicy>> = {
  'client-0': { redirectAll: true, excludePorts: [], excludeRanges: [] },
  'scoped-0': { redirectAll: false, excludePorts: [], excludeRanges: [] },
};
/** Below the ports that a kernel chooses itself, and none that anybody listens on: a dial is known by its source port. */
const SOURCE_PORTS = { first: 20_000, last: 32_000 };
/** A silent client speaks after all, long after the inspectors' second. */
const SILENT_MS = 2000;
/** Where the application of every pod listens. */
export const APP_PORT = 7;
/** Of TCP ports: there the application speaks first. */
export const FIRST_PORT = 8;
const LOOPBACK_TO_APP = `table inet any {
  set tcp_ports { type inet_service; }
  chain output {
    type nat hook output priority -110;
    ip daddr 127.0.0.0/8 tcp dport @tcp_ports redirect to :${FIRST_PORT};
    ip daddr 127.0.0.0/8 tcp dport != { ${APP_PORT}, ${FIRST_PORT} } redirect to :${APP_PORT};
  }
}`;
const ALL_TO_APP = `table inet any {
  chain prerouting { type nat hook prerouting priority -110; meta l4proto tcp redirect to :${APP_PORT}; }
}`;

/** Starts the node with `servers` pods that can serve anything; everything ends with the test. */
export async function startResolveWorld(
  t: { teardown(fn: () => unknown): unknown },
  { servers, form }: { readonly servers: readonly string[]; readonly form: CaptureForm },
): Promise<ResolveWorld> {
  const rules = createRules(openNative());
  const policies = new Map(Object.entries(CLIENTS));
  const program = async ({ name, netns }: XdsPod, { meshSets }: Snapshot): Promise<void> => {
    const policy = policies.get(name);
    if (policy === undefined) return;
    await rules.replaceTable(netns.path, planPluginTable(policy));
    if (form === 'split') await rules.replaceTable(netns.path, planMeshTable(policy, meshSets));
  };
  const node = await startXdsNode(t, { envoyArgs: ['--file-flush-interval-msec', '20'], program });
  const add = (name: string): XdsPod => node.addPod(name, name.replace(/-0$/, ''), { port: '8080' });
  const outside = add('outside');
  const [dns, clients, pods] = [add('dns'), Object.keys(CLIENTS).map(add), servers.map((name) => add(`${name}-0`))];
  for (const { netns } of [outside, dns]) nft(netns.path, ALL_TO_APP);
  for (const { netns } of pods) nft(netns.path, LOOPBACK_TO_APP);
  for (const range of OUTSIDE_RANGES) {
    const via = range.includes(':') ? outside.ip6 : outside.ip4;
    ip(outside.netns.path, 'route', 'add', 'local', range, 'dev', 'lo');
    for (const { netns } of clients) ip(netns.path, 'route', 'add', range, 'via', via);
  }
  await Promise.all([
    ...[outside, dns].map((pod) => startApp(t, node, { pod, name: pod.name, ports: [APP_PORT] })),
    ...pods.map((pod) => startApp(t, node, { pod, name: pod.name.replace(/-0$/, ''), ports: [APP_PORT, FIRST_PORT] })),
    ...clients.map((pod) => startApp(t, node, { pod, name: pod.name, ports: [CLIENT_APP_PORT] })),
  ]);
  return new ResolveWorld(node, { clients, pods, dnsAddress: dns, policies, form });
}

interface Cast {
  readonly clients: readonly XdsPod[];
  readonly pods: readonly XdsPod[];
  readonly dnsAddress: Pick<XdsPod, 'ip4' | 'ip6'>;
  /** By name of client; read when tables are put in place. */
  readonly policies: Map<string, CapturePolicy>;
  readonly form: CaptureForm;
}

export class ResolveWorld {
  readonly node: XdsNode;
  readonly #cast: Cast;
  readonly #logFile: string;
  #sourcePort = SOURCE_PORTS.first;
  #jobs = 0;

  constructor(node: XdsNode, cast: Cast) {
    this.node = node;
    this.#cast = cast;
    this.#logFile = join(node.dir, 'evidence.log');
    writeFileSync(this.#logFile, '');
  }

  get form(): CaptureForm {
    return this.#cast.form;
  }

  /** Addresses of the pod that stands for mesh DNS. */
  get dns(): { readonly ip4: string; readonly ip6: string } {
    return this.#cast.dnsAddress;
  }

  /** Serves exactly these services, each from the pod of its name; returns their views. Policies stay where not given. */
  async publish(
    specs: readonly ServiceSpec[],
    policies: Readonly<Record<string, CapturePolicy>> = {},
  ): Promise<readonly ServiceView[]> {
    for (const [name, policy] of Object.entries(policies)) this.#cast.policies.set(name, policy);
    const services = specs.map((spec) => this.#view(spec)).sort((a, b) => (a.fqdn < b.fqdn ? -1 : 1));
    const clients = this.#cast.clients.map((pod) => ({
      ...pod,
      pod: { ...pod.pod, redirectAll: this.policyOf(pod.name).redirectAll },
    }));
    const servers = specs.flatMap((spec) => this.#server(spec) ?? []);
    await this.node.publish(
      [...clients, ...servers],
      { node: { ...EXAMPLE_NODE, captureForm: this.form }, services },
      (snapshot) => addEvidence(snapshot, this.#logFile),
    );
    for (const { netns, pod } of servers) setTcpPorts(netns.path, pod.ports.served);
    return services;
  }

  policyOf(client: string): CapturePolicy {
    const policy = this.#cast.policies.get(client);
    if (policy === undefined) throw new Error(`no client "${client}"`);
    return policy;
  }

  /** Dials, many at a time; what became of each, in words, in the order given. */
  async dialAll(dials: readonly ClientDial[]): Promise<readonly string[]> {
    const start = statSync(this.#logFile).size;
    const planned = dials.map((one) => ({ ...one, job: this.#plan(one.dial) }));
    const said = new Map<unknown, string>();
    await Promise.all(
      this.#cast.clients.map(async (pod) => {
        const own = planned.filter(({ client }) => client === pod.name);
        const reports = await this.#run(
          pod,
          own.map(({ job }) => job),
        );
        await this.#settle(pod);
        const log = indexLog(readEvidence(this.#logFile, start));
        own.forEach((one, index) => {
          const report = reports[index];
          if (report === undefined) throw new Error(`the client said nothing of ${JSON.stringify(one)}`);
          const lines = log.connections.get(one.job.sourcePort) ?? [];
          const hops = lines.flatMap((line) => log.hops.get(hopKey(line, [line.source, line.upstream])) ?? []);
          said.set(one, sayTraces({ dial: one.dial, dialler: diallerOf(pod), report, lines, hops }));
        });
      }),
    );
    return planned.map((one) => said.get(one) ?? 'not dialled');
  }

  /** How often a listener of a client gave up waiting for the client's first bytes. */
  countWaits(client: string, listener: 'capture' | 'capture_tcp' | 'capture_shim'): Promise<number> {
    return this.node.counter(`listener.${listener}_demo_${client}.downstream_pre_cx_timeout`);
  }

  #view(spec: ServiceSpec): ServiceView {
    const server = this.#server(spec);
    const ports = Object.fromEntries(
      Object.entries(spec.ports).map(([port, kind]) => [port, kind === 'tcp' ? 'tcp' : 'http'] as const),
    );
    const endpoints = server === undefined ? [] : [{ ip: server.ip4, primary: spec.primary, ports }];
    return makeView(`demo/${spec.name}`, spec.vips, endpoints);
  }

  #server(spec: ServiceSpec): XdsPod | undefined {
    if (Object.keys(spec.ports).length === 0) return undefined;
    const pod = this.#cast.pods.find(({ name }) => name === `${spec.name}-0`);
    if (pod === undefined) throw new Error(`no pod for ${spec.name}`);
    // A pod that declares a reserved port is refused; an endpoint that another program registered may have one.
    const served = Object.entries(spec.ports)
      .filter(([port, kind]) => kind !== 'tcp' || !RESERVED_TCP_PORTS.has(Number(port)))
      .map(
        ([port, kind]): ServedPort =>
          kind === 'tcp'
            ? { port: Number(port), protocol: 'tcp' }
            : { port: Number(port), protocol: 'http', codec: kind === 'h2' ? 'h2' : 'h1' },
      );
    return { ...pod, pod: { ...pod.pod, ports: { primary: spec.primary, served } } };
  }

  #plan(dial: Dial): DialJob {
    this.#sourcePort = this.#sourcePort >= SOURCE_PORTS.last ? SOURCE_PORTS.first : this.#sourcePort + 1;
    const sourcePort = this.#sourcePort;
    return {
      host: dial.address.text,
      port: dial.port,
      sourcePort,
      sendHex: firstBytes(dial, `/d/${this.#jobs++}`).toString('hex'),
      delayMs: dial.bytes === 'silent' ? SILENT_MS : 0,
    };
  }

  async #run(pod: XdsPod, jobs: readonly DialJob[]): Promise<readonly DialReport[]> {
    if (jobs.length === 0) return [];
    const file = join(this.node.dir, `${pod.name}.jobs.json`);
    writeFileSync(file, JSON.stringify(jobs));
    const command = [`--net=${pod.netns.path}`, '--', process.execPath, DIALLER, file];
    const { stdout } = await run('nsenter', command, { maxBuffer: 64 * 1024 * 1024 });
    return JSON.parse(stdout) as readonly DialReport[]; // printed by our own client
  }

  // A line is written when its connection ends, and reaches the file a moment later.
  async #settle({ pod: { resourceName } }: XdsPod): Promise<void> {
    const listeners = ['capture', 'capture_tcp', 'capture_shim'].map((kind) => `${kind}_${resourceName}`);
    await waitUntil(
      'the connections to end',
      async () => {
        const active = await Promise.all(
          listeners.map((name) => this.node.counter(`listener.${name}.downstream_cx_active`)),
        );
        return active.every((count) => count === 0);
      },
      { timeoutMs: 20_000 },
    );
    for (let before = -1, size = 0; before !== size; ) {
      before = statSync(this.#logFile).size;
      await sleep(120);
      size = statSync(this.#logFile).size;
    }
  }
}

const DIALLER = `${import.meta.dirname}/resolve-dialler.ts`;
const APP = `${import.meta.dirname}/resolve-app.ts`;

function diallerOf({ name, ip4, ip6, pod: { resourceName, identity } }: XdsPod): Dialler {
  return { name, resourceName, identity, ip4, ip6 };
}

// What both ends of the mesh hop say of it: the path of an HTTP request, the two addresses of a TCP connection.
function hopKey(line: LogLine, ends: readonly [from: string, to: string]): string {
  return line.kind === 'request' ? line.path : ends.join(' ');
}

/** Lines of the clients' connections by source port; of deliveries by hop. */
function indexLog(lines: readonly LogLine[]) {
  const connections = new Map<number, LogLine[]>();
  const hops = new Map<string, LogLine[]>();
  const push = <K>(map: Map<K, LogLine[]>, key: K, line: LogLine): void => {
    const list = map.get(key);
    if (list === undefined) map.set(key, [line]);
    else list.push(line);
  };
  for (const line of lines) {
    if (line.listener.startsWith('capture')) push(connections, Number(line.remote.split(':').at(-1)), line);
    else if (line.listener.startsWith('inbound')) push(hops, hopKey(line, [line.remote, line.local]), line);
  }
  return { connections, hops };
}

let clientHello: Buffer | undefined;

function firstBytes(dial: Dial, path: string): Buffer {
  switch (dial.bytes) {
    case 'http': {
      const host = dial.authority === undefined ? [] : [`Host: ${dial.authority}`];
      return Buffer.from([`GET ${path} HTTP/1.1`, ...host, 'Connection: close', '', ''].join('\r\n'));
    }
    case 'tls':
      clientHello ??= makeClientHello();
      return clientHello;
    case 'raw':
    case 'silent':
      return Buffer.from('\u0000\u0001raw');
  }
}

function makeClientHello(): Buffer {
  const [ours, theirs] = duplexPair();
  const socket = connectTls({ socket: ours, servername: 'shop.demo.aether.internal' });
  socket.on('error', () => {});
  const hello = theirs.read() as Buffer | null;
  socket.destroy();
  if (hello === null) throw new Error('no ClientHello');
  return hello;
}

async function startApp(
  t: { teardown(fn: () => unknown): unknown },
  node: XdsNode,
  { pod, name, ports }: { readonly pod: XdsPod; readonly name: string; readonly ports: readonly number[] },
): Promise<void> {
  const app = startProcess({
    name: `app of ${name}`,
    command: [process.execPath, APP, name, ...ports.map(String)],
    logFile: join(node.dir, `${pod.name}.log`),
    netns: pod.netns.path,
  });
  t.teardown(() => app.stop());
  await waitUntil(`the application of ${name}`, () => app.tail().split('listening').length > ports.length, {
    timeoutMs: 30_000,
    process: app,
  });
}

function setTcpPorts(netns: string, served: readonly ServedPort[]): void {
  const ports = served.filter(({ protocol }) => protocol === 'tcp').map(({ port }) => port);
  const add = ports.length === 0 ? '' : `add element inet any tcp_ports { ${ports.join(', ')} }`;
  nft(netns, `flush set inet any tcp_ports\n${add}\n`);
}

function nft(netns: string, text: string): void {
  execFileSync('nsenter', [`--net=${netns}`, '--', 'nft', '-f', '-'], { input: text });
}

function ip(netns: string, ...command: readonly string[]): void {
  execFileSync('nsenter', [`--net=${netns}`, '--', 'ip', ...command]);
}
