// The plugin inside the agent: whose files are looked at, and what is left to the standalone program.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { openAgentRelay } from '../../src/commands/agent-relay.ts';
import type { NodeDeps } from '../../src/plugin/deps.ts';
import { call, listenAs } from '../adapters/relay/relay-world.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';

const CNI_ARGS = 'K8S_POD_NAMESPACE=demo;K8S_POD_NAME=shop-0';
const CHECK = { CNI_COMMAND: 'CHECK', CNI_CONTAINERID: 'c1', CNI_IFNAME: 'eth0', CNI_ARGS };
const CONFIG = { cniVersion: '1.0.0', name: 'k8s', type: 'aether-cni', prevResult: { cniVersion: '1.0.0', ips: [] } };

async function start(t: Test, pid: number) {
  const dir = mkdtempSync('/tmp/ae-agent-relay-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const node = new FakePluginNode();
  const { deps } = node;
  const seen: string[] = [];
  const note = (path: string): void => void seen.push(path);
  const namespaces: NodeDeps['namespaces'] = {
    ...deps.namespaces,
    assertUsable: async (path) => note(path),
  };
  const events: string[] = [];
  const server = await openAgentRelay({
    ...{ socketPath: join(dir, 'relay.sock'), pods: deps.pods, admin: deps.admin, log: deps.log, namespaces },
    rules: {
      ...deps.rules,
      readTable: async (path) => {
        note(path);
        return undefined;
      },
    },
    threshold: { enter: async () => undefined, leave: async () => false },
    listen: listenAs(pid),
    openPeerView: (peer) => {
      events.push(`open ${peer.pid}`);
      return { resolve: (path) => `view:${path}`, [Symbol.dispose]: () => void events.push('close') };
    },
    probeKernel: async () => [],
    onWork: () => events.push('work'),
  });
  t.teardown(() => server.close());
  const logFile = join(dir, 'plugin.log');
  const config = JSON.stringify({ ...CONFIG, netns_pin_dir: join(dir, 'pins'), log_file: logFile });
  return { server, seen, events, config, logFile };
}

t.test("the runtime's path is looked at as the caller sees it", async (t) => {
  const { server, seen, events, config } = await start(t, 4711);
  const answer = await call(server.socketPath, { ...CHECK, CNI_NETNS: '/run/netns/a' }, config);
  t.equal(answer.kind, 'answer');
  t.strictSame(seen, ['view:/run/netns/a', 'view:/run/netns/a']);
  t.strictSame(events, ['open 4711', 'work', 'close']);
});

t.test('without the host’s process numbers a call with a namespace is left to the standalone program', async (t) => {
  const { server, seen, events, config } = await start(t, 0);
  t.same(await call(server.socketPath, { ...CHECK, CNI_NETNS: '/run/netns/a' }, config), {
    kind: 'refused',
  });
  t.strictSame(seen, []);
  const status = { CNI_COMMAND: 'STATUS' };
  const answer = await call(server.socketPath, status, config.replace('1.0.0', '1.1.0'));
  t.match(answer, { kind: 'answer', exitCode: 0 }, 'STATUS needs none');
  t.strictSame(events, [], 'nor is it work');
});

t.test('what a call says is in the log that its configuration names', async (t) => {
  const { server, config, logFile } = await start(t, 4711);
  const annotations = { 'aether.io/managed': 'true', token: 's3cret' };
  const runtimeConfig = { 'io.kubernetes.cri.pod-annotations': annotations };
  const secret = { ...JSON.parse(config), log_level: 'debug', token: 's3cret', runtimeConfig };
  const answer = await call(server.socketPath, { ...CHECK, CNI_NETNS: '/run/netns/a' }, JSON.stringify(secret));
  t.match(answer, { kind: 'answer', exitCode: 1 });
  for (let turn = 0; turn < 2000 && !existsSync(logFile); turn++) await setTimeout(10);
  const lines = readFileSync(logFile, 'utf8').trim().split('\n');
  const about = { verb: 'CHECK', containerId: 'c1', netns: '/run/netns/a', ifname: 'eth0' };
  t.match(lines.map((line) => JSON.parse(line)).at(-1), { event: 'cni.call.failed', ...about });
  t.notMatch(lines.join('\n'), 's3cret');
});
