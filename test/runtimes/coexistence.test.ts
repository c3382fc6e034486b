// K065, K082, K090, K091: other tools of the host, their absence, their locks, and many calls at the same instant.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { waitUntil } from '../../scripts/lab/processes.ts';
import type { PluginForm } from '../../scripts/runtimes/plugin-dir.ts';
import { callPlugin, openPod, PREV_RESULT, startPluginCall } from '../support/runtimes-call.ts';
import { listPins, listQueue, listRecords } from '../support/runtimes-node.ts';
import { PLACES, startRoomAgent, t } from '../support/runtimes-room.ts';
import { checkRuleset, listPlannedTable, listPluginTable, runIn } from '../support/runtimes-ruleset.ts';

const agent = await startRoomAgent();
t.teardown(() => agent.stop());

const AT_ONCE = 50;

/** Starts all before any has ended. In between, the end of a standard input is told to those that were started. */
async function atOnce<In, Out>(inputs: readonly In[], start: (input: In) => Promise<Out>): Promise<readonly Out[]> {
  const started: Promise<Out>[] = [];
  for (const input of inputs) {
    started.push(start(input));
    await setImmediate();
  }
  return Promise.all(started);
}

for (const form of ['full', 'relay'] as const satisfies readonly PluginForm[]) {
  t.test(`K082 ADD of the ${form} plugin needs no nft in PATH`, async (t) => {
    using pod = openPod();
    const env = { PATH: '/nonexistent', AETHER_RELAY_SOCKET: PLACES.relaySocket };
    const call = { ...pod, form, env };
    const add = callPlugin('ADD', { ...call, prevResult: PREV_RESULT });
    t.equal(add.status, 0, `${add.stdout}${add.stderr}`);
    checkRuleset(t, pod.netns, { redirectAll: false });
    t.equal(callPlugin('DEL', call).status, 0);
  });

  t.test(`K082 ${AT_ONCE} ADDs of the ${form} plugin at the same instant do not disturb each other`, async (t) => {
    using scope = new DisposableStack();
    const pods = Array.from({ length: AT_ONCE }, () => scope.use(openPod()));
    const planned = listPlannedTable(false);
    // The default of 5 s is meant for one pod; fifty processes share what is free of the processors here.
    const call = { form, prevResult: PREV_RESULT, entry: { agent_timeout_ms: 60_000 } };
    const adds = await atOnce(pods, (pod) => startPluginCall('ADD', { ...pod, ...call }));
    t.same(
      adds.filter(({ exitCode }) => exitCode !== 0).map(({ stdout }) => stdout),
      [],
      'all succeed',
    );
    t.equal(pods.filter(({ netns }) => listPluginTable(netns) === planned).length, AT_ONCE, 'each has its rules');
    t.same([...listRecords()].sort(), pods.map(({ containerId }) => containerId).sort(), 'each has its record');
    const deletions = await atOnce(pods, (pod) => startPluginCall('DEL', { ...pod, form }));
    t.ok(deletions.every(({ exitCode, stdout }) => exitCode === 0 && stdout === ''));
    // What a busy machine could not tell the agent in time is queued, and replayed every few seconds.
    const forgotten = () => listRecords().length === 0 && listQueue().length === 0;
    await waitUntil('the agent to forget them all', forgotten, { timeoutMs: 20_000, process: agent });
    t.same(listPins(), []);
  });
}

t.test('K090 iptables leaves our table alone, and CHECK sees what nft flush ruleset took', async (t) => {
  using pod = openPod();
  const call = { ...pod, form: 'relay', prevResult: PREV_RESULT } as const;
  t.equal(callPlugin('ADD', call).status, 0);
  const before = listPluginTable(pod.netns);
  const others: readonly (readonly string[])[] = [
    ['iptables-nft', '-t', 'nat', '-S'],
    ['iptables-nft', '-t', 'nat', '-A', 'OUTPUT', '-p', 'tcp', '--dport', '18081', '-j', 'RETURN'],
    ['iptables-nft', '-t', 'nat', '-F'],
    ['ip6tables-nft', '-t', 'nat', '-F'],
    [
      'sh',
      '-c',
      "printf '*nat\\n:KUBE-SERVICES - [0:0]\\n-A OUTPUT -j KUBE-SERVICES\\nCOMMIT\\n' | iptables-nft-restore --noflush",
    ],
    ['sh', '-c', 'iptables-nft-save | iptables-nft-restore'],
  ];
  for (const command of others) {
    t.doesNotThrow(() => runIn(pod.netns, ...command), command.join(' '));
    t.equal(listPluginTable(pod.netns), before, 'our table is as before');
  }
  const sound = callPlugin('CHECK', call);
  t.equal(sound.status, 0, `CHECK: ${sound.stdout}`);
  runIn(pod.netns, 'nft', 'flush', 'ruleset');
  const broken = callPlugin('CHECK', call);
  t.not(broken.status, 0, 'CHECK fails after nft flush ruleset');
  t.match(JSON.parse(broken.stdout), { msg: /aether/ });
  t.equal(callPlugin('DEL', call).status, 0);
});

for (const form of ['full', 'relay'] as const) {
  t.test(`K065 CHECK of the ${form} plugin finds what was done to the agent's table`, async (t) => {
    using pod = openPod();
    const call = { ...pod, form, prevResult: PREV_RESULT };
    t.equal(callPlugin('ADD', call).status, 0);
    const chain = ['inet', 'aether_mesh', 'output'];
    const changes = [
      [['insert', 'rule', ...chain, 'accept'], /table inet aether_mesh: extra rule 1 of chain .*"accept"/],
      [['flush', 'chain', ...chain], /table inet aether_mesh: missing rule 1 /],
      [['delete', 'table', 'inet', 'aether_mesh'], /missing table inet aether_mesh/],
    ] as const;
    for (const [command, want] of changes) {
      t.equal(callPlugin('ADD', call).status, 0);
      const sound = callPlugin('CHECK', call);
      t.equal(sound.status, 0, sound.stdout);
      runIn(pod.netns, 'nft', ...command);
      const { code, msg } = JSON.parse(callPlugin('CHECK', call).stdout);
      t.equal(code, 106);
      t.match(msg, want);
    }
    t.equal(callPlugin('DEL', call).status, 0);
  });
}

t.test("K091 somebody's hold on iptables' lock does not matter", async (t) => {
  using pod = openPod();
  const holder = spawn('flock', ['/run/xtables.lock', 'sh', '-c', 'echo held; exec sleep 60'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  t.teardown(() => holder.pid !== undefined && process.kill(-holder.pid));
  await once(holder.stdout, 'data');
  for (const form of ['full', 'relay'] as const) {
    const start = performance.now();
    t.equal(callPlugin('ADD', { ...pod, form, prevResult: PREV_RESULT }).status, 0);
    const took = performance.now() - start;
    t.ok(took < 20_000, `${form}: ADD took ${Math.round(took)} ms`);
    checkRuleset(t, pod.netns, { redirectAll: false });
    t.equal(callPlugin('DEL', { ...pod, form }).status, 0);
  }
});
