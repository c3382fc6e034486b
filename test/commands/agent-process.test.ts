// The whole process on sockets of its own, with a kernel in memory: the worked example through real gRPC, DNS and disk.
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ServiceError, status } from '@grpc/grpc-js';
import { type DecodedPacket, decode, encode } from 'dns-packet';
import t, { type Test } from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { forwardQuery } from '../../src/adapters/dns/forward.ts';
import { PROXY_READY_METADATA, WARNING_METADATA } from '../../src/adapters/grpc/cni-metadata.ts';
import { type AgentProcess, openAgentProcess } from '../../src/commands/agent-process.ts';
import { type AgentSettings, parseAgentSettings } from '../../src/commands/agent-settings.ts';
import { AdminService } from '../../src/gen/aether/admin/v1/admin_pb.js';
import { AddPodResponse_Result, CNIService, RemovePodResponse_Result } from '../../src/gen/aether/cni/v1/cni_pb.js';
import type { Snapshot } from '../../src/xds/resource.ts';
import { TestKernel } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { makeIp } from '../support/services.ts';
import { callUnary } from '../support/unary-call.ts';

const SHOP = {
  name: 'shop-0',
  namespace: 'demo',
  containerId: 'c-shop-0',
  networkNamespace: '/run/netns/c-shop-0',
  ips: ['10.1.2.3'],
  uid: 'u1',
  annotations: {
    'aether.io/managed': 'true',
    'aether.io/service-account': 'shop',
    'endpoint.aether.io/port': '8080',
    'endpoint.aether.io/ports': '8080,9090=h2,9000=tcp,5432=tcp',
  },
};
const REMOVE_SHOP = { name: 'shop-0', namespace: 'demo', containerId: 'c-shop-0' };
const SKIP = { [PROXY_READY_METADATA]: 'skip' };

interface Node {
  readonly dir: string;
  readonly kernel: TestKernel;
  readonly routes: string[];
  readonly log: RecordingLog;
  readonly settings: AgentSettings;
  open(): Promise<AgentProcess>;
}

async function makeNode(t: Test, more: Readonly<Record<string, readonly string[]>> = {}): Promise<Node> {
  const dir = await mkdtemp('/tmp/ae-agent-');
  const at = (path: string): readonly string[] => [join(dir, path)];
  const flags = {
    'cni-socket': at('run/cni.sock'),
    'relay-socket': at('run/relay.sock'),
    'xds-socket': at('run/xds.sock'),
    'admin-socket': at('run/admin.sock'),
    'health-socket': at('run/health.sock'),
    'record-dir': at('lib/registry'),
    'netns-pin-dir': at('run/netns'),
    'mesh-dns': ['127.0.0.1:0'],
    'node-name': ['node-a'],
    ...more,
  };
  const host = { hostname: 'host', hostIp: makeIp('192.0.2.10') };
  const parsed = parseAgentSettings({ flags: new Map(Object.entries(flags)), environment: {} }, host);
  if (parsed.kind === 'problems') throw new Error(JSON.stringify(parsed.problems));
  const settings = parsed.value;
  const kernel = new TestKernel();
  kernel.alive.add(SHOP.networkNamespace);
  const routes: string[] = [];
  const log = new RecordingLog();
  const open: AgentProcess[] = [];
  t.teardown(async () => {
    for (const process of open) await process.close();
    await rm(dir, { recursive: true, force: true });
  });
  return {
    dir,
    kernel,
    routes,
    log,
    settings,
    open: async () => {
      const opened = await openAgentProcess({
        settings,
        kernel: {
          namespaces: kernel,
          tables: kernel,
          routes: {
            prohibit: async (ranges) => void routes.push(...ranges.map((range) => `+${range}`)),
            release: async (ranges) => void routes.push(...ranges.map((range) => `-${range}`)),
          },
        },
        log,
        version: '0.0.0-test',
      });
      open.push(opened);
      return opened;
    },
  };
}

const addPod = ({ settings }: Node, pod: object, metadata: Readonly<Record<string, string>> = SKIP) =>
  callUnary(settings.cniSocket, CNIService.method.addPod, { request: { pod }, metadata });
const removePod = ({ settings }: Node, request: object) =>
  callUnary(settings.cniSocket, CNIService.method.removePod, { request });

async function resolveName(process: AgentProcess, name: string, type: 'A' | 'AAAA'): Promise<DecodedPacket> {
  const query = encode({ type: 'query', id: 7, questions: [{ type, name }] });
  const reply = await forwardQuery(query, { upstreams: process.dnsAddresses, transport: 'udp', timeoutMs: 2000 });
  if (reply === undefined) throw new Error('mesh DNS does not answer');
  return decode(reply);
}

