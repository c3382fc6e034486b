// Debian's podman with its CNI backend: it is no Kubernetes runtime, so it names no namespace and hands on no annotations. Its
// containers pass through.

import { readRecord } from '../../scripts/runtimes/plugin-dir.ts';
import { openPodman } from '../../scripts/runtimes/podman.ts';
import type { RecordedCall } from '../../scripts/runtimes/recorder.ts';
import {
  bridgeNetwork,
  CONF_DIR,
  listAddresses,
  listOwnProcesses,
  listPins,
  listQueue,
  listRecords,
  ownEntry,
  pluginDir,
  recorderEntry,
  writeNetwork,
} from '../support/runtimes-node.ts';
import { CGROUP_PARENT, ROOM_DIR, startRoomAgent, t } from '../support/runtimes-room.ts';
import { listPluginTable } from '../support/runtimes-ruleset.ts';

const NETWORK = 'podman-test';
const before = recorderEntry('before');
const after = recorderEntry('after');
writeNetwork(bridgeNetwork(NETWORK, [before, ownEntry(), after]));
const podman = openPodman({
  dir: ROOM_DIR,
  confDir: CONF_DIR,
  binDir: pluginDir('relay'),
  cgroupParent: CGROUP_PARENT,
});
const agent = await startRoomAgent();
t.teardown(() => agent.stop());

function callOf(entry: { readonly recordFile: string }, id: string, command: string): RecordedCall {
  const call = readRecord(entry.recordFile).find((each) => each.containerId === id && each.command === command);
  if (call === undefined) throw new Error(`no ${command} of ${id} was recorded`);
  return call;
}

t.test('a podman container passes through: CNI_ARGS name a pod and no namespace', async (t) => {
  const id = podman.run('one', NETWORK);
  const add = callOf(before, id, 'ADD');
  t.match(add.args, /K8S_POD_NAME=one/);
  t.notMatch(add.args, /K8S_POD_NAMESPACE/);
  t.same(callOf(after, id, 'ADD').config['prevResult'], add.config['prevResult'], 'the next plugin gets what we got');
  t.equal(listPluginTable(add.netns), undefined, 'no rules');
  t.same(listRecords(), [], 'no record');
  t.same(listPins(), [], 'no pin');
  podman.remove('one');
  t.equal(callOf(before, id, 'DEL').netns, add.netns, 'DEL reached the plugin before us');
  t.same(listAddresses(NETWORK), [], 'and the first of the list');
  t.same(listOwnProcesses([agent.pid]), [], 'no process of ours is left');
});

t.test('a podman container is removed while the agent is away', async (t) => {
  podman.run('two', NETWORK);
  await agent.stop('SIGKILL');
  const start = performance.now();
  podman.remove('two');
  t.ok(performance.now() - start < 5000, 'without a long wait');
  t.same(listAddresses(NETWORK), []);
  t.ok(listQueue().length <= 1, 'at most one removal waits for the agent');
});
