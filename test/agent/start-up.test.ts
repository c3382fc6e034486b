// An agent that comes back to its disk and kernel (agent-world.ts): what it finds there, good or broken, and removals that
// waited. Killed in the middle: start-up-killed.test.ts.
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { replayRemovals, startAgent } from '../../src/agent/start-up.ts';
import type { ContainerId } from '../../src/core/identifiers.ts';
import type { Snapshot } from '../../src/xds/resource.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;
const SHOP_PORTS = { 'endpoint.aether.io/ports': '8080,9090=h2,9000=tcp,5432=tcp' };
const DB_PORTS = { 'endpoint.aether.io/port': '5432', 'endpoint.aether.io/protocol': 'tcp' };

async function makeNode(t: Test): Promise<World & { start(): Promise<Booted> }> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const start = async (): Promise<Booted> => {
    const booted = await world.boot();
    await startAgent(booted.agent);
    return booted;
  };
  return { ...world, start };
}

/** Versions of everything but the workloads' certificates, which are issued anew. */
function versions(snapshot: Snapshot | undefined): Record<string, string> {
  const all = Object.values(snapshot?.resources ?? {}).flatMap((resources) => [...resources.values()]);
  const kept = all.filter(({ kind, name }) => kind !== 'secret' || !name.includes('/ns/'));
  return Object.fromEntries(kept.map(({ kind, name, version }) => [`${kind} ${name}`, version]));
}

t.test('startAgent() after a kill ends where the agent was: same addresses, same versions, tables whole', async (t) => {
  const { kernel, start } = await makeNode(t);
  const before = await start();
  const shop = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS });
  await before.life.addPod(shop, OPTIONS);
  await before.life.addPod(podRequest(kernel, 'demo/db-0', { ip: '10.1.2.4', annotations: DB_PORTS }), OPTIONS);
  const wanted = versions(before.envoy.snapshot);
  const elements = kernel.elements('/run/netns/c-shop-0', 'mesh_tcp4');
  t.ok(Object.keys(wanted).length > 10);
  kernel.tables.clear();
  kernel.events.length = 0;
  const after = await start();
  // What no pod of the node has yet comes when Envoy has its cluster.
  await after.agent.runner.idle();
  t.strictSame(versions(after.envoy.snapshot), wanted);
  t.strictSame(after.agent.catalog.views, before.agent.catalog.views);
  for (const pod of ['shop-0', 'db-0'])
    t.strictSame(kernel.elements(`/run/netns/c-${pod}`, 'mesh_tcp4'), elements, pod);
  t.equal(kernel.events.filter((event) => event === 'publish').length, 1, 'one snapshot, complete');
  t.match(await after.registry.listEndpoints({ namespace: 'demo', serviceAccount: 'shop' }, 'tcp'), [
    { ip: '10.1.2.3' },
  ]);
  t.ok(after.envoy.snapshot?.resources.secret.has('spiffe://aether.internal/ns/demo/sa/shop'));
});

t.test('startAgent() drops the pods whose namespace went, with their pins', async (t) => {
  const { kernel, start, dir } = await makeNode(t);
  const { life } = await start();
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  await life.addPod(podRequest(kernel, 'demo/db-0', { ip: '10.1.2.4' }), OPTIONS);
  kernel.alive.delete('/run/netns/c-shop-0');
  const after = await start();
  t.strictSame(
    after.agent.listPods().map((pod) => pod.workload.record.name),
    ['db-0'],
  );
  t.strictSame(await readdir(join(dir, 'registry')), ['c-db-0.json']);
  t.ok(kernel.events.includes(`unpin ${join(dir, 'netns/c-shop-0')}`));
  t.strictSame([...(await after.registry.listAllEndpoints('http')).keys()], ['demo/db']);
});

