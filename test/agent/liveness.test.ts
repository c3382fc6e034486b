// From the health gateway's answers to the registry, by a whole agent on a test node (agent-world.ts): a promotion under
// one protocol only is tried again, and an Envoy that is away takes nobody down.
import t, { type Test } from 'tap';
import { ACTIVE_GRACE_MS } from '../../src/agent/liveness.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { RegistryError } from '../../src/core/errors.ts';
import type { Protocol } from '../../src/mesh/port-protocols.ts';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';
import { type Booted, makeWorld, podRequest, type World } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;
const SHOP = { namespace: 'demo', serviceAccount: 'shop' };
const BOTH = { 'endpoint.aether.io/ports': '8080,9000=tcp' };
const ACTIVE = { ...BOTH, 'endpoint.aether.io/health-check-mode': 'active' };

/** Envoy's gateway: what it answers is set by pod; `away` says that nobody listens. */
class TestGateway {
  readonly statuses = new Map<string, number>();
  readonly asked: string[] = [];
  away = false;

  async ask(path: string): Promise<number> {
    this.asked.push(path);
    if (this.away) throw new Error('connect ENOENT');
    if (path === '/healthz/all') return [...this.statuses.values()].every((status) => status === 200) ? 200 : 503;
    return this.statuses.get(path.replace('/healthz/health_demo_', '')) ?? 404;
  }
}

/** Refuses writes under one protocol. */
class HalfRegistry extends EmbeddedRegistry {
  refused: Protocol | undefined;
  override async registerEndpoint(...args: Parameters<EmbeddedRegistry['registerEndpoint']>): Promise<void> {
    if (args[1] === this.refused) throw new RegistryError('writing to the registry: it is away');
    return super.registerEndpoint(...args);
  }
}

interface Node extends World, Booted {
  readonly gateway: TestGateway;
  readonly half: HalfRegistry;
  /** Moves the clock in steps of 50 ms, with everything that follows from it. */
  pass(ms: number): Promise<void>;
  health(): Promise<readonly string[]>;
  add(annotations?: Readonly<Record<string, string>>): Promise<void>;
}

async function start(t: Test): Promise<Node> {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const gateway = new TestGateway();
  const half = new HalfRegistry();
  const booted = await world.boot({}, { health: gateway, registry: half });
  await startAgent(booted.agent);
  const settle = () => new Promise((resolve) => setTimeout(resolve, 2));
  return {
    ...world,
    ...booted,
    gateway,
    half,
    pass: async (ms) => {
      for (let done = 0; done < ms; done += 50) {
        world.clock.advance(50);
        await settle();
      }
    },
    health: async () =>
      (await Promise.all([half.listEndpoints(SHOP, 'http'), half.listEndpoints(SHOP, 'tcp')]))
        .flat()
        .map(({ health }) => health),
    add: async (annotations = BOTH) => {
      const request = podRequest(world.kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations });
      t.match(await booted.life.addPod(request, OPTIONS), { kind: 'success' });
    },
  };
}

t.test('a pod is unhealthy under both protocols until it is first seen healthy', async (t) => {
  const node = await start(t);
  await node.add();
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy']);
  await node.pass(500);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy'], '404: Envoy does not have it yet');
  node.gateway.statuses.set('shop-0', 503);
  await node.pass(500);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy']);
  node.gateway.statuses.set('shop-0', 200);
  await node.pass(50);
  t.strictSame(await node.health(), ['healthy', 'healthy'], 'at the next look, 50 ms later');
  node.gateway.statuses.set('shop-0', 503);
  await node.pass(5000);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy'], 'and when it falls ill');
  node.gateway.statuses.set('shop-0', 404);
  await node.pass(1000);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy'], '404 changes nothing');
});

t.test('half a promotion is none: it is tried again until both protocols have it', async (t) => {
  const node = await start(t);
  await node.add();
  node.gateway.statuses.set('shop-0', 200);
  node.half.refused = 'tcp';
  await node.pass(3000);
  t.strictSame(await node.health(), ['healthy', 'unhealthy']);
  node.half.refused = undefined;
  await node.pass(1000);
  t.strictSame(await node.health(), ['healthy', 'healthy']);
});

