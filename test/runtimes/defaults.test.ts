// Agent, relay and plugin as they meet on a node where nothing is configured: the shortest entry, no flag, the default paths.
import { existsSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { cniEnvironment, pluginInput, runPlugin } from '../../scripts/lab/cni-runtime.ts';
import { EXECUTABLE } from '../../scripts/lab/places.ts';
import { startProcess, waitUntil } from '../../scripts/lab/processes.ts';
import { openPod, PREV_RESULT } from '../support/runtimes-call.ts';
import { ANNOTATIONS_CAPABILITY, MANAGED, pluginDir } from '../support/runtimes-node.ts';
import { ROOM_DIR, t } from '../support/runtimes-room.ts';
import { listPluginTable } from '../support/runtimes-ruleset.ts';

// The room has /run, /var/lib/aether and /var/log/aether-cni for itself.
delete process.env['AETHER_RELAY_SOCKET'];
const SOCKETS = ['cni', 'relay', 'admin', 'xds'].map((name) => `/run/aether/${name}.sock`);
const agent = startProcess({ name: 'agent', command: [EXECUTABLE, 'agent'], logFile: join(ROOM_DIR, 'agent.log') });
t.teardown(() => agent.stop());
await waitUntil('the sockets', () => SOCKETS.every((path) => existsSync(path)), { timeoutMs: 15_000, process: agent });

const LOG = '/var/log/aether-cni/plugin.log';
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

t.test('the agent makes its sockets where the contract has them, for root alone', async (t) => {
  for (const path of SOCKETS) t.equal(modeOf(path), '600', path);
});

for (const form of ['relay', 'full'] as const) {
  t.test(`the ${form} plugin finds the agent with the shortest entry`, async (t) => {
    using pod = openPod();
    const dir = pluginDir(form);
    const entry = { type: 'aether-cni', capabilities: { [ANNOTATIONS_CAPABILITY]: true } };
    const attachment = {
      ...{ containerId: pod.containerId, netns: pod.netns, ifname: 'eth0' },
      args: { K8S_POD_NAMESPACE: 'demo', K8S_POD_NAME: `by-${form}` },
      capabilities: { [ANNOTATIONS_CAPABILITY]: MANAGED },
    };
    const run = (verb: 'ADD' | 'CHECK' | 'DEL') =>
      runPlugin(
        join(dir, 'aether-cni'),
        pluginInput({ cniVersion: '1.0.0', name: 'net', plugins: [] }, entry, {
          capabilities: attachment.capabilities,
          prevResult: PREV_RESULT,
        }),
        { env: cniEnvironment(verb, attachment, [dir]) },
      );
    const record = `/var/lib/aether/registry/${pod.containerId}.json`;
    const pin = `/run/aether/netns/${pod.containerId}`;

    const add = await run('ADD');
    t.equal(add.exitCode, 0, `${add.stdout}${add.stderr}`);
    t.same(JSON.parse(add.stdout), PREV_RESULT);
    t.match(add.stderr, /Envoy|proxy/, 'no Envoy is there: ADD waited for it, and says so');
    t.equal(modeOf(record), '600', 'the record');
    t.ok(existsSync(pin), 'the pin');
    t.match(listPluginTable(pod.netns), /redirect to :18001/);
    t.equal(modeOf(LOG), '600', 'the log');
    t.match(readFileSync(LOG, 'utf8'), /"cni.add.done".*\n$/, 'whoever did it has noted it');
    rmSync(LOG);
    const check = await run('CHECK');
    t.equal(check.exitCode, 0, check.stdout);

    t.match(await run('DEL'), { exitCode: 0, stdout: '' });
    t.notOk(existsSync(record));
    t.notOk(existsSync(pin));
    t.equal(listPluginTable(pod.netns), undefined);
  });
}
