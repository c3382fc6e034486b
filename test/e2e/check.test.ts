// The admin's tool against the real agent, kernel and Envoy: what is done to a pod behind everybody's back is named, with
// the way out, and that way is taken.
import { execFile } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import type { Finding } from '../../src/core/finding.ts';
import { makeAgentNode } from '../support/agent-node.ts';
import { execIn, nftIn } from '../support/netns.ts';
import { runTool, type ToolRun } from '../support/run-tool.ts';

const REQUIRE = { timeoutMs: 5000, proxyReady: 'require' } as const;
const MAIN = join(import.meta.dirname, '../../src/main.ts');
const run = promisify(execFile);

// Some thirty starts of the program.
t.setTimeout(180_000);
const node = makeAgentNode(t);
let agent = await node.startAgent();
await node.startEnvoy(agent);
// Healthy until Envoy has seen otherwise: a test need not wait for its first look.
const active = { 'endpoint.aether.io/health-check-mode': 'active' };
const shop = node.makePod('shop-0', { ...active, 'endpoint.aether.io/ports': '8080,9000=tcp' });
const web = node.makePod('web-0', active);
await shop.startApp('http=8080', 'echo=9000');
await web.startApp('http=8080');
for (const pod of [shop, web]) await agent.life.addPod(pod.request, REQUIRE);

const confDir = join(node.dir, 'net.d');
const binDir = join(node.dir, 'bin');
mkdirSync(confDir);
mkdirSync(binDir);
writeFileSync(join(binDir, 'aether-cni'), Buffer.alloc(5_000_000), { mode: 0o755 });
const entry = {
  type: 'aether-cni',
  capabilities: { 'io.kubernetes.cri.pod-annotations': true },
  agent_cni_path: join(node.dir, 'cni.sock'),
  admin_socket: join(node.dir, 'admin.sock'),
  netns_pin_dir: join(node.dir, 'netns'),
  delete_queue_dir: join(node.dir, 'lib/delete-queue'),
  capture_redirect_all_default: true,
};
const conflist = { cniVersion: '1.0.0', name: 'pods', plugins: [{ type: 'bridge' }, entry] };
writeFileSync(join(confDir, '10-pods.conflist'), JSON.stringify(conflist));

const adminSocket = ['--admin-socket', join(node.dir, 'admin.sock')];
const places = [...adminSocket, '--cni-conf-dir', confDir, '--cni-bin-dir', binDir];
const recordDir = ['--record-dir', join(node.dir, 'lib/registry')];

interface Checked extends ToolRun {
  readonly findings: readonly Finding[];
  readonly failures: readonly Finding[];
}

async function check(...args: readonly string[]): Promise<Checked> {
  const result = await runTool(['check', '--json', ...places, ...args]);
  // Printed by our own formatFindingsJson.
  const { ok, findings } = JSON.parse(result.stdout) as { ok: boolean; findings: Finding[] };
  const failures = findings.filter(({ status }) => status === 'fail');
  t.equal(ok, failures.length === 0);
  t.equal(result.exitCode, ok ? 0 : 1);
  return { ...result, findings, failures };
}

await t.test('check of a node in order', async (t) => {
  const { findings, failures } = await check();
  t.strictSame(failures, []);
  const seen = findings.filter(({ status }) => status === 'ok').map(({ area, subject }) => `${area} ${subject}`);
  for (const want of ['proxy node', 'registry node', 'snapshot node', `socket ${join(node.dir, 'xds.sock')}`]) {
    t.ok(seen.includes(want), want);
  }
  for (const pod of ['demo/shop-0', 'demo/web-0']) {
    t.strictSame(
      findings.filter(({ subject }) => subject === pod).map(({ area, status }) => `${area} ${status}`),
      ['netns ok', 'rules ok', 'record ok', 'rules ok', 'registry ok', 'proxy ok'],
    );
  }
});

await t.test('check for people: a line a finding, a pod in order on one line', async (t) => {
  const { exitCode, stdout, stderr } = await runTool(['check', ...places]);
  t.equal(exitCode, 0, stdout);
  t.match(stdout, /^ok {4}agent +node1 +ready: version test, 2 pods, 2 services/m);
  t.match(stdout, /^ok {4}pod +demo\/shop-0 +in order: netns, rules, record, registry, proxy$/m);
  for (const line of stdout.trimEnd().split('\n')) t.match(line, /^(ok {2}|warn|fail| {4}) {2}/);
  t.match(stderr, /^0 problems, /);
});

const shopRules = ['list', 'table', 'inet', 'aether'] as const;
const handleOf = (pattern: RegExp): string => {
  const line = nftIn(shop.netns, '-a', ...shopRules)
    .split('\n')
    .find((text) => pattern.test(text));
  return /# handle (\d+)/.exec(line ?? '')?.[1] ?? '';
};

