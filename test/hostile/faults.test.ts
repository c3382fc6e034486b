// The plugin, the agent or both die at each thing they do, and at random moments. Whatever died: DEL and GC bring the node
// back to exactly the state before, and a repeated ADD succeeds. K003, K026, K027, K028.
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { LabProcess } from '../../scripts/lab/processes.ts';
import { FaultPoints } from '../support/hostile-fault.ts';
import {
  type Form,
  makePod,
  prevResultOf,
  type Run,
  renewed,
  runCall,
  runGc,
  startCall,
  startNodeAgent,
  type TestPod,
} from '../support/hostile-node.ts';
import { PLACES, ROUNDS, t } from '../support/hostile-room.ts';
import {
  type NodeState,
  readSettledState,
  readState,
  readStateWithoutAgent,
  waitForState,
} from '../support/hostile-state.ts';

type KilledVerb = 'ADD' | 'DEL';
type Recovery = 'DEL' | 'GC' | 'ADD';

const VERBS = ['ADD', 'DEL'] as const;
const RECOVERIES = ['DEL', 'GC', 'ADD'] as const;
const FORMS = ['full', 'relay'] as const;
/** For calls whose agent dies: how long they try. */
const IMPATIENT = { agent_timeout_ms: 300 };

t.setTimeout(3_600_000);
// Three that stay; one of them is of the victim's service, which would else be remembered for a while.
const VICTIM = { 'aether.io/service-account': 'victim', 'endpoint.aether.io/ports': '8080,9000=tcp' };
const bystanders = [makePod(), makePod({ 'capture.aether.io/redirect-all': 'true' }), makePod(VICTIM)];
const victim = makePod(VICTIM);
const pods = [...bystanders, victim];

const agentFaults = new FaultPoints('agent');
let agent: LabProcess = await startNodeAgent(agentFaults);
t.teardown(() => agent.stop());
for (const pod of bystanders) await expectSuccess(runCall('relay', 'ADD', { pod }));
let before: NodeState = await readSettledState(pods);

async function expectSuccess(running: Promise<Run>): Promise<Run> {
  const run = await running;
  if (run.exit !== 0) throw new Error(`a good call failed: ${run.exit} ${run.stdout}${run.stderr}`);
  return run;
}

async function restartAgent(): Promise<void> {
  await agent.stop('SIGKILL');
  agentFaults.disarm();
  agent = await startNodeAgent(agentFaults);
}

/** A new sandbox of the victim, taken in already where the DEL is what is killed. */
async function prepare(verb: KilledVerb): Promise<TestPod> {
  const pod = renewed(victim);
  if (verb === 'DEL') await expectSuccess(runCall('relay', 'ADD', { pod }));
  return pod;
}

async function recover(
  t: Test,
  pod: TestPod,
  how: { readonly recovery: Recovery; readonly form: Form },
): Promise<void> {
  const { recovery, form } = how;
  if (recovery === 'ADD') {
    const add = await runCall(form, 'ADD', { pod });
    t.equal(add.stdout, `${JSON.stringify(prevResultOf(pod))}\n`, `a repeated ADD succeeds: ${add.stderr}`);
    const check = await runCall(form, 'CHECK', { pod });
    t.strictSame([check.exit, check.stdout], [0, ''], `and what it made is whole: ${check.stdout}`);
  }
  const end = recovery === 'GC' ? await runGc(form, bystanders) : await runCall(form, 'DEL', { pod });
  t.strictSame([end.exit, end.stdout], [0, ''], end.stderr);
  t.strictSame(await waitForState(before, pods), before, 'the node is as it was');
}

/** What a runtime got from a call whose agent was killed: one document, or for DEL nothing. */
function checkAnswer(t: Test, verb: KilledVerb, run: Run): void {
  if (verb === 'DEL') t.strictSame([run.exit, run.stdout], [0, ''], run.stderr);
  else if (run.exit === 0) t.ok(JSON.parse(run.stdout), 'it was done before');
  else t.match(JSON.parse(run.stdout), { cniVersion: String, code: 11, msg: String }, 'one error, try again later');
}

/** The steps of a call, by counting them once; the node is as before afterwards. */
async function countSteps(verb: KilledVerb, form: Form, faults: FaultPoints): Promise<readonly string[]> {
  const pod = await prepare(verb);
  faults.arm(0);
  const call = form === 'full' ? { pod, variables: faults.env } : { pod };
  await expectSuccess(runCall(form, verb, call));
  const steps = faults.listSteps().map((step) => step.replaceAll(pod.containerId, 'ID').replace(/-[0-9a-f-]{36}/, ''));
  faults.disarm();
  await expectSuccess(runCall('relay', 'DEL', { pod }));
  return steps;
}

/** All of them in a long look; else a share of the rounds, spread evenly: an agent that starts anew takes its time. */
function choose(steps: readonly string[], share: number): readonly { readonly step: number; readonly name: string }[] {
  const all = steps.map((name, index) => ({ step: index + 1, name }));
  const stride = Math.max(1, all.length / Math.ceil(ROUNDS * share));
  return all.filter((_, index) => Math.floor(index / stride) !== Math.floor((index - 1) / stride));
}

