// Debian's containerd with kubelet's calls: what it gives a plugin (runtime facts), and that ours lives with each of them.

import { execFileSync } from 'node:child_process';
import type { Test } from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { type Containerd, startContainerd } from '../../scripts/runtimes/containerd.ts';
import { readRecord } from '../../scripts/runtimes/plugin-dir.ts';
import type { RecordedCall } from '../../scripts/runtimes/recorder.ts';
import {
  ANNOTATIONS_CAPABILITY,
  bridgeNetwork,
  CONF_DIR,
  listAddresses,
  listOwnProcesses,
  listPins,
  listQueue,
  listRecords,
  MANAGED,
  ownEntry,
  pluginDir,
  recorderEntry,
  writeNetwork,
} from '../support/runtimes-node.ts';
import { CGROUP_PARENT, ROOM_DIR, startRoomAgent, t } from '../support/runtimes-room.ts';
import { checkRuleset, listPluginTable } from '../support/runtimes-ruleset.ts';

const NETWORK = 'containerd';
const before = recorderEntry('before');
const after = recorderEntry('after');
writeNetwork(bridgeNetwork(NETWORK, [before, ownEntry(), after]));

let agent = await startRoomAgent();
const containerd = await startContainerd({ dir: ROOM_DIR, confDir: CONF_DIR, binDir: pluginDir('relay') });
t.teardown(async () => {
  await containerd[Symbol.asyncDispose]();
  await agent.stop();
});

function runPod(name: string, options: { readonly namespace?: string; readonly annotations?: object } = {}) {
  const { namespace = 'demo', annotations = {} } = options;
  const uid = `uid-${name}`;
  return containerd.cri.runPodSandbox({
    ...{ name, namespace, uid, cgroupParent: CGROUP_PARENT },
    annotations: { ...MANAGED, ...annotations },
  });
}

async function stopAndRemove({ cri }: Containerd, id: string): Promise<void> {
  await cri.stopPodSandbox(id);
  await cri.removePodSandbox(id);
}

function callsOf(entry: { readonly recordFile: string }, id: string, command: string): readonly RecordedCall[] {
  return readRecord(entry.recordFile).filter((call) => call.containerId === id && call.command === command);
}

function netnsOf(id: string): string {
  const call = callsOf(before, id, 'ADD')[0];
  if (call === undefined) throw new Error(`no ADD of ${id} was recorded`);
  return call.netns;
}

function checkNothingLeft(t: Test): void {
  t.same(listRecords(), [], 'no record is left');
  t.same(listPins(), [], 'no pin is left');
  t.same(listQueue(), [], 'no removal waits');
  t.same(listAddresses(NETWORK), [], 'no address is kept');
  t.same(listOwnProcesses([agent.pid]), [], 'no process of ours is left');
}

t.test('RunPodSandbox attaches a managed pod: rules, record, pin, the result of the chain', async (t) => {
  const id = await runPod('shop', { annotations: { 'endpoint.aether.io/ports': '8080,9000=tcp' } });
  checkRuleset(t, netnsOf(id), { redirectAll: false });
  t.same(listRecords(), [id]);
  t.same(listPins(), [id]);
  const [given] = callsOf(before, id, 'ADD');
  const [passedOn] = callsOf(after, id, 'ADD');
  t.same(passedOn?.config['prevResult'], given?.config['prevResult'], 'the next plugin gets what we were given');
  await stopAndRemove(containerd, id);
  checkNothingLeft(t);
});

t.test('redirect-all by annotation gives the larger table', async (t) => {
  const id = await runPod('all', { annotations: { 'capture.aether.io/redirect-all': 'true' } });
  checkRuleset(t, netnsOf(id), { redirectAll: true });
  await stopAndRemove(containerd, id);
});

t.test('a pod that is not managed passes through', async (t) => {
  const id = await runPod('plain', { annotations: { 'aether.io/managed': 'false' } });
  t.equal(listPluginTable(netnsOf(id)), undefined, 'no rules');
  t.same(listRecords(), [], 'no record');
  t.same(listPins(), [], 'no pin');
  const [given] = callsOf(before, id, 'ADD');
  t.same(callsOf(after, id, 'ADD')[0]?.config['prevResult'], given?.config['prevResult']);
  await stopAndRemove(containerd, id);
  checkNothingLeft(t);
});