const TAMPERING: readonly {
  readonly name: string;
  readonly nft: () => readonly string[];
  readonly says: RegExp;
}[] = [
  {
    name: 'a rule of the plugin gone',
    nft: () => ['delete', 'rule', 'inet', 'aether', 'output', 'handle', handleOf(/tcp dport 18081 redirect/)],
    says: /missing rule \d+ of chain "output": "tcp dport 18081 redirect to :18001"/,
  },
  {
    name: 'an accept before all of the plugin’s',
    nft: () => ['insert', 'rule', 'inet', 'aether', 'output', 'tcp', 'dport', '9000', 'accept'],
    says: /extra rule 1 of chain "output": "tcp dport 9000 accept"/,
  },
  {
    name: 'an exclusion that nobody asked for',
    nft: () => ['add', 'element', 'inet', 'aether', 'exclude_ports', '{ 18081 }'],
    says: /extra element \{ 18081 \} of set "exclude_ports"/,
  },
  { name: 'the whole ruleset flushed', nft: () => ['flush', 'ruleset'], says: /missing table inet aether:/ },
];

for (const { name, nft, says } of TAMPERING) {
  await t.test(`check names ${name}, and its remedy mends it`, async (t) => {
    nftIn(shop.netns, ...nft());
    const { failures } = await check('demo/shop-0');
    const [found] = failures;
    t.match(found, { area: 'rules', subject: 'demo/shop-0', message: says });
    const [, command = ''] = /or at once: (.*)$/.exec(found?.remedy ?? '') ?? [];
    t.match(command, /^aether-cni rules render --config .* \| nsenter --net=.* nft -f -$/);
    await run('sh', ['-c', command.replace(/^aether-cni/, `"${process.execPath}" "${MAIN}"`)]);
    t.notOk((await check('demo/shop-0')).failures.some(({ message }) => says.test(message)));
  });
}

await t.test('check names an element that the agent’s table lost, in that pod alone', async (t) => {
  await agent.agent.runner.run(() => agent.agent.tables.add(agent.agent.findPod('c-shop-0') ?? never()));
  t.strictSame((await check()).failures, []);
  const [vip] = agent.agent.catalog.find({ namespace: 'demo', serviceAccount: 'shop' }) ?? [];
  nftIn(web.netns, 'delete', 'element', 'inet', 'aether_mesh', 'mesh_tcp4', `{ ${vip?.text} . 9000 }`);
  const { failures } = await check();
  t.match(failures, [
    {
      ...{ area: 'rules', subject: 'demo/web-0' },
      message: `table inet aether_mesh differs: missing element { ${vip?.text} . 9000 } of set "mesh_tcp4"`,
      remedy: /restart the agent/,
    },
  ]);
  t.equal(failures.length, 1);
});

