// ADD and DEL in a whole agent on a test node (agent-world.ts), whose kernel and Envoy in memory catch an element without its
// cluster: what is told to whom and when, and that an ADD which fails leaves nothing.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startAgent } from '../../src/agent/start-up.ts';
import { KernelError } from '../../src/core/errors.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;
const SHOP_PORTS = { 'endpoint.aether.io/port': '8080', 'endpoint.aether.io/ports': '8080,9090=h2,9000=tcp,5432=tcp' };
const DB_PORTS = { 'endpoint.aether.io/port': '5432', 'endpoint.aether.io/protocol': 'tcp' };
const SHOP = { namespace: 'demo', serviceAccount: 'shop' };

async function start(t: Test, options: Parameters<typeof makeWorld>[0] = {}): Promise<World & Booted> {
  const world = await makeWorld(options);
  t.teardown(() => world[Symbol.asyncDispose]());
  const booted = await world.boot();
  await startAgent(booted.agent);
  world.kernel.events.length = 0;
  return { ...world, ...booted };
}

t.test('addPod() registers the worked example under both protocols with one endpoint', async (t) => {
  const { life, registry, kernel, dir } = await start(t);
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS });
  t.strictSame(await life.addPod(request, OPTIONS), { kind: 'success', warnings: [] });
  const [http] = await registry.listEndpoints(SHOP, 'http');
  t.match(http, {
    ip: '10.1.2.3',
    port: 8080,
    ports: [5432, 8080, 9000, 9090],
    portProtocols: new Map([
      [5432, 'tcp'],
      [8080, 'http'],
      [9000, 'tcp'],
      [9090, 'http'],
    ]),
    health: 'healthy',
    clusterName: 'test',
    nodeName: 'node-a',
    nodeIp: '192.0.2.10',
    containerId: 'c-shop-0',
  });
  t.strictSame(await registry.listEndpoints(SHOP, 'tcp'), [http]);
  const record: unknown = JSON.parse(await readFile(join(dir, 'registry/c-shop-0.json'), 'utf8'));
  t.match(record, { name: 'shop-0', serviceAccount: 'shop', containerId: 'c-shop-0', uid: 'uid-shop-0' });
});

t.test('addPod() tells Envoy before the kernel, and the kernel of every pod', async (t) => {
  const { life, kernel, envoy, agent } = await start(t);
  await life.addPod(podRequest(kernel, 'demo/client-0', { ip: '10.1.2.9' }), OPTIONS);
  kernel.events.length = 0;
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS }), OPTIONS);
  const [v4 = ''] = agent.catalog.find(SHOP)?.map((address) => address.text) ?? [];
  const steps = kernel.events.map((event) => event.split(' ')[0]);
  t.strictSame(steps.slice(0, 4), ['table', 'publish', 'await', 'elements'], kernel.events.join('\n'));
  t.match(kernel.events[2], new RegExp(`tcp:${v4}:9000 .*tcp:shop\\.demo\\.aether\\.internal:9000`));
  for (const netns of ['/run/netns/c-client-0', '/run/netns/c-shop-0']) {
    t.strictSame(kernel.elements(netns, 'mesh_tcp4'), [`${v4} . 18082`, `${v4} . 5432`, `${v4} . 9000`], netns);
    t.equal(kernel.elements(netns, 'mesh_vip4').length, 2, netns);
  }
  t.ok(envoy.snapshot?.resources.listener.has('outbound_http_demo_shop-0'));
  t.ok(envoy.snapshot?.resources.secret.has('spiffe://aether.internal/ns/demo/sa/shop'));
});

/** From now on the kernel's events tell also what goes from the registry, from Envoy and from the disk. */
function noteRemoval(
  { agent, registry, envoy, kernel }: Pick<Booted & World, 'agent' | 'registry' | 'envoy' | 'kernel'>,
  account: string,
) {
  const { events } = kernel;
  const { records } = agent.deps;
  const [unregister, publish, destroy] = [
    registry.unregisterEndpoint.bind(registry),
    envoy.publish.bind(envoy),
    records.destroy.bind(records),
  ];
  registry.unregisterEndpoint = (...place) => {
    events.push('unregister');
    return unregister(...place);
  };
  envoy.publish = (snapshot) => {
    publish(snapshot);
    const { listener, secret } = snapshot.resources;
    if (![...listener.keys()].some((name) => name.includes(`_demo_${account}-`))) events.push('no listeners');
    if (!secret.has(`spiffe://aether.internal/ns/demo/sa/${account}`)) events.push('no secret');
  };
  records.destroy = (containerId) => {
    events.push('no record');
    return destroy(containerId);
  };
  events.length = 0;
  return events;
}

