// What the agent says of itself and its pods: each fault is named where it is, and nothing else is.
import t from 'tap';
import type { NodeAgent } from '../../src/agent/node-agent.ts';
import { type AgentHost, checkNode, type NodeCheckOptions } from '../../src/agent/node-check.ts';
import type { AckResult } from '../../src/agent/publisher.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { KernelError, RegistryError } from '../../src/core/errors.ts';
import type { Finding } from '../../src/core/finding.ts';
import type { Registry } from '../../src/registry/contract.ts';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';

const LOOP = { p99Ms: 20, maxMs: 80, windowMs: 290_000 };
const HOST: AgentHost = { openFileLimit: () => 65_536, listUnrefused: () => [], loopDelay: () => LOOP };
const SHOP = { ip: '10.1.2.3', annotations: { 'endpoint.aether.io/ports': '8080,9000=tcp' } };
const SKIP = { timeoutMs: 5000, proxyReady: 'skip' } as const;

interface Node extends Booted {
  readonly world: World;
  check(options?: Partial<NodeCheckOptions>): Promise<readonly Finding[]>;
}

async function makeNode(t: { teardown(fn: () => unknown): unknown }, registry?: Registry): Promise<Node> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const booted = await world.boot({}, registry === undefined ? {} : { registry });
  await startAgent(booted.agent);
  await booted.life.addPod(podRequest(world.kernel, 'demo/shop-0', SHOP), SKIP);
  await booted.life.addPod(podRequest(world.kernel, 'demo/web-0', { ip: '10.1.2.4' }), SKIP);
  for (const pod of booted.agent.listPods()) await booted.agent.certificates?.ensure(pod.node.identity);
  await booted.agent.runner.idle();
  const check: Node['check'] = (options = {}) =>
    checkNode(booted.agent, {
      ...{ subject: '', rules: world.kernel, host: HOST, listRejections: () => [], timeoutMs: 2000 },
      ...options,
    });
  return { ...booted, world, check };
}

const troubles = (findings: readonly Finding[]): readonly Finding[] => findings.filter(({ status }) => status !== 'ok');

t.test('checkNode() finds nothing on a node in order, and says what it looked at', async (t) => {
  const { check } = await makeNode(t);
  const findings = await check();
  t.strictSame(troubles(findings), []);
  t.strictSame(
    findings.map(({ area, subject }) => `${area} ${subject}`),
    [
      ...['snapshot node', 'proxy node', 'registry node', 'services node', 'certificate node', 'limits agent'],
      ...['limits event loop', 'routes node'],
      ...['rules demo/shop-0', 'registry demo/shop-0', 'proxy demo/shop-0'],
      ...['rules demo/web-0', 'registry demo/web-0', 'proxy demo/web-0'],
    ],
  );
  t.match(
    findings.find(({ area, subject }) => area === 'registry' && subject === 'demo/shop-0'),
    { message: 'registered as demo/shop at 10.1.2.3: 8080*,9000=tcp' },
  );
});

for (const subject of ['demo/shop-0', 'c-shop-0']) {
  t.test(`checkNode() of ${subject} is about that pod and what it stands on`, async (t) => {
    const { check } = await makeNode(t);
    const found = await check({ subject });
    t.strictSame(troubles(found), []);
    t.strictSame([...new Set(found.map((finding) => finding.subject))].sort(), ['demo/shop-0', 'node']);
  });
}

t.test('checkNode() of a pod that the agent does not have is about the node', async (t) => {
  const { check } = await makeNode(t);
  t.notOk((await check({ subject: 'demo/nope' })).some(({ subject }) => subject.includes('/')));
});

const rejected: AckResult = {
  kind: 'rejected',
  resources: [{ name: 'inbound_demo_shop-0', message: 'cannot bind 0.0.0.0:18008' }],
};

interface Fault {
  readonly name: string;
  readonly make: (node: Node) => unknown;
  readonly options?: Partial<NodeCheckOptions>;
  readonly want: readonly {
    readonly status: string;
    readonly area: string;
    readonly subject: string;
    readonly message: RegExp | string;
  }[];
}

