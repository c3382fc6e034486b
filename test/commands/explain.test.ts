// The command as a process of its own, against a real agent with a kernel in memory. Root only.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { PROXY_READY_METADATA } from '../../src/adapters/grpc/cni-metadata.ts';
import { openAgentProcess } from '../../src/commands/agent-process.ts';
import { parseAgentSettings } from '../../src/commands/agent-settings.ts';
import { CNIService } from '../../src/gen/aether/cni/v1/cni_pb.js';
import type { Explanation } from '../../src/mesh/explanation.ts';
import { TestKernel } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { makeIp } from '../support/services.ts';
import { callUnary } from '../support/unary-call.ts';

const POD = {
  ...{ name: 'shop-0', namespace: 'demo', containerId: 'c-shop-0', networkNamespace: '/run/netns/c-shop-0' },
  ips: ['10.1.2.3'],
  annotations: {
    'aether.io/managed': 'true',
    'aether.io/service-account': 'shop',
    'endpoint.aether.io/ports': '8080,9000=tcp',
    'capture.aether.io/redirect-all': 'true',
  },
};

/** An agent with one pod; its admin socket. */
async function startAgent(t: Test): Promise<string> {
  const dir = await mkdtemp('/tmp/ae-explain-');
  const sockets = ['cni', 'relay', 'xds', 'admin', 'health'].map((name) => [
    `${name}-socket`,
    [join(dir, `${name}.sock`)],
  ]);
  const flags = new Map<string, readonly string[]>([
    ...(sockets as [string, string[]][]),
    ['record-dir', [join(dir, 'registry')]],
    ['netns-pin-dir', [join(dir, 'netns')]],
    ['mesh-dns', ['off']],
    ['vip-cidr', ['10.254.0.0/16']],
    ['ca-dir', [join(dir, 'ca')]],
    ['delete-queue-dir', [join(dir, 'queue')]],
  ]);
  const parsed = parseAgentSettings({ flags, environment: {} }, { hostname: 'node-a', hostIp: makeIp('192.0.2.10') });
  if (parsed.kind === 'problems') throw new Error(JSON.stringify(parsed.problems));
  const kernel = new TestKernel();
  kernel.alive.add(POD.networkNamespace);
  const routes = { prohibit: async () => {}, release: async () => {} };
  const agent = await openAgentProcess({
    settings: parsed.value,
    kernel: { namespaces: kernel, tables: kernel, routes },
    log: new RecordingLog(),
    version: '0.0.0-test',
  });
  t.teardown(async () => {
    await agent.close();
    await rm(dir, { recursive: true, force: true });
  });
  await callUnary(parsed.value.cniSocket, CNIService.method.addPod, {
    request: { pod: POD },
    metadata: { [PROXY_READY_METADATA]: 'skip' },
  });
  return parsed.value.adminSocket;
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function explain(socket: string, ...args: readonly string[]): Promise<Ended> {
  const command = ['src/main.ts', 'explain', ...args];
  const env = { ...process.env, AETHER_ADMIN_SOCKET: socket };
  return new Promise((resolve) => {
    execFile(process.execPath, command, { env }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
  });
}

t.test('aether-cni explain', async (t) => {
  const socket = await startAgent(t);
  const from = ['--from', 'demo/shop-0'];

  t.test('says where a spelling leads, and what puts that in question', async (t) => {
    const { code, stdout } = await explain(socket, ...from, 'http://example.com/');
    // Where it would lead, without Envoy.
    t.equal(code, 1);
    t.match(stdout, /^demo\/shop-0 -> http:\/\/example\.com\/\n {2}capture {4}redirect-all/);
    t.match(stdout, /\n=> not now: no proxy is connected, .*\. Otherwise: passes through to example\.com:80 as it is/);
  });

  t.test('exits with 0 for what leads somewhere without Envoy', async (t) => {
    const { code, stdout } = await explain(socket, ...from, '127.0.0.1:8080');
    t.equal(code, 0);
    t.match(stdout, '\n=> leaves the pod as dialled: it stays in the pod\n');
  });

  t.test('takes a container id, and writes JSON in the documented shape', async (t) => {
    const { code, stdout } = await explain(socket, '--from', 'c-shop-0', '--json', 'shop.demo.aether.internal:18082');
    const explanation = JSON.parse(stdout) as Explanation; // what is being tested
    t.match(explanation, {
      ...{ pod: 'demo/shop-0', captureMode: 'redirect-all', bytes: 'raw' },
      dials: [{ outcome: 'mesh', listenerPort: 18002, target: { port: 9000, protocol: 'tcp', serverName: '9000' } }],
    });
    t.match(explanation.dials[0]?.target?.endpoints, [{ ip: '10.1.2.3', pod: 'demo/shop-0', node: 'node-a' }]);
    // Without Envoy nobody has seen the application alive.
    t.equal(explanation.resolved, false);
    t.equal(code, 1);
  });

  const CASES = [
    ['leads nowhere', [...from, 'http://shop.demo.aether.internal:4444/'], 1, /=> refused with HTTP 503/, /^$/],
    ['is no destination', [...from, 'shop'], 2, /^$/, /^aether-cni explain: DEST: must be http:.*got "shop"/],
    ['has no pod of that form', ['--from', 'a/b/c', 'x:1'], 2, /^$/, /POD: must be NAMESPACE\/POD or a container id/],
    [
      'has both wrong',
      ['--from', 'a/b/c', 'shop'],
      2,
      /^$/,
      /^aether-cni explain: arguments: POD: must be [^;]*; DEST: must be /,
    ],
    ['has no --from', ['x:1'], 2, /^$/, /required option '--from <POD>'/],
    ['has no destination', from, 2, /^$/, /missing required argument 'DEST'/],
    ['is of an unknown pod', ['--from', 'demo/ghost', 'x:1'], 1, /^$/, /no pod "demo\/ghost" .*there are demo\/shop-0/],
  ] as const;
  for (const [title, args, code, stdout, stderr] of CASES) {
    t.test(`exits with ${code} for a call that ${title}`, async (t) => {
      t.match(await explain(socket, ...args), { code, stdout, stderr });
    });
  }

  t.test('K063 says by the plugin’s own rule why a pod passes by, with and without an agent', async (t) => {
    const confDir = await mkdtemp('/tmp/ae-explain-conf-');
    t.teardown(() => rm(confDir, { recursive: true, force: true }));
    const entry = {
      type: 'aether-cni',
      excluded_namespaces: ['legacy'],
      agent_pod: { namespace: 'mesh', name_prefix: 'agent-' },
    };
    const list = { cniVersion: '1.0.0', name: 'k8s', plugins: [{ type: 'bridge' }, entry] };
    await writeFile(join(confDir, '10-k8s.conflist'), JSON.stringify(list));
    const ask = (at: string, pod: string) => explain(at, '--cni-conf-dir', confDir, '--from', pod, 'x:1');
    const reason = new RegExp(`no pod "legacy/x".*the namespace "legacy" is excluded \\(${confDir}/10-k8s.conflist\\)`);
    t.match(await ask(socket, 'legacy/x'), { code: 1, stdout: '', stderr: reason });
    t.match(await ask(socket, 'mesh/agent-1'), { code: 1, stderr: /it is the node agent itself/ });
    t.match(await ask('/nowhere/admin.sock', 'legacy/x'), {
      code: 1,
      stderr: /asking the agent.*"legacy" is excluded/,
    });
    const { stderr } = await ask(socket, 'kube-system/x');
    t.notMatch(stderr, /pass by/, 'the configuration replaces the default list');
  });

  t.test('exits with 1 when there is no agent', async (t) => {
    t.match(await explain('/nowhere/admin.sock', ...from, 'x:1'), {
      code: 1,
      stdout: '',
      stderr: /^aether-cni explain: asking the agent: /,
    });
  });
});
