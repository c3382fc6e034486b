// K022, K024, K033: DEL in every state of the namespace and of the agent, and calls that come twice, early or changed.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNetns, removeNetns } from '../../scripts/lab/network.ts';
import type { LabProcess } from '../../scripts/lab/processes.ts';
import { runCnitool } from '../../scripts/runtimes/cnitool.ts';
import { callPlugin, openPod, PREV_RESULT } from '../support/runtimes-call.ts';
import {
  ANNOTATIONS_CAPABILITY,
  bridgeNetwork,
  CONF_DIR,
  listAddresses,
  listPins,
  listRecords,
  MANAGED,
  ownEntry,
  pluginDir,
  writeNetwork,
} from '../support/runtimes-node.ts';
import { ROOM_DIR, startRoomAgent, t } from '../support/runtimes-room.ts';
import { checkRuleset, listPluginTable, runIn } from '../support/runtimes-ruleset.ts';

let agent = await startRoomAgent();
t.teardown(() => agent.stop());

/** A path like /proc/PID/ns/net of a process that has ended. */
async function deadProcessNetns(): Promise<string> {
  const child = spawn('true');
  await new Promise((resolve) => child.once('close', resolve));
  return `/proc/${child.pid}/ns/net`;
}

const regularFile = join(ROOM_DIR, 'regular-file');
writeFileSync(regularFile, '');
const namespaces = [
  { name: 'missing', netns: '/run/netns/never-was' },
  { name: 'empty', netns: '' },
  { name: 'a regular file', netns: regularFile },
  { name: 'of a process that has ended', netns: await deadProcessNetns() },
  { name: "the plugin's own", netns: '/proc/self/ns/net' },
];

for (const form of ['full', 'relay'] as const) {
  for (const { name, netns } of namespaces) {
    t.test(`K022 DEL of the ${form} plugin succeeds when the namespace is ${name}`, async (t) => {
      using pod = openPod();
      t.equal(callPlugin('ADD', { ...pod, form, prevResult: PREV_RESULT }).status, 0);
      t.same(listRecords(), [pod.containerId]);
      const run = callPlugin('DEL', { ...pod, form, netns });
      t.match(run, { status: 0, stdout: '' }, run.stderr);
      t.same(listRecords(), [], 'the agent has forgotten it');
      t.same(listPins(), []);
    });
  }

  t.test(`K033 calls of the ${form} plugin that come early, twice or changed`, async (t) => {
    using pod = openPod();
    const call = { ...pod, form, prevResult: PREV_RESULT };
    const checkSound = (what: string) => {
      const run = callPlugin('CHECK', call);
      t.match(run, { status: 0, stdout: '' }, `CHECK after ${what}: ${run.stdout}${run.stderr}`);
    };
    t.match(callPlugin('DEL', call), { status: 0, stdout: '' }, 'DEL before any ADD');
    t.not(callPlugin('CHECK', call).status, 0, 'CHECK before any ADD fails');

    t.equal(callPlugin('ADD', call).status, 0);
    const first = listPluginTable(pod.netns);
    checkSound('ADD');
    t.equal(callPlugin('ADD', call).status, 0, 'ADD again');
    t.equal(listPluginTable(pod.netns), first, 'gives the same rules');
    checkSound('the second ADD');

    const changed = { ...MANAGED, 'endpoint.aether.io/ports': '9000=tcp', 'capture.aether.io/redirect-all': 'true' };
    t.equal(callPlugin('ADD', { ...call, annotations: changed }).status, 0, 'ADD with other ports and mode');
    checkRuleset(t, pod.netns, { redirectAll: true });
    t.equal(callPlugin('CHECK', { ...call, annotations: changed }).status, 0);
    t.equal(callPlugin('ADD', call).status, 0, 'and back');
    t.equal(listPluginTable(pod.netns), first);

    runIn(pod.netns, 'nft', 'add', 'rule', 'inet', 'aether', 'output', 'tcp', 'dport', '443', 'accept');
    const extra = callPlugin('CHECK', call);
    t.not(extra.status, 0, 'CHECK finds a rule too many');
    t.ok(JSON.parse(extra.stdout).msg, 'and says so');

    for (const round of [1, 2, 3]) t.match(callPlugin('DEL', call), { status: 0, stdout: '' }, `DEL ${round}`);
    t.equal(listPluginTable(pod.netns), undefined);
    t.same(listRecords(), []);
  });
}