const FAULTS: readonly Fault[] = [
  {
    name: 'an element that is gone from one pod',
    make: ({ world }) => world.kernel.tables.get('/run/netns/c-web-0')?.get('mesh_tcp4')?.clear(),
    want: [
      {
        status: 'fail',
        area: 'rules',
        subject: 'demo/web-0',
        message: /missing element \{ .* \. 9000 \} of set "mesh_tcp4"/,
      },
    ],
  },
  {
    name: 'a table that is gone',
    make: ({ world }) => world.kernel.tables.delete('/run/netns/c-web-0'),
    want: [{ status: 'fail', area: 'rules', subject: 'demo/web-0', message: /missing table inet aether_mesh/ }],
  },
  {
    name: 'a namespace that is gone',
    make: ({ world }) => world.kernel.alive.delete('/run/netns/c-web-0'),
    want: [{ status: 'fail', area: 'rules', subject: 'demo/web-0', message: /network namespace is not usable/ }],
  },
  {
    name: 'a kernel that does not answer about rules',
    make: () => {},
    options: {
      rules: {
        readTable: async () => {
          throw new KernelError('read table inet aether_mesh: kernel lacks nf_tables', 2, 'ENOENT');
        },
      },
    },
    want: ['demo/shop-0', 'demo/web-0'].map((subject) => ({
      ...{ status: 'fail', area: 'rules', subject },
      message: /cannot be read: .*kernel lacks nf_tables/,
    })),
  },
  {
    name: 'a protocol under which the registry lost a pod',
    make: async ({ registry, agent }) => {
      const [pod] = agent.listPods();
      if (pod?.endpoint === undefined) throw new Error('no pod');
      await registry.unregisterEndpoint(pod.workload.service, pod.endpoint.ip);
      await registry.registerEndpoint(pod.workload.service, 'http', pod.endpoint);
      await agent.runner.idle();
    },
    want: [
      { status: 'fail', area: 'registry', subject: 'demo/shop-0', message: /under TCP the registry does not have it/ },
    ],
  },
  {
    name: 'a registered port set that is not the pod’s',
    make: async ({ registry, agent }) => {
      const [, pod] = agent.listPods();
      if (pod?.endpoint === undefined) throw new Error('no pod');
      await registry.registerEndpoint(pod.workload.service, 'http', { ...pod.endpoint, ports: [8080, 1234] });
    },
    want: [
      {
        ...{ status: 'fail', area: 'registry', subject: 'demo/web-0' },
        message: /the registry has ports 8080\*,1234 instead of 8080\*/,
      },
    ],
  },
  {
    name: 'an address that another pod has registered',
    make: async ({ registry, agent }) => {
      const [, pod] = agent.listPods();
      if (pod?.endpoint === undefined) throw new Error('no pod');
      const other = { ...pod.endpoint, containerId: 'c-other', podName: 'other-0' };
      await registry.registerEndpoint(pod.workload.service, 'http', other);
    },
    want: [{ status: 'fail', area: 'registry', subject: 'demo/web-0', message: /another pod there, demo\/other-0/ }],
  },
  {
    name: 'no Envoy: said once',
    make: ({ envoy }) => {
      envoy.streams = 0;
    },
    want: [{ status: 'fail', area: 'proxy', subject: 'node', message: /no Envoy is connected/ }],
  },
  {
    name: 'a listener that Envoy refused',
    make: ({ envoy }) => {
      envoy.answer = (names) =>
        names.some(({ name }) => name.includes('shop-0')) ? rejected : { kind: 'acknowledged' };
    },
    want: [
      {
        ...{ status: 'fail', area: 'proxy', subject: 'demo/shop-0' },
        message: /refused inbound_demo_shop-0: cannot bind 0\.0\.0\.0:18008/,
      },
    ],
  },
  {
    name: 'a listener that Envoy does not answer about',
    make: ({ envoy }) => {
      envoy.answer = (names) =>
        names.some(({ name }) => name.includes('shop-0'))
          ? { kind: 'timeout', waitingFor: ['inbound_demo_shop-0'] }
          : { kind: 'acknowledged' };
    },
    want: [{ status: 'fail', area: 'proxy', subject: 'demo/shop-0', message: /not acknowledged inbound_demo_shop-0/ }],
  },
  {
    name: 'a cluster that Envoy refused',
    make: () => {},
    options: { listRejections: () => [{ kind: 'cluster', name: 'tcp:10.254.1.2:9000', message: 'bad\nfield' }] },
    want: [
      {
        status: 'fail',
        area: 'proxy',
        subject: 'cluster tcp:10.254.1.2:9000',
        message: /Envoy refused it: bad\nfield/,
      },
    ],
  },
  {
    name: 'certificates at the end of their life',
    make: ({ world }) => {
      // The clock jumps; nothing has had time to be renewed.
      const { clock } = world;
      const now = clock.now().getTime();
      clock.now = () => new Date(now + 20 * 3600 * 1000);
    },
    want: ['shop', 'web'].map((sa) => ({
      ...{ status: 'warn', area: 'certificate', subject: `spiffe://aether.internal/ns/demo/sa/${sa}` },
      message: /^expires 2026-11-30/,
    })),
  },
  {
    name: 'certificates that have expired',
    make: ({ world }) => {
      const { clock } = world;
      const now = clock.now().getTime();
      clock.now = () => new Date(now + 30 * 3600 * 1000);
    },
    want: ['shop', 'web'].map((sa) => ({
      ...{ status: 'fail', area: 'certificate', subject: `spiffe://aether.internal/ns/demo/sa/${sa}` },
      message: /^expired 2026-11-30/,
    })),
  },
  {
    name: 'few files, no routes',
    make: () => {},
    options: {
      host: { openFileLimit: () => 1024, listUnrefused: (ranges) => ranges.slice(0, 1), loopDelay: () => undefined },
    },
    want: [
      { status: 'warn', area: 'limits', subject: 'agent', message: /may open 1024 files/ },
      { status: 'warn', area: 'routes', subject: '10.254.0.0/16', message: /no prohibit route/ },
    ],
  },
  {
    name: 'an agent that comes late',
    make: () => {},
    options: { host: { ...HOST, loopDelay: () => ({ ...LOOP, p99Ms: 21 }) } },
    want: [
      {
        ...{ status: 'warn', area: 'limits', subject: 'event loop' },
        message: 'events waited 80 ms at most, 99 of 100 up to 21 ms, within 5 min',
      },
    ],
  },
];

