// ADD and the network namespace of its pod, in a whole agent on a test node (agent-world.ts): one that is gone or goes meanwhile,
// and who is taken where two come to the same.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { startAgent } from '../../src/agent/start-up.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import type { NetnsPath } from '../../src/core/identifiers.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;

async function start(t: Test): Promise<World & Booted> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const booted = await world.boot();
  await startAgent(booted.agent);
  world.kernel.events.length = 0;
  return { ...world, ...booted };
}

t.test(
  'addPod() refuses a second container in a namespace, by whatever path, and whoever waits for the proxy',
  async (t) => {
    const { life, kernel, agent } = await start(t);
    const first = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
    await life.addPod(first, OPTIONS);
    for (const proxyReady of ['skip', 'wait'] as const) {
      const other = podRequest(kernel, 'demo/db-0', { ip: '10.1.2.4' });
      const again = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', containerId: 'c-shop-1' });
      for (const request of [other, again]) {
        kernel.links.set(request.networkNamespace, first.networkNamespace);
        await t.rejects(life.addPod(request, { ...OPTIONS, proxyReady }), {
          problem: 'rejected',
          message: /namespace .* is that of demo\/shop-0, container c-shop-0$/,
        });
        kernel.links.clear();
      }
    }
    t.strictSame(
      agent.listPods().map((pod) => pod.workload.record.containerId),
      ['c-shop-0'],
    );
    t.match(await life.addPod(first, OPTIONS), { kind: 'success' }, 'its own');
  },
);

t.test('addPod() says the same of a namespace that went after the plugin had looked, and keeps nothing', async (t) => {
  const { life, kernel, dir, registry, agent } = await start(t);
  const gone = { ...podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), networkNamespace: '/run/netns/gone' };
  const rules = planPluginTable({ redirectAll: false, excludePorts: [], excludeRanges: [] });
  await t.rejects(life.addPod(gone, { ...OPTIONS, rules }), { problem: 'gone', message: /\/run\/netns\/gone/ });
  t.strictSame(await readdir(join(dir, 'registry')), []);
  t.equal((await registry.listAllEndpoints('http')).size, 0);
  t.strictSame(agent.listPods(), []);
});

t.test('addPod() whose pin a DEL takes meanwhile leaves neither table nor pod', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { kernel, dir } = world;
  const real = '/proc/self/fd/9' as NetnsPath;
  const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  kernel.alive.add(real);
  const holdNetns = () => ({
    netns: real,
    isReplaced: () => !kernel.alive.has(request.networkNamespace),
    [Symbol.dispose]() {},
  });
  const { agent, life } = await world.boot({}, { holdNetns });
  await startAgent(agent);
  kernel.refuse = (what) => {
    // One namespace by two paths: the table is there, the pin goes.
    if (what !== 'replace') return;
    kernel.tables.set(real, new Map());
    kernel.alive.add(request.networkNamespace);
    queueMicrotask(() => queueMicrotask(() => kernel.alive.delete(request.networkNamespace)));
  };
  await t.rejects(life.addPod(request, OPTIONS), { problem: 'gone', message: /its pin .* went meanwhile/ });
  t.strictSame([...kernel.tables.keys()].includes(real), false);
  t.strictSame([agent.listPods(), await readdir(join(dir, 'registry'))], [[], []]);
});

t.test('addPod() takes one of two containers that come into a namespace at once', async (t) => {
  const { life, kernel } = await start(t);
  const requests = ['shop-0', 'db-0'].map((name) => podRequest(kernel, `demo/${name}`, { ip: '10.1.2.3' }));
  for (const { networkNamespace } of requests) kernel.links.set(networkNamespace, '/run/netns/c-shop-0');
  const ends = await Promise.allSettled(requests.map((request) => life.addPod(request, OPTIONS)));
  t.strictSame(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  );
});

t.test('addPod() takes a new sandbox over the record of one whose namespace is gone', async (t) => {
  const { life, kernel, agent } = await start(t);
  const [old, next] = ['c-old', 'c-new'].map((containerId) =>
    podRequest(kernel, `demo/${containerId}`, { ip: '10.1.2.3', containerId }),
  );
  if (old === undefined || next === undefined) throw new Error('two requests');
  // The number of the old namespace, given to the new one.
  kernel.links.set(old.networkNamespace, '/run/netns/c-new');
  await life.addPod(old, OPTIONS);
  kernel.links.set(old.networkNamespace, '/run/netns/gone');
  t.match(await life.addPod(next, OPTIONS), { kind: 'success' });
  t.equal(agent.listPods().length, 2);
});