for (const form of ['full', 'relay'] as const) {
  t.test(`K033 ADD of the ${form} plugin for a container that is elsewhere, or not managed any more`, async (t) => {
    using pod = openPod();
    using other = openPod();
    const call = { ...pod, form, prevResult: PREV_RESULT };
    const tablesOf = (netns: string) => runIn(netns, 'nft', 'list', 'tables').trim();
    t.equal(callPlugin('ADD', call).status, 0);
    const moved = { ...call, netns: other.netns };
    t.equal(callPlugin('ADD', moved).status, 0, 'ADD in another namespace');
    t.equal(tablesOf(pod.netns), '', 'nothing is left where it was');
    t.equal(callPlugin('CHECK', moved).status, 0);
    t.equal(callPlugin('DEL', moved).status, 0);
    t.equal(tablesOf(other.netns), '');

    t.equal(callPlugin('ADD', call).status, 0);
    const rejected = { ...MANAGED, 'endpoint.aether.io/ports': 'x' };
    t.not(callPlugin('ADD', { ...call, annotations: rejected }).status, 0, 'ADD with a mistake');
    t.equal(tablesOf(pod.netns), '', 'everything is undone');
    t.equal(callPlugin('ADD', call).status, 0);
    const unmanaged = { ...call, annotations: { 'aether.io/managed': 'false' } };
    t.equal(callPlugin('ADD', unmanaged).status, 0, 'ADD of what is not managed any more');
    t.equal(tablesOf(pod.netns), '', 'it is left alone');
    t.equal(callPlugin('CHECK', unmanaged).status, 0);
    t.same([listRecords(), listPins()], [[], []]);
  });
}

const breakages: readonly { readonly name: string; readonly apply: (process: LabProcess) => Promise<void> }[] = [
  { name: 'is away', apply: (process) => process.stop('SIGKILL') },
  {
    name: 'listens and never answers',
    apply: async ({ pid }) => {
      process.kill(pid, 'SIGSTOP');
    },
  },
];

for (const form of ['full', 'relay'] as const) {
  for (const { name, apply } of breakages) {
    t.test(`K024 the list's other plugins are detached when the agent ${name} (${form})`, async (t) => {
      const network = `broken-${form}-${name.split(' ')[0]}`;
      writeNetwork(bridgeNetwork(network, [ownEntry()]));
      const netns = makeNetns(join(ROOM_DIR, 'ns'), network);
      t.teardown(() => removeNetns(netns));
      const call = {
        ...{ network, netns, confDir: CONF_DIR, binDir: pluginDir(form) },
        args: [
          ['IgnoreUnknown', '1'],
          ['K8S_POD_NAMESPACE', 'demo'],
          ['K8S_POD_NAME', 'broken'],
        ] as const,
        capabilities: { [ANNOTATIONS_CAPABILITY]: MANAGED },
      };
      const add = runCnitool('add', call);
      t.equal(add.status, 0, add.stderr);
      t.equal(listAddresses(network).length, 2);
      await apply(agent);
      const start = performance.now();
      const del = runCnitool('del', call);
      const took = performance.now() - start;
      t.match(del, { status: 0, stdout: '' }, del.stderr);
      t.ok(took < 5000, `DEL took ${Math.round(took)} ms`);
      t.same(listAddresses(network), [], "bridge's DEL ran: its addresses are free");
      t.same(runIn(netns, 'ip', '-o', 'link', 'show', 'type', 'veth'), '', 'and its interface is gone');
      await agent.stop('SIGKILL');
      agent = await startRoomAgent();
    });
  }
}