t.test(
  'removePod() takes registration, elements, listeners, table, record and certificate away, in this order',
  async (t) => {
    const { life, kernel, envoy, registry, agent, dir, clock } = await start(t);
    const first = podRequest(kernel, 'demo/db-0', { ip: '10.1.2.4', annotations: DB_PORTS });
    const second = podRequest(kernel, 'demo/db-1', { ip: '10.1.2.5', annotations: DB_PORTS });
    await life.addPod(podRequest(kernel, 'demo/client-0', { ip: '10.1.2.9' }), OPTIONS);
    await life.addPod(first, OPTIONS);
    await life.addPod(second, OPTIONS);
    const db = { namespace: 'demo', serviceAccount: 'db' };
    await life.removePod(first);
    t.strictSame(
      (await registry.listEndpoints(db, 'tcp')).map(({ ip }) => ip),
      ['10.1.2.5'],
    );
    t.ok(
      envoy.snapshot?.resources.secret.has('spiffe://aether.internal/ns/demo/sa/db'),
      'another pod has the identity',
    );
    t.strictSame(await readdir(join(dir, 'registry')), ['c-client-0.json', 'c-db-1.json']);
    const events = noteRemoval({ agent, registry, envoy, kernel }, 'db');
    await life.removePod(second);
    await new Promise(setImmediate);
    await agent.runner.idle();
    const steps = [
      /^unregister/,
      /^elements .*-mesh_tcp4/,
      /^no listeners/,
      /^no table .*db-1/,
      /^no record/,
      /^no secret/,
    ];
    const order = steps.map((step) => events.findIndex((event) => step.test(event)));
    t.notOk(order.includes(-1), events.join('\n'));
    t.strictSame(
      order,
      order.toSorted((a, b) => a - b),
      events.join('\n'),
    );
    t.notOk(envoy.snapshot?.resources.secret.has('spiffe://aether.internal/ns/demo/sa/db'));
    t.notOk([...(envoy.snapshot?.resources.listener.keys() ?? [])].some((name) => name.includes('db-1')));
    t.strictSame(await readdir(join(dir, 'registry')), ['c-client-0.json']);
    t.equal(agent.catalog.find(db)?.length, 2, 'its name and address stay for a while');
    clock.advance(90_000);
    await agent.runner.idle();
    t.equal(agent.catalog.find(db), undefined);
  },
);

t.test('removePod() of an unknown container succeeds, as often as it is called', async (t) => {
  const { life, kernel } = await start(t);
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  await life.removePod(request);
  await life.addPod(request, OPTIONS);
  for (let i = 0; i < 3; i++) await life.removePod(request);
  t.equal(kernel.tables.size, 0);
});

t.test('addPod() ignores what is not managed, and keeps nothing of it', async (t) => {
  const { life, kernel, dir, agent } = await start(t);
  const cases = [{ 'aether.io/managed': 'false' }, { 'aether.io/managed': 'True' }, { 'aether.io/managed': '' }];
  for (const annotations of cases) {
    const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations });
    t.strictSame(await life.addPod(request, OPTIONS), { kind: 'ignored' }, JSON.stringify(annotations));
  }
  const managed = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  for (const namespace of ['', '-']) {
    t.strictSame(
      await life.addPod({ ...managed, namespace }, OPTIONS),
      { kind: 'ignored' },
      `namespace "${namespace}"`,
    );
  }
  t.equal(kernel.events.length, 0);
  await life.addPod(managed, OPTIONS);
  const unmanaged = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: { 'aether.io/managed': 'no' } });
  t.strictSame(await life.addPod(unmanaged, OPTIONS), { kind: 'ignored' }, 'one that was managed before');
  t.equal(agent.listPods().length, 0);
  t.strictSame(await readdir(join(dir, 'registry')), []);
});

t.test('addPod() rejects with every problem, and keeps nothing', async (t) => {
  const { life, kernel, dir, registry } = await start(t);
  const bad = podRequest(kernel, 'demo/shop-0', {
    ip: '10.1.2.3',
    annotations: {
      'endpoint.aether.io/ports': '9000=udp,18001=tcp,70000',
      'endpoint.aether.io/weight': 'much',
      'capture.aether.io/exclude-outbound-ports': 'x',
      'aether.io/service-account': 'Not_A_Label',
    },
  });
  await t.rejects(life.addPod(bad, OPTIONS), {
    code: 'E_AGENT',
    problem: 'rejected',
    message: /service-account.*ports\[0\].*ports\[1\].*ports\[2\].*weight.*exclude-outbound-ports\[0\]/s,
  });
  const gone = { ...podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), networkNamespace: '/run/netns/gone' };
  await t.rejects(life.addPod(gone, OPTIONS), { problem: 'gone', message: /\/run\/netns\/gone/ });
  const relative = { ...gone, networkNamespace: 'netns' };
  await t.rejects(life.addPod(relative, OPTIONS), { problem: 'rejected', message: /absolute path/ });
  t.strictSame(await readdir(join(dir, 'registry')), []);
  t.equal((await registry.listAllEndpoints('http')).size, 0);
  t.equal(kernel.events.length, 0);
});