const pick = <T>(values: readonly T[], index: number): T => values[index % values.length] as T;

for (const verb of VERBS) {
  await t.test(`the plugin killed at each step of ${verb}`, { timeout: 600_000 }, async (t) => {
    const faults = new FaultPoints('plugin');
    for (const { step, name } of choose(await countSteps(verb, 'full', faults), 1)) {
      const how = { recovery: pick(RECOVERIES, step), form: pick(FORMS, step) };
      await t.test(`${verb} killed before step ${step}, ${name}; then ${how.recovery}`, async (t) => {
        const pod = await prepare(verb);
        faults.arm(step);
        const run = await runCall('full', verb, { pod, variables: faults.env });
        faults.disarm();
        t.strictSame([run.exit, run.stdout], ['SIGKILL', ''], 'it died');
        await recover(t, pod, how);
      });
    }
  });

  for (const both of [false, true]) {
    const who = both ? 'agent and plugin' : 'agent';
    const form = both ? 'full' : 'relay';
    await t.test(`K003 K004 the ${who} killed at each step of ${verb}`, { timeout: 600_000 }, async (t) => {
      await restartAgent();
      const steps = await countSteps(verb, form, agentFaults);
      for (const { step, name } of choose(steps, both ? 0.25 : 0.5)) {
        const how = { recovery: pick(RECOVERIES, step), form: pick(FORMS, step) };
        await t.test(`${verb} with the agent killed before step ${step}, ${name}; then ${how.recovery}`, async (t) => {
          await restartAgent();
          const pod = await prepare(verb);
          agentFaults.arm(step);
          const call = startCall(form, verb, { pod, config: IMPATIENT });
          if (both) void agent.ended.then(() => call.child.kill('SIGKILL'));
          const run = await call.done;
          if (!both) checkAnswer(t, verb, run);
          await restartAgent();
          await recover(t, pod, how);
        });
      }
    });
  }
}

await t.test('the agent killed at each step of the first ADD of a service', { timeout: 600_000 }, async (t) => {
  // What is written for it: its address.
  const left = ({ files, pinMounts, processes, rulesets }: Omit<NodeState, 'agent'>) => ({
    ...{ pinMounts, processes, rules: rulesets[victim.name] },
    files: files.filter((file) => !file.startsWith('lib/vips.json ')),
  });
  const add = async (step: number) => {
    await restartAgent();
    const pod = renewed({ ...victim, annotations: { 'aether.io/service-account': `new-${step}` } });
    agentFaults.arm(step);
    checkAnswer(t, 'ADD', await runCall('relay', 'ADD', { pod, config: IMPATIENT }));
    return pod;
  };
  const first = await add(0);
  const steps = agentFaults.listSteps();
  await expectSuccess(runCall('relay', 'DEL', { pod: first }));
  for (const { step, name } of choose(steps, 0.25)) {
    const pod = await add(step);
    await restartAgent();
    await expectSuccess(runCall('relay', 'DEL', { pod }));
    t.strictSame(left(readStateWithoutAgent(pods)), left(before), `killed before step ${step}, ${name}`);
  }
  const problems = await runCall('full', 'STATUS', { pod: victim, config: { prevResult: undefined } });
  t.strictSame([problems.exit, problems.stdout], [0, '']);
  t.notMatch(problems.stderr, /vips|record/, 'no file was found broken');
  // The services remembered are forgotten.
  await restartAgent();
  before = { ...before, files: (await readState(pods)).files };
  t.strictSame(await waitForState(before, pods), before);
});

/** A generator of numbers in 0..1 that gives the same again for the same seed (mulberry32). */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

await t.test(`${ROUNDS} rounds of SIGKILL at a random moment`, { timeout: 1_800_000 }, async (t) => {
  const seed = Number(process.env['AETHER_TEST_SEED'] ?? Date.now() % 2 ** 31);
  t.comment(`AETHER_TEST_SEED=${seed}`);
  const random = makeRandom(seed);
  const choice = <T>(values: readonly T[]): T => pick(values, Math.floor(random() * values.length));
  const spanMs = { full: 250, relay: 30 };
  for (let round = 1; round <= ROUNDS; round++) {
    const [verb, form, who] = [choice(VERBS), choice(FORMS), choice(['plugin', 'agent', 'both'] as const)];
    const how = { recovery: choice(RECOVERIES), form: choice(FORMS) };
    const afterMs = random() * spanMs[form] * 1.2;
    const what = `${who} killed ${Math.round(afterMs)} ms into ${verb} (${form}); then ${how.recovery}`;
    await t.test(`round ${round}: ${what}`, async (t) => {
      const pod = await prepare(verb);
      const start = performance.now();
      const call = startCall(form, verb, { pod, config: IMPATIENT });
      await sleep(afterMs);
      if (who !== 'agent') call.child.kill('SIGKILL');
      if (who !== 'plugin') process.kill(agent.pid, 'SIGKILL');
      const run = await call.done;
      // The next kills fall into the call, however fast this machine is at the moment.
      if (run.exit === 0) spanMs[form] = (spanMs[form] + performance.now() - start) / 2;
      if (who === 'agent') checkAnswer(t, verb, run);
      if (who !== 'plugin') await restartAgent();
      await recover(t, pod, how);
    });
  }
});

