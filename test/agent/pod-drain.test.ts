// The order in which a pod leaves, against an Envoy and a clock that do nothing by themselves.
import t, { type Test } from 'tap';
import type { AckResult } from '../../src/agent/publisher.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'skip' } as const;
const PORTS = { 'endpoint.aether.io/ports': '8080,9000=tcp' };
const DRAIN_MS = 200;

async function start(t: Test): Promise<World & Booted> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const booted = await world.boot({ drainMs: DRAIN_MS });
  await startAgent(booted.agent);
  return { ...world, ...booted };
}

/** ADD answers before everything that follows from it is told. */
const settle = async ({ agent }: Booted): Promise<void> => {
  await turns();
  await agent.runner.idle();
  await turns();
};

const turns = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
};

t.test(
  'removePod() takes the endpoint away, waits for Envoy, then for what is on its way, then takes the listeners',
  async (t) => {
    const world = await start(t);
    const { life, kernel, envoy, clock, agent } = world;
    const gone = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: PORTS });
    await life.addPod(gone, OPTIONS);
    await life.addPod(podRequest(kernel, 'demo/shop-1', { ip: '10.1.2.4', annotations: PORTS }), OPTIONS);
    await settle(world);
    const hasListener = (): boolean => envoy.snapshot?.resources.listener.has('inbound_demo_shop-0') === true;
    const sends = (): boolean =>
      Buffer.from(envoy.snapshot?.resources.endpoints.get('demo/shop')?.bytes ?? []).includes('10.1.2.3');
    let acknowledge: (result: AckResult) => void = () => {};
    let awaited: readonly string[] = [];
    envoy.answer = (names) => {
      awaited = names.map(({ kind, name }) => `${kind} ${name}`);
      return new Promise((resolve) => {
        acknowledge = resolve;
      });
    };
    t.ok(sends());
    const removal = life.removePod(gone);
    await turns();
    t.strictSame([sends(), hasListener()], [false, true], 'the endpoint is gone, its listeners are not');
    t.strictSame(awaited, ['endpoints demo/shop', 'endpoints tcp:shop.demo.aether.internal:9000']);
    clock.advance(DRAIN_MS);
    await turns();
    t.ok(hasListener(), 'Envoy has not said yet that it knows');
    acknowledge({ kind: 'acknowledged' });
    await turns();
    clock.advance(DRAIN_MS - 1);
    await turns();
    t.ok(hasListener(), 'what is on its way may arrive');
    envoy.answer = () => ({ kind: 'acknowledged' });
    clock.advance(1);
    await removal;
    t.notOk(hasListener());
    t.equal(agent.listPods().length, 1);
  },
);

t.test('removePod() goes on when Envoy never answers', async (t) => {
  const world = await start(t);
  const { life, kernel, envoy, clock } = world;
  const gone = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3' });
  await life.addPod(gone, OPTIONS);
  await settle(world);
  envoy.answer = (names) => ({ kind: 'timeout', waitingFor: names.map(({ name }) => name) });
  const removal = life.removePod(gone);
  await turns();
  clock.advance(DRAIN_MS);
  await removal;
  t.notOk(envoy.snapshot?.resources.listener.has('inbound_demo_shop-0'));
});

const AT_ONCE: readonly { readonly name: string; readonly prepare: (world: World & Booted) => void }[] = [
  {
    name: 'without Envoy',
    prepare: ({ envoy }) => {
      envoy.streams = 0;
    },
  },
  {
    name: 'for a pod that nobody is sent to',
    prepare: ({ agent }) => {
      agent.registrar.isOffered = () => false;
    },
  },
];

for (const { name, prepare } of AT_ONCE) {
  t.test(`removePod() waits for nothing ${name}`, async (t) => {
    const world = await start(t);
    const gone = podRequest(world.kernel, 'demo/shop-0', { ip: '10.1.2.3' });
    await world.life.addPod(gone, OPTIONS);
    await settle(world);
    prepare(world);
    await world.life.removePod(gone);
    t.equal(world.agent.listPods().length, 0);
  });
}