t.test('in ACTIVE mode a pod is healthy at once, and has its grace to become so', async (t) => {
  const node = await start(t);
  node.gateway.statuses.set('shop-0', 503);
  await node.add(ACTIVE);
  t.strictSame(await node.health(), ['healthy', 'healthy']);
  await node.pass(ACTIVE_GRACE_MS - 1000);
  t.strictSame(await node.health(), ['healthy', 'healthy']);
  await node.pass(2000);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy']);
});

t.test('in ACTIVE mode a pod that was seen healthy has no grace any more', async (t) => {
  const node = await start(t);
  node.gateway.statuses.set('shop-0', 200);
  await node.add(ACTIVE);
  await node.pass(4000);
  node.gateway.statuses.set('shop-0', 503);
  await node.pass(1100);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy']);
});

t.test('B12: another ADD of the same container keeps the health that was reported', async (t) => {
  const node = await start(t);
  node.gateway.statuses.set('shop-0', 200);
  await node.add();
  await node.pass(4000);
  await node.add();
  t.strictSame(await node.health(), ['healthy', 'healthy']);
  node.gateway.statuses.set('shop-0', 503);
  await node.pass(2000);
  await node.add(ACTIVE);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy'], 'also when it is ill');
  await node.life.removePod({ containerId: podRequest(node.kernel, 'demo/shop-0', { ip: '' }).containerId });
  await node.add(ACTIVE);
  t.strictSame(await node.health(), ['healthy', 'healthy'], 'a new life after DEL');
});

t.test('an agent that comes back asks before it registers: what serves is not taken out', async (t) => {
  const node = await start(t);
  await node.add();
  const registry = new EmbeddedRegistry();
  const seen: string[] = [];
  const write = registry.registerEndpoint.bind(registry);
  registry.registerEndpoint = async (key, protocol, endpoint) => {
    seen.push(endpoint.health);
    return write(key, protocol, endpoint);
  };
  node.gateway.statuses.set('shop-0', 200);
  await startAgent((await node.boot({}, { health: node.gateway, registry })).agent);
  t.strictSame(seen, ['healthy', 'healthy']);
  seen.length = 0;
  node.gateway.away = true;
  await startAgent((await node.boot({}, { health: node.gateway, registry })).agent);
  t.strictSame(seen, ['unhealthy', 'unhealthy'], 'nobody answers: nothing is known');
});

t.test('an Envoy that was away takes nobody down, and a long absence is a problem', async (t) => {
  const node = await start(t);
  node.gateway.statuses.set('shop-0', 200);
  await node.add();
  await node.pass(4000);
  node.gateway.away = true;
  await node.pass(4000);
  t.equal(node.agent.liveness?.problem, undefined);
  await node.pass(4000);
  t.match(node.agent.liveness?.problem, /does not say which pods are healthy: connect ENOENT/);
  t.equal(node.log.entries.filter(({ event }) => event === 'agent.health.gateway_away').length, 1);
  node.gateway.away = false;
  node.gateway.statuses.set('shop-0', 503);
  await node.pass(2500);
  t.strictSame(await node.health(), ['healthy', 'healthy'], 'it has not checked yet');
  t.equal(node.agent.liveness?.problem, undefined);
  await node.pass(3000);
  t.strictSame(await node.health(), ['unhealthy', 'unhealthy']);
});

t.test('a settled node is asked one question a second, one without pods none', async (t) => {
  const node = await start(t);
  await node.pass(3000);
  t.strictSame(node.gateway.asked, []);
  node.gateway.statuses.set('shop-0', 200).set('web-0', 200);
  await node.add();
  await node.life.addPod(podRequest(node.kernel, 'demo/web-0', { ip: '10.1.2.4' }), OPTIONS);
  await node.pass(4000);
  node.gateway.asked.length = 0;
  await node.pass(10_000);
  t.equal(node.gateway.asked.filter((path) => path === '/healthz/all').length, 9);
  t.equal(node.gateway.asked.length, 11, 'and each by itself once in ten seconds');
  for (const name of ['shop-0', 'web-0']) {
    await node.life.removePod({ containerId: podRequest(node.kernel, `demo/${name}`, { ip: '' }).containerId });
  }
  await node.pass(1000);
  node.gateway.asked.length = 0;
  await node.pass(3000);
  t.strictSame(node.gateway.asked, []);
});