await t.test('a relay that dies at any moment of a DEL leaves nothing that GC does not find', async (t) => {
  for (let afterMs = 0; afterMs < Math.min(40, ROUNDS); afterMs++) {
    const pod = await prepare('DEL');
    const call = startCall('relay', 'DEL', { pod });
    await sleep(afterMs);
    call.child.kill('SIGKILL');
    await call.done;
    const gc = await runGc('relay', bystanders);
    t.strictSame([gc.exit, gc.stdout], [0, ''], gc.stderr);
    t.strictSame(await waitForState(before, pods), before, `killed after ${afterMs} ms`);
  }
});

for (const form of FORMS) {
  await t.test(
    `K026 K027 DEL without an agent, or with one that never answers, is queued at once (${form})`,
    async (t) => {
      writeFileSync('/run/nologin', '');
      const away = await prepare('DEL');
      await agent.stop('SIGKILL');
      const gone = await runCall(form, 'DEL', { pod: away });
      t.strictSame([gone.exit, gone.stdout], [0, ''], gone.stderr);
      t.ok(gone.ms < 4500, `${Math.round(gone.ms)} ms with nobody at the socket`);
      t.ok(
        readStateWithoutAgent(pods).files.some((file) => file.startsWith(`lib/delete-queue/${away.containerId}.json`)),
        'it waits on disk',
      );
      await restartAgent();
      t.strictSame(await waitForState(before, pods), before, 'the agent makes up for it');

      const silent = await prepare('DEL');
      process.kill(agent.pid, 'SIGSTOP');
      // The relay gives the agent time; the full plugin is told how long.
      const hung = await runCall(form, 'DEL', {
        pod: silent,
        config: IMPATIENT,
        variables: { AETHER_RELAY_TIMEOUT_MS: '500' },
      });
      process.kill(agent.pid, 'SIGCONT');
      t.strictSame([hung.exit, hung.stdout], [0, ''], hung.stderr);
      t.ok(hung.ms < 4500, `${Math.round(hung.ms)} ms with a silent agent`);
      t.strictSame(await waitForState(before, pods), before, 'and makes up for that, too');
    },
  );

  await t.test(`K028 DEL while the agent starts (${form})`, async (t) => {
    const pod = await prepare('DEL');
    await agent.stop('SIGKILL');
    agentFaults.disarm();
    const starting = startNodeAgent(agentFaults);
    let isUp = false;
    void starting.then(() => {
      isUp = true;
    });
    // One after another until it is there: each meets it at another point of its start.
    for (let calls = 0; !isUp || calls < 3; calls++) {
      const run = await runCall(form, 'DEL', { pod });
      t.strictSame([run.exit, run.stdout], [0, ''], run.stderr);
      t.ok(run.ms < 8000, `${Math.round(run.ms)} ms`);
    }
    agent = await starting;
    t.strictSame(await waitForState(before, pods), before);
  });
}

await t.test('ADD with an agent that never answers is put off in time, and nothing of it is done later', async (t) => {
  for (const form of FORMS) {
    const pod = await prepare('ADD');
    process.kill(agent.pid, 'SIGSTOP');
    // As patient as the configuration says, in both forms.
    const run = await runCall(form, 'ADD', { pod, config: IMPATIENT });
    process.kill(agent.pid, 'SIGCONT');
    t.equal(run.exit, 1, form);
    t.match(JSON.parse(run.stdout), { code: 11 }, form);
    t.ok(run.ms < 5000, `${form}: ${Math.round(run.ms)} ms`);
    t.strictSame(await waitForState(before, pods), before, form);
  }
});

await t.test('a removal that waited does not take away the pod that came after it', { timeout: 60_000 }, async (t) => {
  const pod = await prepare('DEL');
  process.kill(agent.pid, 'SIGSTOP');
  await runCall('full', 'DEL', { pod, config: IMPATIENT });
  process.kill(agent.pid, 'SIGCONT');
  await expectSuccess(runCall('relay', 'ADD', { pod }));
  // Longer than the agent takes to look at what waits.
  await sleep(7000);
  const check = await runCall('relay', 'CHECK', { pod });
  t.strictSame([check.exit, check.stdout], [0, ''], check.stdout);
  await expectSuccess(runCall('relay', 'DEL', { pod }));
  t.strictSame(await waitForState(before, pods), before);
});

await t.test('nothing of all that is left in the directory of sockets', async (t) => {
  await agent.stop();
  const left = readStateWithoutAgent(pods).files.filter((file) => file.startsWith('run/') && file.includes('.sock'));
  t.strictSame(left, [], PLACES.cniSocket);
});
