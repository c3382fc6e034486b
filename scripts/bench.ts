// npm run bench [-- --quick] [-- --peers]: what we cost, beside what everybody has and beside other plugins, all in one run.
// Milliseconds depend on the machine; the ratios are what to compare. Writes bench/latest.md and the README's table; --quick
// measures little, and only prints. Everything happens in a room (lab/sandbox.ts) that takes all of it along when it ends.
import { existsSync, mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
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
import { measureSandbox } from './bench/measure-sandbox.ts';
import { type BenchAgent, listPlugins, NOOP, OURS, OURS_PROXIED, TUNING } from './bench/plugins.ts';
import { describeMachine, describeSource, writeReport } from './bench/report.ts';
import { show } from './bench/samples.ts';
import { agentPlaces, startAgent } from './lab/agent.ts';
import { startLab } from './lab/lab.ts';
import { EXECUTABLE, RELAY, ROOT } from './lab/places.ts';
import { enterSandbox } from './lab/sandbox.ts';
import { hideHostDirs, reserveCgroup } from './runtimes/runtime-room.ts';

const { quick, peers } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, peers: { type: 'boolean', default: false } },
}).values;
/** Rounds of each section. */
const ROUNDS = quick
  ? { calls: 10, bursts: 1, crowd: 10, sandbox: 3, envoy: 1, floor: 20, kernel: 3 }
  : { calls: 100, bursts: 3, crowd: 50, sandbox: 25, envoy: 3, floor: 150, kernel: 15 };
/** Numbers of pods, so that no section meets a pod of another. */
const FIRST = { traced: 5000, crowd: 6000, bursts: 10_000, settled: 40_000 };

const load = loadavg()[0] ?? 0;
const cgroup = reserveCgroup();
const setup: [string, ...string[]][] = peers ? [['bash', join(ROOT, 'scripts/runtimes/setup.sh'), '--peers']] : [];
const sandbox = await enterSandbox(import.meta.filename, {
  prepare: [...setup, [process.execPath, join(ROOT, 'scripts/build.ts')]],
});
await main();
process.exit(0);

async function main(): Promise<void> {
  const begunMs = performance.now();
  const say = (text: string) =>
    process.stderr.write(`bench  ${Math.round((performance.now() - begunMs) / 1000)} s  ${text}\n`);
  hideHostDirs();
  say('starting agent, Envoy and pods');
  const lab = await startLab(sandbox);
  const firstMs = performance.now() - begunMs;
  const proxied: BenchAgent = { dir: lab.dir, pid: lab.agent.pid, places: lab.places };
  const agent = await startBareAgent();
  const startMb = residentMb(agent.pid);
  const dir = join(sandbox.dir, 'bench');
  mkdirSync(dir);
  await using stack = new AsyncDisposableStack();
  const istio = peers ? [stack.use(await startIstioPeer(dir)).plugin] : [];
  const plugins = [...listPlugins({ dir, agent, proxied }), ...istio];
  const named = (...names: readonly string[]) => plugins.filter(({ name }) => names.includes(name));

  say('pods that stay');
  for (const [i, plugin] of named(OURS, OURS_PROXIED).entries())
    await settleNode(plugin, { dir, first: FIRST.settled + 500 * i });
  const calls = await measureCalls({
    ...{ plugins, dir, rounds: ROUNDS.calls },
    onProgress: (text) => say(`single calls, ${text}`),
  });
  say('system calls');
  const systemCalls = await countSystemCalls(plugins, { dir, first: FIRST.traced });
  say('many processes');
  const crowd = await measureCrowd(named(OURS, NOOP), { dir, rounds: ROUNDS.crowd, first: FIRST.crowd });
  const bursts = await measureBursts({
    ...{ dir, repetitions: ROUNDS.bursts, first: FIRST.bursts },
    plugins: ({ pods, width }) => named(OURS, TUNING, ...(pods === 100 && width === 50 ? [OURS_PROXIED] : [])),
    onProgress: (text) => say(`bursts, ${text}`),
  });
  const processesLeft = countOurProcesses([agent.pid, proxied.pid]);
  const endMb = residentMb(agent.pid);
  say('containerd');
  const runtime = await measureSandbox({ agent, dir, rounds: ROUNDS.sandbox, cgroupParent: `/${cgroup}` });
  say('the kernel alone');
  const floor = await measureFloor({ dir, rounds: ROUNDS.floor });
  const kernel = await measureKernel({ dir: join(dir, 'ns'), rounds: ROUNDS.kernel });
  say('Envoy');
  const envoy = await measureEnvoy(lab, { nodeName: 'lab-node', rounds: ROUNDS.envoy, firstMs });
  // The mesh's own sections come here: functions that return a Markdown table each.
  const mesh: readonly string[] = [];

  const table = { plugins, calls, systemCalls };
  const gates = listGates({ ...table, bursts, processesLeft, crowdRatio: crowd.ratio, sandboxRatio: runtime.ratio });
  const missed = gates.filter((gate) => judge(gate) === 'not met').length;
  const memory = `Memory of the agent without Envoy: ${show(startMb, 0)} MiB at start, ${show(endMb, 0)} MiB after all pods.`;
  const machine = describeMachine({ load });
  const sections = [
    `# What it costs\n\n\`npm run bench\`. ${machine} ${describeSource()} Files on tmpfs. The node has 20 pods of 10
services that stay; a measured pod is one more of such a service, where it is not said that it is its first.`,
    `## Gates\n\n${formatGates(gates)}`,
    `## Single calls\n\n${formatCalls(table)}`,
    `## Many pods at once\n\n${formatBursts(bursts)}\n\n${memory}`,
    ...[crowd.text, runtime.text, floor, kernel, envoy, ...mesh],
  ];
  const latest = `${sections.join('\n\n')}\n`;
  process.stdout.write(latest);
  if (!quick) writeReport({ latest, readme: `${machine}\n\n${formatShort(table)}\n\n${formatGates(gates)}` });
  say(`done; ${missed === 0 ? 'no gate is missed' : `${missed} of ${gates.length} figures are not met`}`);
}

// As the other plugins are measured: without what carries the traffic.
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
