// What the resident process costs a node, with the built files: memory at its start and after 500 pods have come and gone,
// and how often it wakes while nothing happens. A bound has a third of room.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { makePod, makePods, renewed, runCall, startNodeAgent } from '../support/hostile-node.ts';
import { t } from '../support/hostile-room.ts';
import { readSettledHoldings } from '../support/hostile-state.ts';

/** At start, and again some seconds after work. */
const RESIDENT_KIB = 90 * 1024;
/** While it works: garbage that is not collected yet. */
const WORKING_KIB = 170 * 1024;
const PODS = 500;

t.setTimeout(600_000);
const agent = await startNodeAgent();
t.teardown(() => agent.stop());

/** A figure of /proc/<pid>/<file>, in KiB. */
function readKib(file: string, key: string): number {
  const found = new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${agent.pid}/${file}`, 'latin1'));
  if (found?.[1] === undefined) throw new Error(`${file} has no ${key}`);
  return Number(found[1]);
}

/** Memory that counts against the node, however it is counted; in MiB for a message. */
function readMemory(): { readonly kib: number; readonly text: string } {
  const [rss, pss] = [readKib('status', 'VmRSS'), readKib('smaps_rollup', 'Pss')];
  return { kib: Math.max(rss, pss), text: `RSS ${Math.round(rss / 1024)} MiB, PSS ${Math.round(pss / 1024)} MiB` };
}

/** How often each thread went to sleep of its own accord, by thread. */
function readSleeps(): ReadonlyMap<string, number> {
  const tasks = readdirSync(`/proc/${agent.pid}/task`);
  return new Map(
    tasks.map((task) => {
      const status = readFileSync(`/proc/${agent.pid}/task/${task}/status`, 'latin1');
      return [task, Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)?.[1])];
    }),
  );
}

/** Times that the thread of the event loop woke within so many seconds. */
async function countWakes(seconds: number): Promise<number> {
  const main = String(agent.pid);
  const before = readSleeps().get(main) ?? Number.NaN;
  await sleep(seconds * 1000);
  return (readSleeps().get(main) ?? Number.NaN) - before;
}

async function waitForRest(what: string): Promise<string> {
  const isSmall = (): boolean => readMemory().kib < RESIDENT_KIB;
  await waitUntil(what, isSmall, { timeoutMs: 60_000, stepMs: 500 }).catch(() => {});
  return readMemory().text;
}

await t.test('the agent has less than 90 MiB at its start', async (t) => {
  const text = await waitForRest('the end of the start');
  t.ok(readMemory().kib < RESIDENT_KIB, text);
});

await t.test('an idle agent wakes no more than once a second', async (t) => {
  // What a start leaves to be done later.
  await sleep(12_000);
  const wakes = await countWakes(10);
  // Two a second: a timer may leave something to a thread, whose end wakes the loop once more.
  t.ok(wakes <= 20, `${wakes} in 10 s`);
});

await t.test('the agent keeps nothing of 500 pods that came and went', async (t) => {
  const pod = makePod();
  for (const verb of ['ADD', 'DEL'] as const) await runCall('relay', verb, { pod });
  const holdings = await readSettledHoldings(agent.pid);
  let most = 0;
  const failures: string[] = [];
  for (let n = 0; n < PODS; n++) {
    const one = renewed(pod);
    for (const verb of ['ADD', 'DEL'] as const) {
      const run = await runCall('relay', verb, { pod: one });
      if (run.exit !== 0) failures.push(`${verb}: ${run.stdout}`);
    }
    most = Math.max(most, readMemory().kib);
  }
  t.strictSame(failures, []);
  t.ok(most < WORKING_KIB, `at most ${Math.round(most / 1024)} MiB`);
  const text = await waitForRest('memory to be given back');
  t.ok(readMemory().kib < RESIDENT_KIB, text);
  t.strictSame((await readSettledHoldings(agent.pid)).descriptors, holdings.descriptors, 'descriptors');
});

await t.test('an agent with 30 settled pods wakes a few times a second at most', async (t) => {
  const exits = [];
  for (const pod of makePods(30)) exits.push((await runCall('relay', 'ADD', { pod })).exit);
  t.strictSame(new Set(exits), new Set([0]));
  // New pods are looked at more often for half a minute.
  const isSettled = async (): Promise<boolean> => (await countWakes(5)) <= 50;
  await waitUntil('the pods to settle', isSettled, { timeoutMs: 90_000 }).catch(() => {});
  const wakes = await countWakes(10);
  // One look a second, of a few wakes each; one every 50 ms would be 200.
  t.ok(wakes <= 120, `${wakes} in 10 s`);
});