for (const { name, make, options, want } of FAULTS) {
  t.test(`checkNode() names ${name}`, async (t) => {
    const node = await makeNode(t);
    await make(node);
    const found = troubles(await node.check(options));
    t.match(found, want);
    t.equal(found.length, want.length, JSON.stringify(found));
    for (const { status, remedy } of found) if (status === 'fail') t.not(remedy, '');
  });
}

t.test('checkNode() names a registry that is away', async (t) => {
  class Away extends EmbeddedRegistry {
    isAway = false;
    override async listServices() {
      if (this.isAway) throw new RegistryError('listing services: connection refused');
      return super.listServices();
    }
  }
  const registry = new Away();
  const { check } = await makeNode(t, registry);
  registry.isAway = true;
  t.match(troubles(await check()), [
    { status: 'fail', area: 'registry', subject: 'node', message: /connection refused/ },
  ]);
});

t.test('checkNode() ends in time when the kernel does not', async (t) => {
  const { check } = await makeNode(t);
  const rules = { readTable: () => new Promise<undefined>(() => {}) };
  const found = troubles(await check({ rules, timeoutMs: 100 }));
  t.match(found, [
    { status: 'fail', area: 'pod', subject: 'demo/shop-0', message: /no answer within/ },
    { status: 'fail', area: 'pod', subject: 'demo/web-0', message: /no answer within/ },
  ]);
});

t.test('checkNode() does not take a change under way for a difference', async (t) => {
  const { agent, world, check, life } = await makeNode(t);
  const real = (agent: NodeAgent) => agent.tables.sets;
  const before = real(agent);
  let calls = 0;
  // The first look is before the new pod's elements, while the plan is after them.
  const rules: NodeCheckOptions['rules'] = {
    readTable: async (netns, planned) => {
      if (calls++ === 0) {
        const sets = planned.sets.map((set) => ({ ...set, elements: [] }));
        return world.kernel.readTable(netns, { ...planned, sets });
      }
      return world.kernel.readTable(netns, planned);
    },
  };
  await life.addPod(podRequest(world.kernel, 'demo/db-0', { ip: '10.1.2.5' }), { ...SKIP, proxyReady: 'wait' });
  t.not(real(agent), before);
  t.strictSame(troubles(await check({ rules })), []);
});
