// A pod registered under two protocols, in a registry that fails from a given write on: half of it is not done, and is tried
// again until it is whole.
import t from 'tap';
import { type AgentPod, parseAgentPod, recordOfRequest } from '../../src/agent/agent-pod.ts';
import { PodRegistrar } from '../../src/agent/pod-registrar.ts';
import { RegistryError } from '../../src/core/errors.ts';
import type { Health } from '../../src/mesh/endpoint.ts';
import { EmbeddedRegistry } from '../../src/registry/embedded.ts';
import { FACTS, podRequest, TestClock, TestKernel } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';

const SHOP = { namespace: 'demo', serviceAccount: 'shop' };

function makePod(ports: string, ip = '10.1.2.3', containerId = 'c1'): AgentPod {
  const annotations = { 'endpoint.aether.io/ports': ports };
  const record = recordOfRequest(podRequest(new TestKernel(), 'demo/shop-0', { ip, annotations, containerId }));
  const parsed = record === undefined ? undefined : parseAgentPod(record, FACTS);
  if (parsed?.kind !== 'value') throw new Error(JSON.stringify(parsed));
  return parsed.value;
}

/** A registry that is away, or fails from the n-th write on. */
class FailingRegistry extends EmbeddedRegistry {
  writesLeft = Number.POSITIVE_INFINITY;
  override async registerEndpoint(...args: Parameters<EmbeddedRegistry['registerEndpoint']>): Promise<void> {
    this.#count();
    return super.registerEndpoint(...args);
  }
  override async unregisterEndpoint(...args: Parameters<EmbeddedRegistry['unregisterEndpoint']>): Promise<void> {
    this.#count();
    return super.unregisterEndpoint(...args);
  }
  #count(): void {
    if (this.writesLeft <= 0) throw new RegistryError('writing to the registry: it is away', { retryable: true });
    this.writesLeft--;
  }
}

function make() {
  const registry = new FailingRegistry();
  const clock = new TestClock();
  const log = new RecordingLog();
  const health = new Map<string, Health>();
  const healthOf = (pod: AgentPod): Health => health.get(pod.workload.record.containerId) ?? 'unhealthy';
  const registrar = new PodRegistrar({ registry, clock, log, healthOf });
  const both = async () => [
    (await registry.listEndpoints(SHOP, 'http')).map(({ ip }) => ip),
    (await registry.listEndpoints(SHOP, 'tcp')).map(({ ip }) => ip),
  ];
  const settle = () => new Promise((resolve) => setTimeout(resolve, 5));
  const healths = async () => [
    (await registry.listEndpoints(SHOP, 'http')).map((endpoint) => endpoint.health),
    (await registry.listEndpoints(SHOP, 'tcp')).map((endpoint) => endpoint.health),
  ];
  return { registry, clock, log, registrar, health, healths, both, settle };
}

t.test('claim() that is written under one protocol only is not done, and is tried again for all', async (t) => {
  const { registry, clock, registrar, both, settle, log } = make();
  const pod = makePod('8080,9000=tcp');
  registry.writesLeft = 1;
  t.equal(await registrar.claim(pod), false);
  t.strictSame(await both(), [['10.1.2.3'], []], 'half of it is there');
  t.equal(registrar.isRegistered(pod), false);
  t.equal(registrar.pendingCount, 1);
  for (const delay of [1000, 2000, 4000]) {
    clock.advance(delay - 1);
    await settle();
    const before = log.entries.length;
    clock.advance(1);
    await settle();
    t.equal(log.entries.length, before + 1, `tried again after ${delay} ms`);
  }
  registry.writesLeft = Number.POSITIVE_INFINITY;
  clock.advance(8000);
  await settle();
  t.strictSame(await both(), [['10.1.2.3'], ['10.1.2.3']]);
  t.equal(registrar.isRegistered(pod), true);
  t.equal(registrar.pendingCount, 0);
});

t.test('release() while the registry is away is made up for', async (t) => {
  const { registry, clock, registrar, both, settle } = make();
  const pod = makePod('8080,9000=tcp');
  await registrar.claim(pod);
  registry.writesLeft = 0;
  t.equal(await registrar.release(pod), false);
  registry.writesLeft = Number.POSITIVE_INFINITY;
  clock.advance(1000);
  await settle();
  t.strictSame(await both(), [[], []]);
});