await t.test('rules list prints what the kernel has, and nft reads it', async (t) => {
  execIn(shop.netns, ['nft', '-f', '-'], {
    input: 'table ip theirs { chain c { accept; accept; }; }\nadd rule inet aether output tcp dport 25 counter drop\n',
  });
  for (const name of ['demo/shop-0', 'c-shop-0']) {
    const { exitCode, stdout } = await runTool(['rules', 'list', name, ...adminSocket]);
    t.equal(exitCode, 0);
    t.match(stdout, /^# demo\/shop-0, container c-shop-0, \/run\/netns\//);
    t.match(stdout, /table inet aether_mesh \{.*table inet aether \{/s);
    t.match(stdout, /\t\ttcp dport 18081 redirect to :18001\n/);
    t.match(stdout, /\t\t# none of ours: .*\[ drop \]\n/);
    t.match(stdout, /set mesh_tcp4 \{\n\t\ttype ipv4_addr \. inet_service\n\t\telements = \{ 10\.254\.[^}]* \. 9000/);
    t.match(stdout, /^# 1 table of others: ip theirs \(2 rules\)$/m);
    execIn(web.netns, ['nft', '-c', '-f', '-'], { input: stdout });
  }
  nftIn(shop.netns, 'delete', 'table', 'ip', 'theirs');
});

await t.test('pods, services and snapshot say what the agent has', async (t) => {
  const pods = await runTool(['pods', ...adminSocket]);
  t.match(
    pods.stdout,
    /^demo\/shop-0 +demo\/shop +10\.78\.0\.2 +8080\*,9000=tcp +default +healthy +yes +ready +c-shop-0$/m,
  );
  t.match(JSON.parse((await runTool(['pods', '--json', 'demo/web-0', ...adminSocket])).stdout), {
    pods: [{ record: { name: 'web-0' }, registered: true, proxyReady: true, problems: [] }],
  });
  const services = await runTool(['services', ...adminSocket]);
  t.match(
    services.stdout,
    /^demo\/shop +10\.254\.[\d.]+,fd0a:e7e0::[\da-f]+ +8080\/http\*,9000\/tcp\* +1\/1 +shop\.demo\.aether\.internal$/m,
  );
  t.match(JSON.parse((await runTool(['services', '--json', ...adminSocket])).stdout), {
    services: [{ key: 'demo/shop', endpoints: [{ ip: '10.78.0.2', health: 'HEALTHY' }] }, { key: 'demo/web' }],
  });
  const snapshot = await runTool(['snapshot', ...adminSocket]);
  t.match(snapshot.stdout, /^listener +[0-9a-f]+ +has it +inbound_demo_shop-0$/m);
  const { stdout } = await runTool(['snapshot', '--json', ...adminSocket]);
  t.match(JSON.parse(stdout), {
    resources: [{ kind: 'cluster', version: String, acknowledged: true, resource: { name: String } }],
  });
  t.notMatch(stdout, /PRIVATE KEY|private_key/);
});

await t.test('check names Envoy’s refusal in Envoy’s words', async (t) => {
  const late = node.makePod('late-0', {});
  const holder = await holdPort(late.netns.path, 18008);
  t.teardown(() => holder.kill());
  await agent.life.addPod(late.request, { timeoutMs: 3000, proxyReady: 'wait' });
  const { failures } = await check('demo/late-0');
  t.match(failures, [
    {
      area: 'proxy',
      subject: 'demo/late-0',
      message: /Envoy refused inbound_demo_late-0: .*[Aa]ddress (already )?in use/,
    },
  ]);
  await agent.life.removePod(late.request);
});

await t.test('an unknown pod is a clear failure of each command', async (t) => {
  for (const command of [
    ['check', ...places],
    ['rules', 'list', ...adminSocket],
    ['pods', ...adminSocket],
  ]) {
    const { exitCode, stdout, stderr } = await runTool([...command, 'demo/nope']);
    t.equal(exitCode, 1, command.join(' '));
    t.match(`${stdout}${stderr}`, /demo\/nope/);
    t.equal((await runTool([...command, 'a/b/c'])).exitCode, 2);
  }
});

await t.test('somebody else than root is told so', async (t) => {
  for (const command of [
    ['check', ...places],
    ['rules', 'list', 'demo/shop-0', ...adminSocket],
    ['services', ...adminSocket],
  ]) {
    const { exitCode, stdout, stderr } = await runTool(command, { uid: 65_534 });
    t.equal(exitCode, 1, command.join(' '));
    t.match(`${stdout}${stderr}`, /root/);
  }
});

await t.test('a record that a hand removed, and one that is none', async (t) => {
  const file = join(node.dir, 'lib/registry/c-web-0.json');
  renameSync(file, `${file}.away`);
  writeFileSync(join(node.dir, 'lib/registry/c-x.json'), '{"name":');
  const { failures } = await check();
  t.ok(failures.some(({ area, subject }) => area === 'record' && subject === 'demo/web-0'));
  t.ok(failures.some(({ area, subject }) => area === 'record' && subject.endsWith('/c-x.json')));
  renameSync(`${file}.away`, file);
  rmSync(join(node.dir, 'lib/registry/c-x.json'));
});

await t.test('without the agent check says so, and goes on with records and kernel', async (t) => {
  await agent.close();
  nftIn(web.netns, 'flush', 'ruleset');
  const begin = Date.now();
  const { failures, findings } = await check(...recordDir);
  t.ok(Date.now() - begin < 10_000);
  t.match(
    failures.find(({ area }) => area === 'agent'),
    { message: /the agent is away: .*not there/, remedy: /take the entry "aether-cni" out/ },
  );
  t.ok(
    failures.some(
      ({ area, subject, message }) =>
        area === 'rules' && subject === 'demo/web-0' && /missing table inet aether:/.test(message),
    ),
  );
  t.ok(
    findings.some(
      ({ area, subject, message }) =>
        area === 'rules' && subject === 'demo/shop-0' && /only the agent knows/.test(message),
    ),
  );
  const { exitCode, stdout } = await runTool(['rules', 'list', 'demo/web-0', ...adminSocket, ...recordDir]);
  t.equal(exitCode, 0);
  t.match(stdout, /# there is no table inet aether\n/);
  for (const command of ['pods', 'services', 'snapshot']) {
    const { exitCode: code, stderr } = await runTool([command, ...adminSocket]);
    t.equal(code, 1);
    t.match(stderr, /admin\.sock is not there: is the agent running/);
  }
});

await t.test('an agent that comes back mends its own tables', async (t) => {
  agent = await node.startAgent();
  t.notOk((await check('demo/web-0')).failures.some(({ message }) => message.includes('aether_mesh')));
});

function never(): never {
  throw new Error('the pod is not there');
}

/** Something of the pod's that has a port of the mesh. */
async function holdPort(netns: string, port: number) {
  const script = `require('node:net').createServer().listen(${port}, '0.0.0.0', () => console.log('up'))`;
  const child = execFile('nsenter', [`--net=${netns}`, '--', process.execPath, '-e', script]);
  await new Promise((resolve) => child.stdout?.once('data', resolve));
  return child;
}
