// ADD of whoever enters the namespace at the agent's word, with the tables: what is left when a part of it fails, and who wins
// where two come at once.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startAgent } from '../../src/agent/start-up.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { NetnsError, StoreError } from '../../src/core/errors.ts';
import type { NetnsPath } from '../../src/core/identifiers.ts';
import type { Table } from '../../src/nft/model.ts';
import type { Entered, PodRequest } from '../../src/plugin/deps.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';
import { SCOPED } from '../support/capture-cases.ts';

const rules = planPluginTable(SCOPED);
const DONE: Entered = { identity: 'n1', hasRules: true, isSettled: true };
const TCP = { 'endpoint.aether.io/port': '5432', 'endpoint.aether.io/protocol': 'tcp' };
const OPTIONS = { timeoutMs: 5000, proxyReady: 'skip', rules } as const;

async function start(t: Test): Promise<World & Booted> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  // As the real kernel's: both tables in one transaction.
  const replaceTogether = async (netns: NetnsPath, [mesh]: readonly Table[]): Promise<void> => {
    if (mesh !== undefined) await world.kernel.replaceTable(netns, mesh);
  };
  const { kernel } = world;
  const tables = {
    replaceTable: kernel.replaceTable.bind(kernel),
    destroyTable: kernel.destroyTable.bind(kernel),
    changeElements: kernel.changeElements.bind(kernel),
    replaceTogether,
  };
  const booted = await world.boot({}, { tables });
  await startAgent(booted.agent);
  kernel.events.length = 0;
  return { ...world, ...booted };
}

/** Puts the agent's table there, and says `answer`. */
function enterer({ kernel }: World, netns: string, answer: Entered = DONE) {
  const asked: (readonly string[])[] = [];
  const enter = async (tables: readonly Table[]): Promise<Entered> => {
    asked.push(tables.map(({ name }) => name));
    const [mesh] = tables;
    if (answer.hasRules && mesh !== undefined) await kernel.replaceTable(netns as NetnsPath, mesh);
    return answer;
  };
  return { asked, enter };
}

