// K006, K011: the result of the plugins before us in every pair of versions, and in chains with the distribution's plugins.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { cniEnvironment, type Json } from '../../scripts/lab/cni-runtime.ts';
import { makeNetns, removeNetns } from '../../scripts/lab/network.ts';
import { runCnitool } from '../../scripts/runtimes/cnitool.ts';
import { readRecord } from '../../scripts/runtimes/plugin-dir.ts';
import { SUPPORTED_VERSIONS } from '../../src/cni/versions.ts';
import { callPlugin, openPod, PREV_RESULT } from '../support/runtimes-call.ts';
import {
  ANNOTATIONS_CAPABILITY,
  bridgeNetwork,
  CONF_DIR,
  listAddresses,
  MANAGED,
  ownEntry,
  pluginDir,
  recorderEntry,
  writeNetwork,
} from '../support/runtimes-node.ts';
import { ROOM_DIR, startRoomAgent, t } from '../support/runtimes-room.ts';
import { checkRuleset, listPluginTable } from '../support/runtimes-ruleset.ts';

const agent = await startRoomAgent();
t.teardown(() => agent.stop());

const isOld = (version: string) => version.startsWith('0.');

/** A result with all that a version can say, and with keys that no version knows. `shown`: 1.1's members are in it. */
function resultOf(version: string, shown = version === '1.1.0'): Json {
  const family = (name: '4' | '6') => (isOld(version) ? { version: name } : {});
  const link = shown ? { mtu: 1400, socketPath: '/run/vhost.sock', pciID: '0000:00:02.0' } : {};
  const route = shown ? { mtu: 1400, advmss: 1360, priority: 5, table: 100, scope: 0 } : {};
  return {
    cniVersion: version,
    interfaces: [
      { name: 'cni0', mac: '02:00:00:00:00:01', 'vendor.example/port': { slot: 7 } },
      { name: 'eth0', mac: '02:00:00:00:00:02', sandbox: '/run/netns/of-the-pod', ...link },
    ],
    ips: [
      { ...family('4'), address: '10.99.0.2/24', gateway: '10.99.0.1', interface: 1, 'vendor.example/pool': 'a' },
      { ...family('6'), address: 'fd99::2/64', gateway: 'fd99::1', interface: 1 },
    ],
    routes: [{ dst: '0.0.0.0/0', gw: '10.99.0.1', ...route, 'vendor.example/via': null }],
    dns: { nameservers: ['10.96.0.10'], domain: 'cluster.local', search: ['svc'], options: ['ndots:5'] },
    'vendor.example/extra': { big: 12345678901234, list: [1, 'two', false] },
  };
}