t.test('DEL comes twice: with lo down, then without namespace and previous result', async (t) => {
  const annotations = { 'endpoint.aether.io/port': '8080' };
  const id = await runPod('twice', { annotations });
  const [add] = callsOf(before, id, 'ADD');
  t.match(add, { lo: 'up', processes: 0 }, 'at ADD lo is up and no process is in the namespace');
  await containerd.cri.stopPodSandbox(id);
  const [first] = callsOf(before, id, 'DEL');
  t.match(first, { netns: netnsOf(id), lo: 'down', config: { prevResult: Object } }, 'the first DEL');
  const took = (first?.at ?? Number.NaN) - (callsOf(after, id, 'DEL')[0]?.at ?? Number.NaN);
  t.ok(took < 4500, `DEL with lo down waits for nothing (${took} ms, most of it the recorder)`);
  checkNothingLeft(t);
  await containerd.cri.removePodSandbox(id);
  const [, second] = callsOf(before, id, 'DEL');
  t.equal(second?.netns, '', 'the second DEL has no namespace');
  t.notOk('prevResult' in (second?.config ?? {}), 'and no previous result');
  for (const call of [add, first, second]) {
    t.match(call?.config['runtimeConfig'], { [ANNOTATIONS_CAPABILITY]: { ...MANAGED, ...annotations } }, 'annotations');
  }
  checkNothingLeft(t);
});

t.test('keys of CNI_ARGS come in any order', async (t) => {
  const orders = new Set<string>();
  for (let round = 0; round < 3; round++) {
    const id = await runPod(`order-${round}`);
    t.same(listRecords(), [id]);
    await stopAndRemove(containerd, id);
    checkNothingLeft(t);
  }
  for (const { args } of [...readRecord(before.recordFile), ...readRecord(after.recordFile)]) {
    const keys = args.split(';').map((pair) => pair.split('=')[0] ?? '');
    t.same([...keys].sort(), [
      'IgnoreUnknown',
      'K8S_POD_INFRA_CONTAINER_ID',
      'K8S_POD_NAME',
      'K8S_POD_NAMESPACE',
      'K8S_POD_UID',
    ]);
    orders.add(keys.join());
  }
  t.ok(orders.size > 1, `${orders.size} orders were seen`);
});

t.test('containerd is killed between ADD and DEL', async (t) => {
  const id = await runPod('survivor');
  await containerd.kill();
  await containerd.restart();
  t.ok((await containerd.cri.listPodSandbox()).includes(id));
  checkRuleset(t, netnsOf(id), { redirectAll: false });
  await stopAndRemove(containerd, id);
  checkNothingLeft(t);
});

t.test('the namespace is removed by hand before DEL', async (t) => {
  const id = await runPod('bereft');
  const netns = netnsOf(id);
  execFileSync('umount', [netns]);
  execFileSync('rm', [netns]);
  await stopAndRemove(containerd, id);
  checkNothingLeft(t);
});

t.test('a pod with wrong annotations does not start, and everything before us is undone', async (t) => {
  const wrong = { 'endpoint.aether.io/ports': '8080,9000=udp,70000' };
  const refused = runPod('wrong', { annotations: wrong });
  await t.rejects(refused, { message: /aether-cni.*endpoint\.aether\.io\/ports/s }, 'the event names the annotation');
  await t.rejects(refused, { message: /udp[\s\S]*70000/ }, 'and both mistakes');
  for (const id of await containerd.cri.listPodSandbox()) await stopAndRemove(containerd, id);
  checkNothingLeft(t);
});

t.test('killed, the agent leaves no pod of the node to start but its own, and DEL succeeds (K039, K044)', async (t) => {
  const id = await runPod('early');
  await agent.stop('SIGKILL');
  const start = performance.now();
  await t.rejects(runPod('late'), { message: /aether-cni.*the node agent is not available/s }, 'the event says why');
  t.ok(performance.now() - start < 15_000, 'within the bounded wait');
  const own = await runPod('aether-agent-x7k2p', { namespace: 'aether-system' });
  t.equal(listPluginTable(netnsOf(own)), undefined, "the agent's own pod passes through");
  await stopAndRemove(containerd, own);
  await stopAndRemove(containerd, id);
  t.same(listAddresses(NETWORK), [], 'bridge ran, too');
  t.ok(
    listQueue().some((name) => name.startsWith(id)),
    'the removal is queued',
  );
  agent = await startRoomAgent();
  await waitUntil('the agent to take the removals', () => listQueue().length === 0 && listRecords().length === 0, {
    timeoutMs: 10_000,
    process: agent,
  });
  checkNothingLeft(t);
});
