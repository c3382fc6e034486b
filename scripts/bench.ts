// npm run bench [-- --quick] [-- --peers]: what we cost, beside what everybody has and beside other plugins, all in one run.
// Milliseconds depend on the machine; the ratios are what to compare. Writes bench/latest.md and the README's table; --quick
// measures little, and only prints. Everything happens in a room (lab/sandbox.ts) that takes all of it along when it ends.
import { existsSync, mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { countSystemCalls } from './bench/count-system-calls.ts';
import { formatCalls, formatShort } from './bench/format-calls.ts';
import { formatGates, judge, listGates } from './bench/gates.ts';
import { startIstioPeer } from './bench/istio.ts';
import { measureKernel } from './bench/kernel.ts';
import { formatBursts, measureBursts, residentMb } from './bench/measure-bursts.ts';
import { measureCalls, settleNode } from './bench/measure-calls.ts';
import { measureCrowd } from './bench/measure-crowd.ts';
import { measureEnvoy } from './bench/measure-envoy.ts';
import { measureFloor } from './bench/measure-floor.ts';
import { measureRest } from './bench/measure-rest.ts';
import { measureSandbox } from './bench/measure-sandbox.ts';
import { measureMeshAgent } from './bench/mesh-agent.ts';
import { measureMeshEnvoy } from './bench/mesh-envoy.ts';
import { type BenchAgent, listPlugins, NOOP, OURS, OURS_PROXIED, TUNING } from './bench/plugins.ts';
import { readLoopDelay } from './bench/read-agent.ts';
import { describeMachine, describeSource, writeReport } from './bench/report.ts';
import { show } from './bench/samples.ts';
import { agentPlaces, startAgent } from './lab/agent.ts';
import { type Lab, startLab } from './lab/lab.ts';
import { EXECUTABLE, RELAY, ROOT } from './lab/places.ts';
import { enterSandbox } from './lab/sandbox.ts';
import { hideHostDirs, reserveCgroup } from './runtimes/runtime-room.ts';

const { quick, peers } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, peers: { type: 'boolean', default: false } },
}).values;
/** Rounds of each section. */
const ROUNDS = quick
  ? {
      calls: 10,
      bursts: 1,
      crowd: 10,
      sandbox: 3,
      rest: 1,
      envoy: 1,
      floor: 20,
      kernel: 3,
      mesh: 3,
      sizes: [100, 1000],
    }
  : {
      calls: 100,
      bursts: 3,
      crowd: 50,
      sandbox: 60,
      rest: 4,
      envoy: 3,
      floor: 150,
      kernel: 15,
      mesh: 15,
      sizes: [100, 1000, 10_000],
    };
/** From an agent's start to its rest. */
const REST_MS = 15_000;
/** Numbers of pods, so that no section meets a pod of another. */
const FIRST = { traced: 5000, crowd: 6000, rest: 8000, bursts: 10_000, settled: 40_000 };

const CONDITIONS = `Files on tmpfs. The
node has 20 pods of 10 services that stay; a measured pod is one more of such a service, where it is not said that it is the first.`;

/** What a section may use. */
interface Bench {
  /** Agent, Envoy and pods that talk to each other. */
  readonly lab: Lab;
  /** From nothing to the lab's first answer. */
  readonly labMs: number;
  /** An agent without Envoy: as other plugins are measured without what carries their traffic. */
  readonly agent: BenchAgent;
  readonly dir: string;
}

/** Sections that stand by themselves: what it says while it runs, and a function that gives a Markdown table. */
const SECTIONS: readonly (readonly [string, (bench: Bench) => Promise<string>])[] = [
  ['the kernel alone', ({ dir }) => measureFloor({ dir, rounds: ROUNDS.floor })],
  ['the kernel, asked by the agent', ({ dir }) => measureKernel({ dir: join(dir, 'ns'), rounds: ROUNDS.kernel })],
  // Last of the plugin's: it leaves the lab another Envoy.
  ['Envoy', ({ lab, labMs }) => measureEnvoy(lab, { nodeName: 'lab-node', rounds: ROUNDS.envoy, firstMs: labMs })],
  ['the mesh with Envoy', measureMesh],
  ['the mesh: the agent alone', () => measureMeshAgent({ sizes: ROUNDS.sizes, endpoints: 10, onProgress: say })],
];

const load = loadavg()[0] ?? 0;
const cgroup = reserveCgroup();
const setup: [string, ...string[]][] = peers ? [['bash', join(ROOT, 'scripts/runtimes/setup.sh'), '--peers']] : [];
const sandbox = await enterSandbox(import.meta.filename, {
  prepare: [...setup, [process.execPath, join(ROOT, 'scripts/build.ts')]],
});
const begunMs = performance.now();
await main();
process.exit(0);

function say(text: string): void {
  process.stderr.write(`bench  ${Math.round((performance.now() - begunMs) / 1000)} s  ${text}\n`);
}