for (const form of ['full', 'relay'] as const) {
  t.test(`K006 ADD of the ${form} plugin answers in the configuration's version`, async (t) => {
    using pod = openPod();
    for (const conf of SUPPORTED_VERSIONS) {
      for (const prev of SUPPORTED_VERSIONS) {
        const run = callPlugin('ADD', { ...pod, form, cniVersion: conf, prevResult: resultOf(prev) });
        t.equal(run.status, 0, `${conf} after ${prev}: ${run.stdout}${run.stderr}`);
        t.same(JSON.parse(run.stdout), resultOf(conf, conf === '1.1.0' && prev === '1.1.0'), `${conf} after ${prev}`);
      }
    }
    t.equal(callPlugin('DEL', { ...pod, form }).status, 0);
  });

  t.test(`K007 K012 the ${form} plugin refuses a version that it does not speak, and deletes with any`, async (t) => {
    using pod = openPod();
    for (const cniVersion of ['', '0.1.0', '0.2.0', '1.2.0', '2.0.0', '9.9.9', 'latest']) {
      const call = { ...pod, form, cniVersion, prevResult: PREV_RESULT };
      const add = callPlugin('ADD', call);
      t.not(add.status, 0);
      t.match(JSON.parse(add.stdout), { code: 1, details: /0\.3\.0.*1\.1\.0/ }, `ADD with "${cniVersion}"`);
      t.match(callPlugin('DEL', call), { status: 0, stdout: '' }, `DEL with "${cniVersion}"`);
    }
  });

  t.test(`K009 ADD of the ${form} plugin works without addresses, with rules for both families`, async (t) => {
    for (const ips of [{}, { ips: [] }]) {
      using pod = openPod();
      const prevResult = { cniVersion: '1.0.0', interfaces: [{ name: 'eth0', sandbox: pod.netns }], ...ips };
      const call = { ...pod, form, prevResult };
      const add = callPlugin('ADD', call);
      t.equal(add.status, 0, `${add.stdout}${add.stderr}`);
      t.same(JSON.parse(add.stdout), prevResult);
      t.match(add.stderr, /the pod has no address/, 'and the runtime is told');
      // One table for IPv4 and IPv6.
      checkRuleset(t, pod.netns, { redirectAll: false });
      const check = callPlugin('CHECK', call);
      t.equal(check.status, 0, check.stdout);
      t.match(callPlugin('DEL', call), { status: 0, stdout: '' });
      t.equal(listPluginTable(pod.netns), undefined);
    }
  });

  t.test(`K011 ADD of the ${form} plugin hands on the very bytes where the versions agree`, async (t) => {
    using pod = openPod();
    const text =
      '{ "cniVersion": "1.0.0",\t"ips": [ {"address":"10.99.0.2/24"} ], "x": [1.0, 1e3, 12345678901234567890, "\\u00e9\\/"],\n"x": {} }';
    const entry = JSON.stringify({ ...ownEntry(), cniVersion: '1.0.0', name: 'direct' });
    const input = `${entry.slice(0, -1)},"runtimeConfig":${JSON.stringify({ [ANNOTATIONS_CAPABILITY]: MANAGED })},"prevResult":${text}}`;
    const args = { K8S_POD_NAMESPACE: 'demo', K8S_POD_NAME: 'bytes' };
    const env = cniEnvironment('ADD', { ...pod, ifname: 'eth0', args, capabilities: {} }, []);
    const run = spawnSync(join(pluginDir(form), 'aether-cni'), [], {
      env: { ...process.env, ...env },
      input,
      encoding: 'utf8',
    });
    t.equal(run.stdout.trim(), text, run.stderr);
    t.equal(callPlugin('DEL', { ...pod, form }).status, 0);
  });
}

const before = recorderEntry('before');
const after = recorderEntry('after');
const chains = [
  { name: 'before-tuning', chained: [before, ownEntry(), after, { type: 'tuning' }] },
  { name: 'after-tuning', chained: [{ type: 'tuning' }, before, ownEntry(), after] },
  { name: 'before-loopback', chained: [before, ownEntry(), after, { type: 'loopback' }] },
  { name: 'after-loopback', chained: [{ type: 'loopback' }, before, ownEntry(), after] },
  {
    name: 'before-portmap',
    chained: [before, ownEntry(), after, { type: 'portmap', capabilities: { portMappings: true } }],
  },
];

for (const { name, chained } of chains) {
  t.test(`K011 the result passes us unchanged, ${name}`, async (t) => {
    writeNetwork(bridgeNetwork(name, chained));
    const netns = makeNetns(join(ROOM_DIR, 'ns'), name);
    t.teardown(() => removeNetns(netns));
    const call = {
      ...{ network: name, netns, confDir: CONF_DIR, binDir: pluginDir('relay') },
      args: [
        ['IgnoreUnknown', '1'],
        ['K8S_POD_NAMESPACE', 'demo'],
        ['K8S_POD_NAME', name],
      ] as const,
      capabilities: {
        [ANNOTATIONS_CAPABILITY]: MANAGED,
        portMappings: [{ hostPort: 8099, containerPort: 80, protocol: 'tcp' }],
      },
    };
    const add = runCnitool('add', call);
    t.equal(add.status, 0, add.stderr);
    const [given] = readRecord(before.recordFile).slice(-1);
    const [passedOn] = readRecord(after.recordFile).slice(-1);
    t.same(passedOn?.config['prevResult'], given?.config['prevResult'], 'the next plugin gets what we were given');
    const result: Json = JSON.parse(add.stdout);
    t.match(result, {
      interfaces: [{}, {}, { name: 'eth0', sandbox: netns }],
      ips: [{ interface: 2 }, { interface: 2 }],
    });
    const del = runCnitool('del', call);
    t.equal(del.status, 0, del.stderr);
    t.same(listAddresses(name), []);
  });
}