t.test('startAgent() names broken records, leaves them, and starts', async (t) => {
  const { kernel, start, dir, log } = await makeNode(t);
  const { life } = await start();
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  const text = await readFile(join(dir, 'registry/c-shop-0.json'), 'utf8');
  await writeFile(join(dir, 'registry/cut.json'), text.slice(0, 40));
  const retyped = text
    .replaceAll('c-shop-0', 'c-wrong')
    .replace('"annotations": {', '"annotations": {"endpoint.aether.io/port": "x",');
  await writeFile(join(dir, 'registry/c-wrong.json'), retyped);
  const after = await start();
  t.equal(after.agent.listPods().length, 1);
  t.ok(log.has('agent.record.broken', /cut\.json: /));
  t.ok(log.has('agent.record.broken', /c-wrong\.json: .*endpoint\.aether\.io\/port: must be a port/));
  t.strictSame((await readdir(join(dir, 'registry'))).sort(), ['c-shop-0.json', 'c-wrong.json', 'cut.json']);
});

t.test('startAgent() replays the removals that waited, whatever their files hold', async (t) => {
  const { kernel, start, dir } = await makeNode(t);
  const { life } = await start();
  for (const [name, ip] of [
    ['shop-0', '10.1.2.3'],
    ['db-0', '10.1.2.4'],
    ['web-0', '10.1.2.5'],
  ] as const) {
    await life.addPod(podRequest(kernel, `demo/${name}`, { ip }), OPTIONS);
  }
  const queue = join(dir, 'delete-queue');
  await mkdir(queue);
  await writeFile(join(queue, 'c-shop-0.json'), '{"containerId":"c-shop-0"}');
  await writeFile(join(queue, 'c-db-0.json'), '{"conta');
  await writeFile(join(queue, 'unknown.json'), '');
  await writeFile(join(queue, 'README'), 'not ours');
  const after = await start();
  t.strictSame(
    after.agent.listPods().map((pod) => pod.workload.record.name),
    ['web-0'],
  );
  t.strictSame(await readdir(join(dir, 'registry')), ['c-web-0.json']);
  t.strictSame(await readdir(queue), ['README']);
});

t.test('a removal that waited is done at once, and its pin goes when it may', async (t) => {
  const { kernel, start, dir } = await makeNode(t);
  const { life } = await start();
  for (const name of ['shop-0', 'db-0']) {
    await life.addPod(podRequest(kernel, `demo/${name}`, { ip: '10.1.2.3' }), OPTIONS);
  }
  const queue = join(dir, 'delete-queue');
  await mkdir(queue);
  const unpinNotBefore = new Date(Date.now() + 600_000);
  const listUnpinned = () => kernel.events.filter((event) => /^unpin .*c-(shop|db)-0$/.test(event));
  await writeFile(join(queue, 'c-shop-0.json'), JSON.stringify({ unpinNotBefore }));
  const after = await start();
  await writeFile(join(queue, 'c-db-0.json'), JSON.stringify({ unpinNotBefore }));
  await after.life.replayRemoval('c-db-0' as ContainerId);
  t.strictSame(after.agent.listPods(), []);
  t.strictSame(await readdir(join(dir, 'registry')), []);
  t.strictSame(listUnpinned(), [], 'at the start, and while the agent runs');
  t.strictSame(await after.agent.deps.removals.list(), [], 'not due before');
  for (const name of ['c-shop-0', 'c-db-0']) {
    await writeFile(join(queue, `${name}.json`), JSON.stringify({ unpinNotBefore: new Date(0) }));
    await after.life.replayRemoval(name as ContainerId);
  }
  t.equal(listUnpinned().length, 2);
  t.strictSame(await readdir(queue), []);
});

