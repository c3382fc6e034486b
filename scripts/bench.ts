// npm run bench: what our pieces cost, each beside something everybody has, in the same run. Milliseconds depend on the
// machine; the ratios are what to compare. `node scripts/bench.ts [ROUNDS]`.
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadFfi } from '../src/adapters/host/load-ffi.ts';
import { locateNativeLibraries } from '../src/adapters/host/native-assets.ts';
import { openNativeLibrary } from '../src/adapters/kernel/native-library.ts';
import { createRules } from '../src/adapters/kernel/rules.ts';
import { planPluginTable } from '../src/capture/plugin-table.ts';
import type { NetnsPath } from '../src/core/identifiers.ts';
import { measureKernel } from './bench/kernel.ts';
import {
  type CniCommand,
  CniRuntime,
  cniEnvironment,
  type Json,
  type PluginConfig,
  pluginInput,
  runPlugin,
} from './lab/cni-runtime.ts';
import { type Lab, pluginEntry, startLab } from './lab/lab.ts';
import { makeNetns, podNetwork, removeNetns } from './lab/network.ts';
import { EXECUTABLE, PLUGIN_DIRS, RELAY, ROOT } from './lab/places.ts';
import { describeAttachment } from './lab/pods.ts';
import { enterSandbox } from './lab/sandbox.ts';
import { formatTable } from './lab/text-table.ts';

/** A Go plugin that does nothing, made for the tests of the container runtimes; its rows are left out without it. */
const NOOP = join(ROOT, 'build/runtimes/bin/noop');
const ROUNDS = Number(process.argv[2] ?? 20);

const sandbox = await enterSandbox(import.meta.filename, {
  prepare: [[process.execPath, join(ROOT, 'scripts/build.ts')]],
});
process.exit(await main());

async function main(): Promise<number> {
  const first = await timeFirstAnswer();
  const samples = new Map<string, number[]>();
  const note = (name: string, ms: number) => samples.set(name, [...(samples.get(name) ?? []), ms]);
  const rules = createRules(openNativeLibrary(locateNativeLibraries(), loadFfi()));
  for (let round = 0; round < ROUNDS; round++) {
    await timeStart(note);
    await timePods(first.lab, round, note);
    const netns = makeNetns(join(sandbox.dir, 'ns'), `rules-${round}`);
    const table = planPluginTable({ redirectAll: true, excludePorts: [], excludeRanges: [] });
    note('rules: one batch in the kernel', await timed(() => rules.replaceTable(netns as NetnsPath, table)));
    removeNetns(netns);
  }
  await first.lab[Symbol.asyncDispose]();
  process.stdout.write(`${formatSamples(samples)}\n\n`);
  process.stdout.write(`${await measureKernel({ dir: join(sandbox.dir, 'ns'), rounds: ROUNDS })}\n\n`);
  process.stdout.write(`agent, Envoy and 5 pods from nothing to the first 200: ${Math.round(first.ms)} ms\n`);
  return 0;
}

async function timeFirstAnswer(): Promise<{ readonly lab: Lab; readonly ms: number }> {
  const start = performance.now();
  const lab = await startLab(sandbox);
  return { lab, ms: performance.now() - start };
}

type Note = (name: string, ms: number) => void;

async function timeStart(note: Note): Promise<void> {
  const version = { env: { CNI_COMMAND: 'VERSION' } };
  note('node -e 0', await timed(async () => execFileSync(process.execPath, ['-e', '0'])));
  note('VERSION: full file', (await runPlugin(EXECUTABLE, '', version)).ms);
  if (existsSync(RELAY)) note('VERSION: relay', (await runPlugin(RELAY, '', version)).ms);
  if (existsSync(NOOP)) note('VERSION: no-op in Go', (await runPlugin(NOOP, '', version)).ms);
}