t.test('claim() of fewer protocols removes the stale key, also when the first attempt was cut', async (t) => {
  const { registry, clock, registrar, both, settle } = make();
  await registrar.claim(makePod('8080,9000=tcp'));
  registry.writesLeft = 1;
  t.equal(await registrar.claim(makePod('8080,9000')), false, 'removed, not yet written');
  registry.writesLeft = Number.POSITIVE_INFINITY;
  clock.advance(1000);
  await settle();
  t.strictSame(await both(), [['10.1.2.3'], []]);
  await registrar.claim(makePod('8080=tcp'));
  t.strictSame(await both(), [[], ['10.1.2.3']]);
});

t.test('release() of a pod whose address another pod has by now takes nothing', async (t) => {
  const { registrar, both } = make();
  const old = makePod('8080,9000=tcp', '10.1.2.3', 'old');
  const fresh = makePod('8080', '10.1.2.3', 'fresh');
  await registrar.claim(old);
  await registrar.claim(fresh);
  t.strictSame(await both(), [['10.1.2.3'], []]);
  await registrar.release(old);
  t.strictSame(await both(), [['10.1.2.3'], []]);
  await registrar.release(fresh);
  t.strictSame(await both(), [[], []]);
});

t.test('rewrite() writes the health of now under every protocol, or is not done', async (t) => {
  const { registry, registrar, health, healths, clock, settle } = make();
  const pod = makePod('8080,9000=tcp');
  await registrar.claim(pod);
  t.strictSame(await healths(), [['unhealthy'], ['unhealthy']]);
  health.set('c1', 'healthy');
  registry.writesLeft = 1;
  t.equal(await registrar.rewrite(pod), false, 'half a promotion is none');
  t.strictSame(await healths(), [['healthy'], ['unhealthy']]);
  registry.writesLeft = Number.POSITIVE_INFINITY;
  clock.advance(1000);
  await settle();
  t.strictSame(await healths(), [['healthy'], ['healthy']], 'made up for by its own retry');
  t.equal(await registrar.rewrite(pod), true);
});

t.test('rewrite() leaves an address alone that another container has, or nobody', async (t) => {
  const { registrar, both, health, healths } = make();
  const old = makePod('8080', '10.1.2.3', 'old');
  await registrar.claim(old);
  await registrar.claim(makePod('8080', '10.1.2.3', 'fresh'));
  health.set('old', 'healthy');
  t.equal(await registrar.rewrite(old), true);
  t.strictSame(await healths(), [['unhealthy'], []]);
  await registrar.release(makePod('8080', '10.1.2.3', 'fresh'));
  t.equal(await registrar.rewrite(old), true);
  t.strictSame(await both(), [[], []]);
});

t.test('isOffered() is true for a registered pod that may be sent to', async (t) => {
  const { registrar, health } = make();
  const pod = makePod('8080,9000=tcp');
  t.equal(registrar.isOffered(pod), false, 'not registered');
  await registrar.claim(pod);
  t.equal(registrar.isOffered(pod), false, 'not healthy');
  for (const state of ['healthy', 'unspecified', 'draining'] as const) {
    health.set('c1', state);
    t.equal(registrar.isOffered(pod), true, state);
  }
  t.equal(registrar.isOffered(makePod('8080', '10.1.2.3', 'c2')), false, 'another has its address');
  await registrar.release(pod);
  t.equal(registrar.isOffered(pod), false, 'gone');
});

t.test('writes that fail together are one failure to the back-off, however many they are', async (t) => {
  const { registry, clock, registrar, settle, log } = make();
  registry.writesLeft = 0;
  const ips = Array.from({ length: 6 }, (_, i) => `10.1.2.${i + 3}`);
  await Promise.all(ips.map((ip, i) => registrar.claim(makePod('8080', ip, `c${i}`))));
  for (const delay of [1000, 2000]) {
    const before = log.entries.length;
    clock.advance(delay);
    await settle();
    t.equal(log.entries.length, before + ips.length, `all are tried again after ${delay} ms`);
  }
  registry.writesLeft = Number.POSITIVE_INFINITY;
  clock.advance(4000);
  await settle();
  t.equal(registrar.pendingCount, 0);
});

t.test('claim() of what an earlier agent wrote under another protocol takes that away', async (t) => {
  const { registrar, registry, both } = make();
  const pod = makePod('9000=tcp,8080=tcp');
  if (pod.endpoint === undefined) throw new Error('no endpoint');
  const untyped = { ...pod.endpoint, portProtocols: new Map() };
  await registry.registerEndpoint(SHOP, 'http', untyped);
  await registry.registerEndpoint(SHOP, 'http', { ...untyped, ip: '10.1.2.9' });
  await registrar.claim(pod);
  t.strictSame(await both(), [['10.1.2.9'], ['10.1.2.3']], 'its own only');
  t.equal((await registry.listEndpoints(SHOP, 'tcp'))[0]?.portProtocols.size, 2, 'and is typed');
});