t.test('K009 a pod without addresses gets its listeners and table, and nobody is sent to it', async (t) => {
  const { life, kernel, dir, registry, agent, envoy } = await start(t);
  const pod = { ...podRequest(kernel, 'demo/shop-0', { ip: '' }), ips: [] };
  t.match(await life.addPod(pod, OPTIONS), { kind: 'success', warnings: [/^ips: the pod has no address/] });
  t.ok(envoy.snapshot?.resources.listener.has('outbound_http_demo_shop-0'));
  t.ok(kernel.tables.has('/run/netns/c-shop-0'));
  t.equal((await registry.listAllEndpoints('http')).size, 0);
  const [added] = agent.listPods();
  t.ok(added && agent.registrar.isRegistered(added), 'nothing is left to register');
  const after = { ...pod, ips: ['10.1.2.3'] };
  t.strictSame(await life.addPod(after, OPTIONS), { kind: 'success', warnings: [] });
  t.match(await registry.listEndpoints(SHOP, 'http'), [{ ip: '10.1.2.3' }], 'once more, with an address');
  t.match(await life.addPod(pod, OPTIONS), { kind: 'success' });
  t.strictSame(await registry.listEndpoints(SHOP, 'http'), [], 'and without it again');
  await life.removePod(pod);
  t.strictSame(await readdir(join(dir, 'registry')), []);
  t.equal(kernel.tables.size, 0);
});

t.test('addPod() warns of what is legal but surprising', async (t) => {
  const { life, kernel } = await start(t);
  const request = podRequest(kernel, 'demo/shop-0', {
    ip: '10.1.2.3',
    annotations: { 'endpoint.aether.io/ports': '80=tcp' },
  });
  t.match(await life.addPod(request, OPTIONS), { kind: 'success', warnings: [/port 80 typed tcp/] });
});

t.test('addPod() again replaces: a pod that is typed anew loses its stale key', async (t) => {
  const { life, kernel, registry, agent } = await start(t);
  const typed = (ports: string) =>
    podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: { 'endpoint.aether.io/ports': ports } });
  await life.addPod(typed('8080,9000=tcp'), OPTIONS);
  t.equal((await registry.listEndpoints(SHOP, 'tcp')).length, 1);
  await life.addPod(typed('8080,9000'), OPTIONS);
  t.equal((await registry.listEndpoints(SHOP, 'tcp')).length, 0, 'no TCP port, no TCP key');
  t.strictSame((await registry.listEndpoints(SHOP, 'http'))[0]?.ports, [8080, 9000]);
  t.equal(agent.listPods().length, 1);
  t.strictSame(kernel.elements('/run/netns/c-shop-0', 'mesh_tcp4'), []);
  const moved = { ...typed('8080'), ips: ['10.1.2.7'] };
  await life.addPod(moved, OPTIONS);
  t.strictSame(
    (await registry.listEndpoints(SHOP, 'http')).map(({ ip }) => ip),
    ['10.1.2.7'],
  );
  const renamed = podRequest(kernel, 'demo/shop-0', {
    ip: '10.1.2.7',
    annotations: { 'aether.io/service-account': 'cart' },
  });
  await life.addPod(renamed, OPTIONS);
  t.strictSame([...(await registry.listAllEndpoints('http')).keys()], ['demo/cart']);
  t.strictSame(
    agent.certificates?.list().map(({ identity }) => identity),
    ['spiffe://aether.internal/ns/demo/sa/cart'],
  );
});

t.test(
  'of two sandboxes of one pod the newer has the listeners, and the older leaves without taking anything',
  async (t) => {
    const { life, kernel, envoy, registry } = await start(t);
    const old = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', containerId: 'old' });
    const fresh = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', containerId: 'fresh' });
    await life.addPod(old, OPTIONS);
    const oldVersion = envoy.snapshot?.resources.listener.get('outbound_http_demo_shop-0')?.version;
    await life.addPod(fresh, OPTIONS);
    const freshVersion = envoy.snapshot?.resources.listener.get('outbound_http_demo_shop-0')?.version;
    t.not(freshVersion, oldVersion);
    await life.removePod(old);
    t.equal(envoy.snapshot?.resources.listener.get('outbound_http_demo_shop-0')?.version, freshVersion);
    t.match(await registry.listEndpoints(SHOP, 'http'), [{ ip: '10.1.2.3', containerId: 'fresh' }]);
    t.ok(envoy.snapshot?.resources.secret.has('spiffe://aether.internal/ns/demo/sa/shop'));
  },
);