function versions(snapshot: Snapshot | undefined): Record<string, string> {
  const all = Object.values(snapshot?.resources ?? {}).flatMap((resources) => [...resources.values()]);
  const kept = all.filter(({ kind, name }) => kind !== 'secret' || !name.includes('/ns/'));
  return Object.fromEntries(kept.map(({ kind, name, version }) => [`${kind} ${name}`, version]));
}

t.test('the worked example through the real sockets', async (t) => {
  const services = { 'demo/shop': ['10.96.0.50', 'fd96::50'] };
  const fileDir = await mkdtemp('/tmp/ae-agent-file-');
  t.teardown(() => rm(fileDir, { recursive: true, force: true }));
  const file = join(fileDir, 'services.json');
  await writeFile(file, JSON.stringify({ services }));
  const node = await makeNode(t, { services: [file] });
  const process = await node.open();
  t.strictSame(node.routes, ['+10.254.0.0/16', '+fd0a:e7e0::/112']);
  const { response } = await addPod(node, SHOP);
  t.equal(response.result, AddPodResponse_Result.SUCCESS);
  // Its answer did not wait for what Envoy is told.
  await process.agent.runner.idle();

  t.test('is on disk', async (t) => {
    const record: unknown = JSON.parse(await readFile(join(node.dir, 'lib/registry/c-shop-0.json'), 'utf8'));
    t.match(record, { name: 'shop-0', namespace: 'demo', serviceAccount: 'shop', annotations: SHOP.annotations });
  });
  t.test('has its clusters, listeners and chains', async (t) => {
    const resources = process.cache.snapshot?.resources;
    const clusters = [...(resources?.cluster.keys() ?? [])];
    for (const want of [
      'shop.demo.aether.internal',
      'shop.demo.aether.internal:9090',
      'tcp:10.96.0.50:18082',
      'tcp:10.96.0.50:5432',
      'tcp:10.96.0.50:9000',
      'tcp:fd96::50:9000',
      'app_demo_shop-0_8080',
      'blackhole',
    ]) {
      t.ok(clusters.includes(want), want);
    }
    t.ok(resources?.endpoints.has('tcp:shop.demo.aether.internal:5432'));
    for (const want of [
      'outbound_http_demo_shop-0',
      'inbound_demo_shop-0',
      'capture_demo_shop-0',
      'capture_tcp_demo_shop-0',
    ]) {
      t.ok(resources?.listener.has(want), want);
    }
  });
  t.test('is in the kernel of its pod', async (t) => {
    t.strictSame(node.kernel.elements(SHOP.networkNamespace, 'mesh_tcp4'), [
      '10.96.0.50 . 18082',
      '10.96.0.50 . 5432',
      '10.96.0.50 . 9000',
    ]);
    t.strictSame(node.kernel.elements(SHOP.networkNamespace, 'mesh_vip4'), ['10.96.0.50']);
  });
  t.test('has a name', async (t) => {
    t.match((await resolveName(process, 'shop.demo.aether.internal', 'A')).answers, [{ data: '10.96.0.50' }]);
    t.match((await resolveName(process, 'shop.demo.aether.internal', 'AAAA')).answers, [{ data: 'fd96::50' }]);
    t.equal(((await resolveName(process, 'nope.demo.aether.internal', 'A')).flags ?? 0) & 0xf, 3);
  });
  t.test('is work that the event loop is measured at', async (t) => {
    const { adminSocket } = node.settings;
    const loopDelay = async () =>
      (await callUnary(adminSocket, AdminService.method.status, { request: {} })).response.loopDelay;
    const measured = async (): Promise<boolean> => {
      process.agent.runner.request();
      return (await loopDelay()) !== undefined;
    };
    await waitUntil('a measured delay', measured, { timeoutMs: 20_000 });
    t.match(await loopDelay(), { p99Ms: Number, maxMs: Number, windowSeconds: Number });
  });
  t.test('is told to the admin', async (t) => {
    const { adminSocket } = node.settings;
    const status = await callUnary(adminSocket, AdminService.method.status, { request: {} });
    t.match(status.response, { version: '0.0.0-test', nodeName: 'node-a', ready: true, podCount: 1, serviceCount: 1 });
    t.match(status.response.problems, ['no proxy is connected']);
    const pods = await callUnary(adminSocket, AdminService.method.listPods, { request: {} });
    t.match(pods.response.pods, [{ service: 'demo/shop', registered: true, proxyReady: false, problems: [] }]);
    const views = await callUnary(adminSocket, AdminService.method.listServices, { request: {} });
    t.match(views.response.services, [
      {
        key: 'demo/shop',
        fqdn: 'shop.demo.aether.internal',
        addresses: ['10.96.0.50', 'fd96::50'],
        ports: [{ number: 5432 }, { number: 8080 }, { number: 9000 }, { number: 9090 }],
        defaultHttpPort: 8080,
        defaultTcpPort: 5432,
        endpoints: [
          {
            ip: '10.1.2.3',
            port: 8080,
            ports: [5432, 8080, 9000, 9090],
            portProtocols: { 5432: 2, 8080: 1, 9000: 2, 9090: 1 },
          },
        ],
      },
    ]);
    const snapshot = await callUnary(adminSocket, AdminService.method.getSnapshot, { request: {} });
    t.ok(snapshot.response.resources.length > 10);
    t.notOk(
      snapshot.response.resources.some(({ resource }) => resource?.typeUrl.endsWith('Secret')),
      'no key leaves here',
    );
  });
  t.test('moves when the services file does', async (t) => {
    await writeFile(file, JSON.stringify({ services: { 'demo/shop': ['10.96.0.77'] } }));
    const end = Date.now() + 10_000;
    while (node.kernel.elements(SHOP.networkNamespace, 'mesh_vip4').join() !== '10.96.0.77' && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    t.strictSame(node.kernel.elements(SHOP.networkNamespace, 'mesh_vip4'), ['10.96.0.77']);
    t.match((await resolveName(process, 'shop.demo.aether.internal', 'A')).answers, [{ data: '10.96.0.77' }]);
  });
  t.test('goes', async (t) => {
    t.equal((await removePod(node, REMOVE_SHOP)).response.result, RemovePodResponse_Result.SUCCESS);
    t.equal((await removePod(node, REMOVE_SHOP)).response.result, RemovePodResponse_Result.SUCCESS, 'twice');
    await process.agent.runner.idle();
    t.strictSame(await readdir(join(node.dir, 'lib/registry')), []);
    t.strictSame([...(process.cache.snapshot?.resources.listener.keys() ?? [])], ['health_gateway']);
    t.equal(node.kernel.tables.size, 0);
    await process.close();
    t.strictSame(node.routes.slice(2), ['-10.254.0.0/16', '-fd0a:e7e0::/112']);
    t.strictSame(
      (await readdir(join(node.dir, 'run'))).filter((name) => name.endsWith('.sock')),
      [],
    );
  });
});

t.test('an agent that comes back has the same addresses and versions, before its sockets answer', async (t) => {
  const node = await makeNode(t);
  const before = await node.open();
  await addPod(node, SHOP);
  await before.agent.runner.idle();
  const wanted = versions(before.cache.snapshot);
  const address = (await resolveName(before, 'shop.demo.aether.internal', 'A')).answers;
  await before.close();
  t.equal(node.kernel.tables.size, 1, "the pods' rules are left alone");
  const after = await node.open();
  t.strictSame(versions(after.cache.snapshot), wanted);
  t.strictSame((await resolveName(after, 'shop.demo.aether.internal', 'A')).answers, address);
  t.match(after.report, { pods: 1, broken: [], dropped: [] });
});

t.test('cni.sock refuses what is wrong, naming every problem', async (t) => {
  const node = await makeNode(t);
  const process = await node.open();
  t.equal((await stat(node.settings.cniSocket)).mode & 0o777, 0o600);
  const cases: readonly [string, () => Promise<unknown>, RegExp][] = [
    ['no pod', () => callUnary(node.settings.cniSocket, CNIService.method.addPod, { request: {} }), /pod: is missing/],
    ['an empty pod', () => addPod(node, {}), /pod\.name: must not be empty; pod\.container_id: /],
    [
      'a container id that is a path',
      () => addPod(node, { ...SHOP, containerId: '../x' }),
      /container_id: .*"\.\.\/x"/,
    ],
    [
      'bad annotations',
      () => addPod(node, { ...SHOP, annotations: { ...SHOP.annotations, 'endpoint.aether.io/ports': '0,x=y' } }),
      /ports\[0\].*ports\[1\]/s,
    ],
    [
      'a namespace that is gone',
      () => addPod(node, { ...SHOP, networkNamespace: '/run/netns/gone' }),
      /\/run\/netns\/gone/,
    ],
    [
      'an unknown way to wait',
      () => addPod(node, SHOP, { [PROXY_READY_METADATA]: 'maybe' }),
      /must be wait, require or skip, got "maybe"/,
    ],
    [
      'an empty removal',
      () => removePod(node, {}),
      /name: must not be empty; namespace: must not be empty; container_id: /,
    ],
  ];
  for (const [name, call, want] of cases) {
    const error = await call().then(
      () => undefined,
      (thrown: ServiceError) => thrown,
    );
    const code = name === 'a namespace that is gone' ? status.NOT_FOUND : status.INVALID_ARGUMENT;
    t.match({ code: error?.code, details: error?.details }, { code, details: want }, name);
  }
  t.equal(process.agent.listPods().length, 0);
  t.strictSame(await readdir(join(node.dir, 'lib/registry')), []);
});

t.test('cni.sock answers for what is not managed, and warns in trailers', async (t) => {
  const node = await makeNode(t);
  await node.open();
  const unmanaged = await addPod(node, { ...SHOP, annotations: {} });
  t.equal(unmanaged.response.result, AddPodResponse_Result.IGNORED);
  const annotations = { ...SHOP.annotations, 'endpoint.aether.io/ports': '80=tcp' };
  const warned = await addPod(node, { ...SHOP, annotations }, { [PROXY_READY_METADATA]: 'wait' });
  t.equal(warned.response.result, AddPodResponse_Result.SUCCESS);
  // Node joins repeated trailers with a comma.
  t.match(warned.trailers.get(WARNING_METADATA).join(', '), /port 80 typed tcp.*, .*no proxy is connected/);
  await t.rejects(addPod(node, SHOP, { [PROXY_READY_METADATA]: 'require' }), {
    code: 14,
    details: /no proxy is connected/,
  });
});

t.test('a second agent on the same places is refused and disturbs nothing', async (t) => {
  const node = await makeNode(t);
  await node.open();
  await addPod(node, SHOP);
  await t.rejects(node.open(), { code: 'E_STORE', message: /another agent answers there/ });
  t.equal((await addPod(node, SHOP)).response.result, AddPodResponse_Result.SUCCESS);
});

t.test('sockets that a killed agent left are replaced; other files there are not', async (t) => {
  const node = await makeNode(t);
  const first = await node.open();
  await first.close();
  const { Server } = await import('node:net');
  const left = new Server();
  await new Promise<void>((resolve) => left.listen(`${node.settings.cniSocket}.tmp`, resolve));
  const { rename } = await import('node:fs/promises');
  await rename(`${node.settings.cniSocket}.tmp`, node.settings.cniSocket);
  await new Promise((resolve) => left.close(resolve));
  const second = await node.open();
  t.equal((await addPod(node, SHOP)).response.result, AddPodResponse_Result.SUCCESS);
  await second.close();
  await mkdir(join(node.dir, 'run'), { recursive: true });
  await writeFile(node.settings.adminSocket, 'not a socket');
  await t.rejects(node.open(), { code: 'E_STORE', message: /something else than a socket/ });
  t.equal(await readFile(node.settings.adminSocket, 'utf8'), 'not a socket');
});

t.test('the agent collects what the runtime no longer has', async (t) => {
  const node = await makeNode(t);
  const process = await node.open();
  await addPod(node, SHOP);
  const db = { ...SHOP, name: 'db-0', containerId: 'c-db-0', networkNamespace: '/run/netns/c-db-0', ips: ['10.1.2.4'] };
  node.kernel.alive.add(db.networkNamespace);
  await addPod(node, db);
  const validAttachments = [{ containerId: 'c-shop-0', ifname: 'eth0' }];
  const { response } = await callUnary(node.settings.adminSocket, AdminService.method.collect, {
    request: { network: 'mesh', validAttachments },
  });
  t.strictSame(response.removedContainerIds, ['c-db-0']);
  t.strictSame(
    process.agent.listPods().map((pod) => pod.workload.record.name),
    ['shop-0'],
  );
  t.ok(node.kernel.events.includes(`unpin ${join(node.dir, 'run/netns/c-db-0')}`));
});

t.test('openAgentProcess() that fails leaves nothing open', async (t) => {
  const taken = await makeNode(t);
  const running = await taken.open();
  const [used] = running.dnsAddresses;
  const node = await makeNode(t, { 'mesh-dns': [`127.0.0.1:${used?.port}`] });
  await t.rejects(node.open(), { message: /^mesh DNS: listen EADDRINUSE.*: --mesh-dns says where/ });
  t.strictSame(
    (await readdir(join(node.dir, 'run'))).filter((name) => name.endsWith('.sock')),
    [],
  );
  t.strictSame(node.routes, ['+10.254.0.0/16', '+fd0a:e7e0::/112', '-10.254.0.0/16', '-fd0a:e7e0::/112']);
});