t.test('a removal that waited takes a table that came too late, but none of another container', async (t) => {
  const { kernel, start, dir } = await makeNode(t);
  const { life } = await start();
  const queue = join(dir, 'delete-queue');
  await mkdir(queue);
  const paths = ['/run/netns/late-a', '/run/netns/late-b'];
  for (const path of paths) {
    kernel.alive.add(path);
    kernel.tables.set(path, new Map());
  }
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  await writeFile(join(queue, 'c1.json'), JSON.stringify({ netns: paths[0] }));
  await life.replayRemoval('c1' as ContainerId);
  await writeFile(join(queue, 'c2.json'), JSON.stringify({ netns: paths[1] }));
  await writeFile(join(queue, 'c3.json'), JSON.stringify({ netns: '/run/netns/gone' }));
  kernel.links.set('/run/netns/again', '/run/netns/c-shop-0');
  await writeFile(join(queue, 'c4.json'), JSON.stringify({ netns: '/run/netns/again' }));
  await life.replayRemoval('c4' as ContainerId);
  t.strictSame([...kernel.tables.keys()], [paths[1], '/run/netns/c-shop-0']);
  await writeFile(join(queue, 'c4.json'), JSON.stringify({ netns: '/run/netns/again' }));
  await start();
  t.strictSame([...kernel.tables.keys()], ['/run/netns/c-shop-0']);
  t.strictSame(await readdir(queue), []);
});

t.test('replayRemovals() takes up what comes while the agent runs, and keeps what fails', async (t) => {
  const { kernel, start, dir, clock } = await makeNode(t);
  const { life, agent } = await start();
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  const queue = join(dir, 'delete-queue');
  await mkdir(queue);
  let isAway = true;
  let turns = 0;
  const tick = async (): Promise<void> => {
    const before = turns;
    clock.advance(5000);
    while (turns === before) await new Promise((resolve) => setTimeout(resolve, 2));
    // What follows a turn has only promises to wait for.
    await new Promise((resolve) => setImmediate(resolve));
  };
  using _replay = replayRemovals(agent, async (containerId) => {
    try {
      if (isAway) throw new Error('the disk is full');
      await life.replayRemoval(containerId);
    } finally {
      turns++;
    }
  });
  await writeFile(join(queue, 'c-shop-0.json'), '');
  await tick();
  t.strictSame(await readdir(queue), ['c-shop-0.json']);
  isAway = false;
  await tick();
  t.strictSame(await readdir(queue), []);
  t.equal(agent.listPods().length, 0);
  t.ok(
    kernel.events.some((event) => /^unpin .*c-shop-0$/.test(event)),
    'and its pin is gone',
  );
});

t.test('replayRemovals() goes on after one that fails', async (t) => {
  const { start, dir, clock } = await makeNode(t);
  const { agent } = await start();
  const queue = join(dir, 'delete-queue');
  await mkdir(queue);
  for (const name of ['a', 'b', 'c']) await writeFile(join(queue, `${name}.json`), '');
  const seen: string[] = [];
  using _replay = replayRemovals(agent, async (containerId) => {
    seen.push(containerId);
    if (containerId === 'b') throw new Error('the disk is full');
  });
  clock.advance(5000);
  while (seen.length < 3) await new Promise((resolve) => setTimeout(resolve, 2));
  t.strictSame(seen.sort(), ['a', 'b', 'c']);
});

t.test('replayRemoval() leaves a pod alone that was added since the removal was listed', async (t) => {
  const { kernel, start } = await makeNode(t);
  const { life, agent } = await start();
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  await life.replayRemoval('c-shop-0' as ContainerId);
  t.equal(agent.listPods().length, 1);
});

t.test('addPod() forgets a removal that waits: it is of an earlier life of the container', async (t) => {
  const { kernel, start, dir } = await makeNode(t);
  const { life } = await start();
  const queue = join(dir, 'delete-queue');
  await mkdir(queue);
  await writeFile(join(queue, 'c-shop-0.json'), '');
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  t.strictSame(await readdir(queue), []);
});

t.test('startAgent() without its file of leases starts all the same', async (t) => {
  const { kernel, start, dir, log } = await makeNode(t);
  const { life } = await start();
  await life.addPod(podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' }), OPTIONS);
  await writeFile(join(dir, 'vips.json'), '{"leases":[{');
  const after = await start();
  t.equal(after.agent.catalog.views.length, 1);
  t.ok(log.has('agent.vips.broken'));
  await rm(join(dir, 'vips.json'));
  t.equal((await start()).agent.catalog.views.length, 1);
});
