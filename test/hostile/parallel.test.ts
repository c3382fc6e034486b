// K036, K038: many calls at once each reach the namespace that they are about, and many one after another leave the agent as
// it was.
import { readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../scripts/lab/places.ts';
import {
  type Form,
  makePods,
  prevResultOf,
  removePods,
  renewed,
  runCall,
  startNodeAgent,
  type TestPod,
} from '../support/hostile-node.ts';
import { ROUNDS, t } from '../support/hostile-room.ts';
import {
  type Holdings,
  listThreads,
  readSettledHoldings,
  readSettledState,
  rulesetOf,
} from '../support/hostile-state.ts';

t.setTimeout(3_600_000);
let agent = await startNodeAgent();
t.teardown(() => agent.stop());
const home = readlinkSync(`/proc/${agent.pid}/ns/net`);

/** A port that only this pod's rules name. */
const markOf = (index: number): number => 20_000 + index;
// Services and their addresses are remembered for a while.
const FORGETTABLE = { agent: undefined, files: undefined };

const BURSTS: readonly { readonly form: Form; readonly number: number }[] = [
  { form: 'relay', number: 100 },
  { form: 'full', number: 20 },
];

/** Namespaces that threads of the agent which stay were seen in, until stopped. */
function watchThreads(): { readonly stop: () => ReadonlyMap<string, ReadonlySet<string>> } {
  const seen = new Map<string, Set<string>>();
  const timer = setInterval(() => {
    for (const { task, namespace } of listThreads(agent.pid)) {
      seen.set(task, (seen.get(task) ?? new Set()).add(namespace));
    }
  }, 2);
  return {
    stop: () => {
      clearInterval(timer);
      const alive = new Set(listThreads(agent.pid).map(({ task }) => task));
      return new Map([...seen].filter(([task]) => alive.has(task)));
    },
  };
}

for (const { form, number } of BURSTS) {
  await t.test(`K038 ${number} ADDs at once land each ruleset in its own namespace (${form})`, async (t) => {
    const pods = makePods(number, (index) => ({
      'capture.aether.io/exclude-outbound-ports': String(markOf(index)),
      'capture.aether.io/redirect-all': String(index % 2 === 0),
      // A few services with several pods each, so that they change each other's sets.
      'aether.io/service-account': `burst-${index % 7}`,
    }));
    const before = await readSettledState(pods);
    const watch = watchThreads();
    // A process that gets no processor time for seconds is no failure of the agent's.
    const config = { agent_timeout_ms: 60_000 };
    const variables = { AETHER_RELAY_TIMEOUT_MS: '60000' };
    const adds = await Promise.all(pods.map((pod) => runCall(form, 'ADD', { pod, config, variables })));
    const threads = watch.stop();
    for (const [index, pod] of pods.entries()) {
      t.equal(adds[index]?.stdout, `${JSON.stringify(prevResultOf(pod))}\n`, `${pod.name}: ${adds[index]?.stderr}`);
      t.strictSame(marksIn(pod), [markOf(index)], `${pod.name} has its own rules and no other's`);
      t.equal(
        /meta l4proto tcp redirect to :18001/.test(pluginTableOf(pod)),
        index % 2 === 0,
        `${pod.name} has its own mode`,
      );
    }
    t.ok(threads.size > 0);
    for (const [task, namespaces] of threads) t.strictSame([...namespaces], [home], `thread ${task} never moved`);

    const dels = await Promise.all(pods.map((pod) => runCall(form, 'DEL', { pod, config, variables })));
    t.ok(dels.every(({ exit, stdout }) => exit === 0 && stdout === ''));
    const after = await readSettledState(pods);
    t.strictSame({ ...after, ...FORGETTABLE }, { ...before, ...FORGETTABLE }, 'as many DELs leave nothing');
    removePods(pods);
  });
}

const CYCLES = Math.max(100, ROUNDS);
const WARM_UP = 50;
/** What lives fits in; the executable alone would let garbage lie for hundreds of megabytes before it looks. */
const SMALL_HEAP = ['--max-old-space-size=64', '--max-semi-space-size=2'];
const GROWTH_MAX_BYTES = 12 * 1024 * 1024;

await t.test(`K036 ${CYCLES} ADDs and DELs leave descriptors, threads and namespaces flat`, async (t) => {
  const { before, after } = await cycleAndCompare();
  t.strictSame(after.descriptors, before.descriptors, 'as many descriptors of each kind');
  t.strictSame(after.namespaces, [home]);
  t.ok(after.threads <= before.threads + 2, `${before.threads} threads, then ${after.threads}`);
});

await t.test(`K036 ${CYCLES} ADDs and DELs leave memory flat`, async (t) => {
  await agent.stop();
  agent = await startNodeAgent({ program: [process.execPath, ...SMALL_HEAP, join(ROOT, 'src/main.ts')] });
  const { before, after } = await cycleAndCompare();
  const growth = after.residentBytes - before.residentBytes;
  t.comment(
    `memory ${mebibytes(before.residentBytes)} MiB, after ${CYCLES} more ${mebibytes(after.residentBytes)} MiB`,
  );
  t.ok(growth < GROWTH_MAX_BYTES, `memory grew by ${mebibytes(growth)} MiB`);
});

/** Also fails when a namespace is busy at the end. */
async function cycleAndCompare(): Promise<{ readonly before: Holdings; readonly after: Holdings }> {
  const pods = makePods(10, (index) => ({ 'aether.io/service-account': `flat-${index % 3}` }));
  await cycle(pods, WARM_UP);
  const before = await readSettledHoldings(agent.pid);
  await cycle(pods, CYCLES);
  const after = await readSettledHoldings(agent.pid);
  removePods(pods);
  return { before, after };
}

async function cycle(pods: readonly TestPod[], number: number): Promise<void> {
  for (let done = 0; done < number; done += pods.length) {
    const fresh = pods.map(renewed);
    for (const verb of ['ADD', 'DEL'] as const) {
      const runs = await Promise.all(fresh.map((pod) => runCall('relay', verb, { pod })));
      const failed = runs.find(({ exit }) => exit !== 0);
      if (failed !== undefined) throw new Error(`${verb} failed: ${failed.stdout}${failed.stderr}`);
    }
  }
}

function pluginTableOf(pod: TestPod): string {
  const ruleset = rulesetOf(pod.netns);
  return ruleset.slice(ruleset.indexOf('table inet aether {'), ruleset.indexOf('table inet aether_mesh {'));
}

function marksIn(pod: TestPod): readonly number[] {
  const found = rulesetOf(pod.netns).match(/\b20\d{3}\b/g) ?? [];
  return [...new Set(found.map(Number))];
}

function mebibytes(bytes: number): number {
  return Math.round((bytes / 1024 / 1024) * 10) / 10;
}