// The same pod for each of them, one after the other: ADD, DEL.
async function timePods(lab: Lab, round: number, note: Note): Promise<void> {
  const ours = { ...pluginEntry(lab.places, lab.dir), proxy_ready: 'skip' };
  // It reads from a file what it shall answer.
  const noop: PluginConfig = { type: 'noop', debugFile: join(lab.dir, 'noop.json') };
  writeFileSync(join(lab.dir, 'noop.json'), JSON.stringify({ ReportResult: 'PASSTHROUGH' }));
  const relay = { AETHER_RELAY_SOCKET: lab.places.relaySocket };
  await timePod(lab, { name: 'full file', file: EXECUTABLE, entry: ours, env: {}, round }, note);
  if (existsSync(RELAY)) await timePod(lab, { name: 'relay', file: RELAY, entry: ours, env: relay, round }, note);
  if (existsSync(NOOP)) await timePod(lab, { name: 'no-op in Go', file: NOOP, entry: noop, env: {}, round }, note);
  const netns = makeNetns(join(lab.dir, 'ns'), `bridge-${round}`);
  const attachment = describeAttachment(spec('bridge', round), netns);
  const runtime = new CniRuntime(PLUGIN_DIRS);
  const network = podNetwork(join(lab.dir, 'ipam'), []);
  let result: Json = {};
  note(
    'ADD: bridge and host-local',
    await timed(async () => {
      result = await runtime.add(network, attachment);
    }),
  );
  note('DEL: bridge and host-local', await timed(() => runtime.delete(network, attachment, result)));
  removeNetns(netns);
}

async function timePod(
  lab: Lab,
  plugin: {
    readonly name: string;
    readonly file: string;
    readonly entry: PluginConfig;
    readonly env: Readonly<Record<string, string>>;
    readonly round: number;
  },
  note: Note,
): Promise<void> {
  const pod = spec(plugin.name.replaceAll(/\W/g, '').toLowerCase(), plugin.round);
  const netns = makeNetns(join(lab.dir, 'ns'), pod.name);
  const attachment = describeAttachment(pod, netns);
  const prevResult = {
    cniVersion: '1.0.0',
    interfaces: [{ name: 'eth0', sandbox: netns }],
    ips: [{ address: '10.88.200.1/16', interface: 0 }],
  };
  const stdin = pluginInput(podNetwork('', []), plugin.entry, { capabilities: attachment.capabilities, prevResult });
  for (const verb of ['ADD', 'DEL'] as const satisfies readonly CniCommand[]) {
    const env = { ...cniEnvironment(verb, attachment, PLUGIN_DIRS), ...plugin.env };
    const run = await runPlugin(plugin.file, stdin, { env });
    if (run.exitCode !== 0) throw new Error(`${verb} by ${plugin.name}: ${run.stdout}${run.stderr}`);
    note(`${verb}: ${plugin.name}`, run.ms);
  }
  removeNetns(netns);
}

function spec(kind: string, round: number) {
  return { name: `${kind}-${round}`, namespace: 'bench', serviceAccount: kind, annotations: {}, apps: [] };
}

async function timed(action: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await action();
  return performance.now() - start;
}

function formatSamples(samples: ReadonlyMap<string, readonly number[]>): string {
  const at = (values: readonly number[], share: number) =>
    [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? Number.NaN;
  const node = at(samples.get('node -e 0') ?? [], 0.5);
  const noop = (verb: string) => at(samples.get(`${verb}: no-op in Go`) ?? [], 0.5);
  const rows = [...samples]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, values]) => {
      const median = at(values, 0.5);
      const ratio = (other: number) => (Number.isNaN(other) ? '' : (median / other).toFixed(2));
      const verb = name.split(':')[0] ?? '';
      return [name, median.toFixed(1), at(values, 0.95).toFixed(1), ratio(node), ratio(noop(verb))];
    });
  return formatTable([['', 'median ms', 'p95 ms', 'x node -e 0', 'x no-op'], ...rows]);
}
