// libcni itself (cnitool 1.3.1) with every verb, on a list of version 1.1.0: a primary that answers a fixed result, ours, the
// no-op plugin of the same module behind it. Once with the whole plugin in one file, once with the relay.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNetns, removeNetns } from '../../scripts/lab/network.ts';
import { type CnitoolVerb, cnitoolContainerId, runCnitool } from '../../scripts/runtimes/cnitool.ts';
import type { PluginForm } from '../../scripts/runtimes/plugin-dir.ts';
import {
  ANNOTATIONS_CAPABILITY,
  CONF_DIR,
  listPins,
  listRecords,
  MANAGED,
  ownEntry,
  pluginDir,
  recorderEntry,
  writeNetwork,
} from '../support/runtimes-node.ts';
import { ROOM_DIR, startRoomAgent, t } from '../support/runtimes-room.ts';
import { checkRuleset, listPluginTable, runIn } from '../support/runtimes-ruleset.ts';

const PRIMARY_RESULT = {
  cniVersion: '1.1.0',
  interfaces: [{ name: 'eth0', mac: '02:00:00:00:00:01', sandbox: '/run/netns/of-the-pod', mtu: 1400 }],
  ips: [
    { address: '10.99.0.2/24', gateway: '10.99.0.1', interface: 0 },
    { address: 'fd99::2/64', gateway: 'fd99::1', interface: 0 },
  ],
  routes: [{ dst: '0.0.0.0/0', gw: '10.99.0.1', mtu: 1400, priority: 5 }],
  dns: { nameservers: ['10.96.0.10'], search: ['demo.svc.cluster.local'] },
};
const NOOP_FILE = join(ROOM_DIR, 'noop.json');
/** What the no-op plugin does: hand the previous result on, at ADD only (without one, as at a second DEL, it would crash). */
const NOOP_ADD = JSON.stringify({ ReportResult: 'PASSTHROUGH' });
const NOOP_ELSE = '{}';

const network = {
  cniVersion: '1.1.0',
  name: 'libcni',
  plugins: [
    { ...recorderEntry('primary'), result: PRIMARY_RESULT },
    ownEntry(),
    { type: 'noop', debugFile: NOOP_FILE },
  ],
};
writeNetwork(network);
let agent = await startRoomAgent();
t.teardown(() => agent.stop());

/** What the no-op plugin was last called with. Its module prints the standard input as base64. */
function readNoop(): { readonly command: string; readonly config: Readonly<Record<string, unknown>> } {
  const { Command, CmdArgs } = JSON.parse(readFileSync(NOOP_FILE, 'utf8'));
  return { command: Command, config: JSON.parse(Buffer.from(CmdArgs.StdinData, 'base64').toString()) };
}

for (const form of ['full', 'relay'] as const satisfies readonly PluginForm[]) {
  const netns = makeNetns(join(ROOM_DIR, 'ns'), form);
  runIn(netns, 'ip', 'link', 'set', 'lo', 'up');
  t.teardown(() => removeNetns(netns));
  const id = cnitoolContainerId(netns);
  const run = (verb: CnitoolVerb) => {
    writeFileSync(NOOP_FILE, verb === 'add' ? NOOP_ADD : NOOP_ELSE);
    return runCnitool(verb, {
      ...{ network: network.name, netns, confDir: CONF_DIR, binDir: pluginDir(form) },
      args: [
        ['K8S_POD_NAME', 'tool'],
        ['IgnoreUnknown', '1'],
        ['K8S_POD_NAMESPACE', 'demo'],
      ],
      capabilities: { [ANNOTATIONS_CAPABILITY]: MANAGED },
    });
  };

  t.test(`cnitool with the ${form} plugin`, async (t) => {
    t.test('status succeeds while the agent is ready', async (t) => {
      const { status, stderr } = run('status');
      t.equal(status, 0, stderr);
    });

    t.test('add gives the result of the primary, and so the no-op behind us gets it', async (t) => {
      const { status, stdout, stderr } = run('add');
      t.equal(status, 0, stderr);
      t.same(JSON.parse(stdout), PRIMARY_RESULT);
      t.equal(readNoop().command, 'ADD');
      t.same(readNoop().config['prevResult'], PRIMARY_RESULT);
      checkRuleset(t, netns, { redirectAll: false });
      t.same(listRecords(), [id]);
      t.same(listPins(), [id]);
    });

    t.test('add again gives the same rules', async (t) => {
      const first = listPluginTable(netns);
      t.equal(run('add').status, 0);
      t.equal(listPluginTable(netns), first);
    });

    t.test('check succeeds, reaches the no-op, and fails with the difference once a rule is gone', async (t) => {
      const sound = run('check');
      t.equal(sound.status, 0, sound.stderr);
      t.equal(readNoop().command, 'CHECK');
      runIn(netns, 'nft', 'flush', 'chain', 'inet', 'aether', 'output');
      const broken = run('check');
      t.not(broken.status, 0);
      t.match(broken.stderr, /missing rule 1 of chain "output"/);
      t.equal(run('add').status, 0, 'add repairs it');
      t.equal(run('check').status, 0);
    });

    t.test('gc detaches what libcni knows of the network', async (t) => {
      const { status, stderr } = run('gc');
      t.equal(status, 0, stderr);
      t.same(listRecords(), []);
      t.same(listPins(), []);
      t.equal(listPluginTable(netns), undefined);
    });

    t.test('del succeeds after add, and again', async (t) => {
      t.equal(run('add').status, 0);
      for (const round of ['first', 'second']) {
        const { status, stdout, stderr } = run('del');
        t.equal(status, 0, `${round}: ${stderr}`);
        t.equal(stdout, '');
      }
      t.same(listRecords(), []);
      t.equal(listPluginTable(netns), undefined);
    });

    t.test('status says why when the agent is away', async (t) => {
      await agent.stop();
      const { status, stderr } = run('status');
      t.not(status, 0);
      t.match(stderr, /agent/);
      agent = await startRoomAgent();
      t.equal(run('status').status, 0, 'and succeeds once it is back');
    });
  });
}
