// What services cost the agent alone: no Envoy, no kernel, everything up to the bytes of the xDS socket.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { MeshTables } from '../../src/agent/deps.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { CAPTURE_ROUTES, OUTBOUND_ROUTES } from '../../src/mesh/names.ts';
import type { Namespaces } from '../../src/plugin/deps.ts';
import { AckingEnvoy } from './mesh-acks.ts';
import { FOUR_PORTS, ipOf, type MeshNode, openMeshNode, podRequest, register, registerMany } from './mesh-node.ts';
import { markdownTable, show } from './samples.ts';

const PODS = 100;
const CHANGES = 40;
/** Of what is built anew each time. */
const REBUILDS = 10;
/** Before anything is measured: the code is optimized then, as in an agent that has run for a while. */
const WARM_UP = 200;

const TABLES: MeshTables = {
  replaceTable: async () => {},
  destroyTable: async () => {},
  changeElements: async (netns) => netns.map((path) => ({ netns: path })),
};
const NAMESPACES: Namespaces = {
  assertUsable: async () => {},
  identify: async (path) => path,
  pin: async (path) => path,
  unpin: async () => {},
};

interface Measured {
  readonly services: number;
  readonly coldMs: number;
  readonly endpointMs: number;
  readonly endpointBytes: number;
  readonly portMs: number;
  readonly portBytes: number;
  readonly podMs: number;
  readonly podBytes: number;
  readonly blockMs: number;
  readonly memoryMb: number;
}

/** `sizes`: numbers of services, each with `endpoints` pods of four ports. */
export async function measureMeshAgent(options: {
  readonly sizes: readonly number[];
  readonly endpoints: number;
  readonly onProgress?: (text: string) => void;
}): Promise<string> {
  const rows: Measured[] = [];
  for (const services of options.sizes) {
    options.onProgress?.(`${services} services`);
    rows.push(await measure(services, options.endpoints));
  }
  const table = markdownTable([
    ['services', ...rows.map(({ services }) => String(services))],
    ['one endpoint changed: ms of CPU', ...rows.map(({ endpointMs }) => show(endpointMs))],
    ['— bytes to Envoy', ...rows.map(({ endpointBytes }) => String(endpointBytes))],
    ['one TCP port more: ms of CPU', ...rows.map(({ portMs }) => show(portMs))],
    ['— bytes to Envoy', ...rows.map(({ portBytes }) => String(portBytes))],
    ['one local pod more (ADD to its last answer): ms of CPU', ...rows.map(({ podMs }) => show(podMs))],
    ['— bytes to Envoy', ...rows.map(({ podBytes }) => String(podBytes))],
    ['longest block of the event loop meanwhile: ms', ...rows.map(({ blockMs }) => show(blockMs, 1))],
    ['first snapshot from nothing: ms', ...rows.map(({ coldMs }) => show(coldMs, 0))],
    ['memory for it (heap and buffers): MiB', ...rows.map(({ memoryMb }) => show(memoryMb, 0))],
  ]);
  const what = `${options.endpoints} endpoints and 4 ports a service, ${PODS} local pods; means of ${CHANGES} and ${REBUILDS} changes`;
  return `## The mesh: the agent alone\n\n${what}.\n\n${table}`;
}

async function measure(services: number, endpoints: number): Promise<Measured> {
  const dir = mkdtempSync(join(tmpdir(), 'ae-mesh-'));
  const before = usedMb();
  await using node = await openMeshNode({ dir, tables: TABLES, namespaces: NAMESPACES });
  try {
    await registerMany(node.registry, { services, endpoints, ports: FOUR_PORTS });
    const begun = performance.now();
    await startAgent(node.agent);
    const coldMs = performance.now() - begun;
    const envoy = new AckingEnvoy(node.cache, [CAPTURE_ROUTES, OUTBOUND_ROUTES]);
    // At once, as after a drain: they share what is built.
    await Promise.all(Array.from({ length: PODS }, (_, pod) => addPod(node, pod)));
    await node.settle();
    const memoryMb = usedMb() - before;
    for (let i = 0; i < WARM_UP; i++) {
      await changeEndpoint(node, services, i);
      await node.settle();
    }
    const loop = monitorEventLoopDelay({ resolution: 1 });
    loop.enable();
    const bench = { node, envoy };
    const endpoint = await spend(bench, CHANGES, (i) => changeEndpoint(node, services, WARM_UP + i));
    const port = await spend(bench, REBUILDS, (i) => addPort(node, services, i));
    const pod = await spend(bench, REBUILDS, (i) => addPod(node, PODS + i));
    loop.disable();
    return {
      ...{ services, coldMs, memoryMb, blockMs: loop.max / 1e6 },
      ...{ endpointMs: endpoint.ms, endpointBytes: endpoint.bytes, portMs: port.ms, portBytes: port.bytes },
      ...{ podMs: pod.ms, podBytes: pod.bytes },
    };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

interface Bench {
  readonly node: MeshNode;
  readonly envoy: AckingEnvoy;
}

// One more endpoint of some service.
function changeEndpoint({ registry }: MeshNode, services: number, index: number): Promise<void> {
  const service = index % services;
  return register(registry, {
    service: `svc-${service}`,
    ip: ipOf(service, 100 + Math.floor(index / services)),
    ports: FOUR_PORTS,
  });
}

function addPort({ registry }: MeshNode, services: number, index: number): Promise<void> {
  const service = services - 1 - (index % services);
  return register(registry, { service: `svc-${service}`, ip: ipOf(service, 0), ports: { ...FOUR_PORTS, 7000: 'tcp' } });
}

async function addPod({ life }: MeshNode, index: number): Promise<void> {
  const [name, netns, ip] = [`pod-${index}`, `/run/netns/bench-${index}`, `10.90.${index >> 8}.${1 + (index & 255)}`];
  const request = podRequest({ name, account: `local-${index}`, netns, ip });
  await life.addPod(request, { timeoutMs: 5000, proxyReady: 'skip' });
}

async function spend({ node, envoy }: Bench, times: number, change: (index: number) => Promise<void>) {
  envoy.take();
  const begun = process.cpuUsage();
  for (let i = 0; i < times; i++) {
    await change(i);
    await node.settle();
  }
  const { user, system } = process.cpuUsage(begun);
  return { ms: (user + system) / 1000 / times, bytes: Math.round(envoy.take() / times) };
}

// What lives: before each look everything else is collected.
function usedMb(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return (heapUsed + arrayBuffers) / 1024 / 1024;
}