t.test('addPod() gives a new pod its tables where it is entered, and no second time', async (t) => {
  const node = await start(t);
  const request = podRequest(node.kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  const { asked, enter } = enterer(node, request.networkNamespace);
  t.match(await node.life.addPod(request, { ...OPTIONS, enter }), { kind: 'success', hasRules: true });
  t.strictSame(asked, [['aether_mesh', 'aether']]);
  t.equal(node.kernel.events.filter((event) => event.startsWith('table')).length, 1);
  t.strictSame(await readdir(join(node.dir, 'registry')), ['c-shop-0.json']);
  await node.agent.runner.refresh();
  await node.life.addPod(podRequest(node.kernel, 'demo/db-0', { ip: '10.1.2.4', annotations: TCP }), OPTIONS);
  await node.agent.runner.refresh();
  t.not(node.kernel.elements(request.networkNamespace, 'mesh_tcp4').length, 0, 'it is told what comes later');
});

t.test('addPod() enters without tables for a container that it knows, and for a pod that is not managed', async (t) => {
  const node = await start(t);
  const request = podRequest(node.kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  await node.life.addPod(request, OPTIONS);
  const again = enterer(node, request.networkNamespace, { ...DONE, hasRules: false });
  t.match(await node.life.addPod(request, { ...OPTIONS, enter: again.enter }), { kind: 'success', hasRules: true });
  const other = enterer(node, '/run/netns/x');
  const unmanaged = { ...podRequest(node.kernel, 'demo/x-0', { ip: '10.1.2.5' }), annotations: {} };
  t.strictSame(await node.life.addPod(unmanaged, { ...OPTIONS, enter: other.enter }), { kind: 'ignored' });
  t.strictSame([again.asked, other.asked], [[[]], [[]]]);
});

t.test('addPod() puts tables in place itself where there were some, or connections to settle', async (t) => {
  const node = await start(t);
  for (const [name, answer] of [
    ['shop-0', { ...DONE, hasRules: false }],
    ['shop-1', { ...DONE, isSettled: false }],
  ] as const) {
    const request = podRequest(node.kernel, `demo/${name}`, { ip: name === 'shop-0' ? '10.1.2.3' : '10.1.2.4' });
    const { enter } = enterer(node, request.networkNamespace, answer);
    node.kernel.events.length = 0;
    t.match(await node.life.addPod(request, { ...OPTIONS, enter }), { kind: 'success', hasRules: true });
    t.equal(node.kernel.events.at(-1), `table ${request.networkNamespace}`, name);
  }
});

t.test(
  'addPod() keeps nothing of a pod whose namespace cannot be entered, and says so before what is wrong with it',
  async (t) => {
    const node = await start(t);
    const enter = async (): Promise<Entered> => {
      throw new NetnsError('missing', '/run/netns/x', 'entering /run/netns/x: no such file');
    };
    const wrong = { 'endpoint.aether.io/ports': 'none' };
    for (const annotations of [{}, wrong]) {
      const request = podRequest(node.kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations });
      await t.rejects(node.life.addPod(request, { ...OPTIONS, enter }), { message: /entering .*no such file/ });
      t.strictSame([node.agent.listPods(), await readdir(join(node.dir, 'registry'))], [[], []]);
    }
  },
);

t.test('addPod() forgets a pod that was entered and is refused afterwards', async (t) => {
  const node = await start(t);
  const request = podRequest(node.kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  const { enter } = enterer(node, request.networkNamespace);
  const { records } = node.agent.deps;
  records.put = async () => {
    throw new StoreError('writing: ENOSPC');
  };
  await t.rejects(node.life.addPod(request, { ...OPTIONS, enter }), { message: /ENOSPC/ });
  t.strictSame(node.agent.listPods(), []);
  records.put = async () => {};
  const other = podRequest(node.kernel, 'demo/db-0', { ip: '10.1.2.4', annotations: TCP });
  await node.life.addPod(other, OPTIONS);
  await node.agent.runner.refresh();
  t.strictSame(node.kernel.elements(request.networkNamespace, 'mesh_tcp4'), [], 'it is told nothing any more');
  t.not(node.kernel.elements(other.networkNamespace, 'mesh_tcp4').length, 0);
});

t.test('addPod() of two containers that enter one namespace takes whose tables are there', async (t) => {
  const node = await start(t);
  const requests = ['shop-0', 'db-0'].map((name) => podRequest(node.kernel, `demo/${name}`, { ip: '10.1.2.3' }));
  for (const { networkNamespace } of requests) node.kernel.links.set(networkNamespace, '/run/netns/c-shop-0');
  const identity = '/run/netns/c-shop-0';
  const ends = await Promise.allSettled(
    requests.map((request, index) => {
      const { enter } = enterer(node, request.networkNamespace, { identity, hasRules: index === 1, isSettled: true });
      return node.life.addPod(request, { ...OPTIONS, enter });
    }),
  );
  t.strictSame(
    ends.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
});

t.test('addPod() refuses who enters the namespace of a container that came first by another way', async (t) => {
  const node = await start(t);
  const requests = ['shop-0', 'db-0'].map((name) => podRequest(node.kernel, `demo/${name}`, { ip: '10.1.2.3' }));
  for (const { networkNamespace } of requests) node.kernel.links.set(networkNamespace, '/run/netns/c-shop-0');
  const [first, second] = requests as [PodRequest, PodRequest];
  const { records } = node.agent.deps;
  const put = records.put.bind(records);
  // Who came by gRPC has passed its own look at the others, and is no pod of the agent's yet.
  records.put = async (record) => {
    records.put = put;
    const { enter } = enterer(node, second.networkNamespace, { ...DONE, identity: '/run/netns/c-shop-0' });
    await t.rejects(node.life.addPod(second, { ...OPTIONS, enter }), { message: /is that of demo\/shop-0/ });
    await put(record);
  };
  t.match(await node.life.addPod(first, { timeoutMs: 5000, proxyReady: 'skip' }), { kind: 'success' });
  t.strictSame(await readdir(join(node.dir, 'registry')), ['c-shop-0.json']);
});