async function main(): Promise<void> {
  hideHostDirs();
  say('starting agent, Envoy and pods');
  const lab = await startLab(sandbox);
  const labMs = performance.now() - begunMs;
  const agent = await startBareAgent();
  const dir = join(sandbox.dir, 'bench');
  mkdirSync(dir);
  const bench = { lab, labMs, agent, dir };
  const plugin = await measurePlugin(bench);
  const sections: string[] = [];
  for (const [name, measure] of SECTIONS) {
    say(name);
    sections.push(await measure(bench));
  }
  const machine = describeMachine({ load });
  const latest = `# What it costs\n\n\`npm run bench\`. ${machine} ${describeSource()} ${CONDITIONS}\n\n${[...plugin.sections, ...sections].join('\n\n')}\n`;
  process.stdout.write(latest);
  if (!quick) writeReport({ latest, readme: `${machine}\n\n${plugin.short}` });
  say('done');
}

// Nothing of the lab is needed any more, and these pods get its bridge.
async function measureMesh({ lab, dir }: Bench): Promise<string> {
  await lab[Symbol.asyncDispose]();
  return measureMeshEnvoy({ dir: join(dir, 'mesh'), rounds: ROUNDS.mesh, onProgress: say });
}

/** Everything that the gates are about. */
async function measurePlugin(bench: Bench): Promise<{ readonly sections: readonly string[]; readonly short: string }> {
  const { lab, agent, dir } = bench;
  const proxied: BenchAgent = { dir: lab.dir, pid: lab.agent.pid, places: lab.places };
  // What only its start needed has been let go.
  await sleep(REST_MS);
  const startMb = residentMb(agent.pid);
  await using stack = new AsyncDisposableStack();
  const istio = peers ? [stack.use(await startIstioPeer(dir)).plugin] : [];
  const plugins = [...listPlugins({ dir, agent, proxied }), ...istio];
  const named = (...names: readonly string[]) => plugins.filter(({ name }) => names.includes(name));

  say('pods that stay');
  for (const [i, plugin] of named(OURS, OURS_PROXIED).entries())
    await settleNode(plugin, { dir, first: FIRST.settled + 500 * i });
  const onProgress = (text: string) => say(text);
  const calls = await measureCalls({ plugins, dir, rounds: ROUNDS.calls, onProgress });
  say('system calls');
  const systemCalls = await countSystemCalls(plugins, { dir, first: FIRST.traced });
  say('many processes on the node');
  const crowd = await measureCrowd(named(OURS, NOOP), { dir, rounds: ROUNDS.crowd, first: FIRST.crowd });
  say('calls after some rest');
  const rest = await measureRest(named(NOOP, OURS), { dir, rounds: ROUNDS.rest, first: FIRST.rest });
  const bursts = await measureBursts({
    ...{ dir, repetitions: ROUNDS.bursts, first: FIRST.bursts, onProgress },
    plugins: ({ pods, width }) => named(OURS, TUNING, ...(pods === 100 && width === 50 ? [OURS_PROXIED] : [])),
  });
  const processesLeft = countOurProcesses([agent.pid, proxied.pid]);
  const loopDelay = await readLoopDelay(agent);
  const memory = `Memory of the agent without Envoy: ${show(startMb, 0)} MiB at start, ${show(residentMb(agent.pid), 0)} MiB after all pods. Its
event loop was ${show(loopDelay?.maxMs ?? Number.NaN, 0)} ms late at most within ${Math.round((loopDelay?.windowSeconds ?? 0) / 60)} min.`;
  say('containerd');
  const runtime = await measureSandbox({ agent, dir, rounds: ROUNDS.sandbox, cgroupParent: `/${cgroup}` });

  const table = { plugins, calls, systemCalls };
  const ratios = { crowdRatio: crowd.ratio, sandboxRatio: runtime.ratio };
  const gates = listGates({ ...table, bursts, processesLeft, loopDelayMs: loopDelay?.p99Ms ?? Number.NaN, ...ratios });
  const missed = gates.filter((gate) => judge(gate) === 'not met').length;
  say(missed === 0 ? 'no gate is missed' : `${missed} of ${gates.length} figures are not met`);
  const sections = [
    `## Gates\n\n${formatGates(gates)}`,
    `## Single calls\n\n${formatCalls(table)}`,
    `## Many pods at once\n\n${formatBursts(bursts)}\n\n${memory}`,
    `## And besides\n\n${crowd.text}\n\n${rest}\n\n${runtime.text}`,
  ];
  return { sections, short: `${formatShort(table)}\n\n${formatGates(gates)}` };
}

async function startBareAgent(): Promise<BenchAgent> {
  const dir = join(sandbox.dir, 'bare');
  mkdirSync(dir);
  const places = agentPlaces(dir);
  const { pid } = await startAgent({ dir, nodeName: 'bench', places, more: ['--mesh-dns', 'off'] });
  return { dir, pid, places };
}

function countOurProcesses(agents: readonly number[]): number {
  const files = [RELAY, EXECUTABLE].filter((file) => existsSync(file));
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name) || agents.includes(Number(name))) return false;
    try {
      return files.includes(readlinkSync(`/proc/${name}/exe`));
    } catch {
      return false; // ended meanwhile
    }
  }).length;
}