t.test('addPod() waits for the proxy as it is told', async (t) => {
  const { life, kernel, envoy, agent, dir } = await start(t);
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  const answers = [
    [{ kind: 'timeout', waitingFor: ['listener x'] }, /no answer in time about listener x/],
    [{ kind: 'disconnected' }, /no proxy is connected/],
    [{ kind: 'rejected', resources: [{ name: 'x', message: 'address in use' }] }, /refused: x: address in use/],
  ] as const;
  for (const [answer, want] of answers) {
    envoy.answer = () => answer;
    t.match(await life.addPod(request, { timeoutMs: 5000, proxyReady: 'wait' }), { kind: 'success', warnings: [want] });
    t.strictSame(await life.addPod(request, { timeoutMs: 5000, proxyReady: 'skip' }), {
      kind: 'success',
      warnings: [],
    });
    await t.rejects(life.addPod(request, { timeoutMs: 5000, proxyReady: 'require' }), {
      problem: 'unavailable',
      message: want,
    });
    t.equal(agent.listPods().length, 0, 'a failed ADD leaves nothing');
    t.strictSame(await readdir(join(dir, 'registry')), []);
  }
});

t.test('addPod() that fails on the way undoes everything', async (t) => {
  const { life, kernel, envoy, registry, agent, dir } = await start(t);
  await life.addPod(podRequest(kernel, 'demo/client-0', { ip: '10.1.2.9' }), OPTIONS);
  const before = envoy.snapshot;
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS });
  kernel.refuse = (what, netns) => {
    if (what === 'replace' && netns.endsWith('shop-0'))
      throw new KernelError('replacing the table: no memory', 12, 'ENOMEM');
  };
  await t.rejects(life.addPod(request, OPTIONS), {
    problem: 'failed',
    message: /adding the pod: replacing the table: no memory/,
  });
  await agent.runner.idle();
  t.strictSame(await readdir(join(dir, 'registry')), ['c-client-0.json']);
  t.equal((await registry.listAllEndpoints('tcp')).size, 0);
  t.strictSame(
    agent.certificates?.list().map(({ identity }) => identity),
    ['spiffe://aether.internal/ns/demo/sa/client'],
  );
  t.strictSame([...(envoy.snapshot?.resources.listener.keys() ?? [])], [...(before?.resources.listener.keys() ?? [])]);
  kernel.refuse = () => {};
  t.match(await life.addPod(request, OPTIONS), { kind: 'success' });
});

t.test('addPod() names a record that cannot be written as what it is', async (t) => {
  const { life, kernel, dir } = await start(t);
  await rm(join(dir, 'registry'), { recursive: true });
  await writeFile(join(dir, 'registry'), '');
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  await t.rejects(life.addPod(request, OPTIONS), { problem: 'store', message: /adding the pod: .*registry/ });
});

t.test('a pod whose table misses a change, as another is added, is told of it later', async (t) => {
  const { life, kernel, clock, agent } = await start(t);
  await life.addPod(podRequest(kernel, 'demo/client-0', { ip: '10.1.2.9' }), OPTIONS);
  kernel.refuse = (what, netns) => {
    if (netns.endsWith('client-0')) throw new KernelError(`${what}: busy`, 16, 'EBUSY');
  };
  await life.addPod(podRequest(kernel, 'demo/db-0', { ip: '10.1.2.4', annotations: DB_PORTS }), OPTIONS);
  t.equal(kernel.elements('/run/netns/c-client-0', 'mesh_tcp4').length, 0);
  kernel.refuse = () => {};
  clock.advance(5000);
  await agent.runner.idle();
  t.equal(kernel.elements('/run/netns/c-client-0', 'mesh_tcp4').length, 2);
});

t.test('with identity none there is no TCP: only addresses reach the kernel, and no secret Envoy', async (t) => {
  const { life, kernel, envoy } = await start(t, { identity: 'none' });
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS }), OPTIONS);
  t.strictSame(kernel.elements('/run/netns/c-shop-0', 'mesh_tcp4'), []);
  t.equal(kernel.elements('/run/netns/c-shop-0', 'mesh_vip4').length, 1);
  t.equal(envoy.snapshot?.resources.secret.size, 0);
});
