// An agent that is killed and comes back to its disk and kernel (agent-world.ts): at each effect on them, and in random
// histories (more with AETHER_TEST_ROUNDS), it ends whole.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { FileRecordStore } from '../../src/adapters/store/record-store.ts';
import { FileRemovalQueue } from '../../src/adapters/store/removal-queue.ts';
import { FileVipStore } from '../../src/adapters/store/vip-store.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { type Booted, makeWorld, podRequest } from '../support/agent-world.ts';

const OPTIONS = { timeoutMs: 5000, proxyReady: 'wait' } as const;
const SHOP_PORTS = { 'endpoint.aether.io/ports': '8080,9090=h2,9000=tcp,5432=tcp' };
const ROUNDS = Number(process.env['AETHER_TEST_ROUNDS'] ?? 20);

/** A process that is killed: after so many effects nothing happens any more, and nobody answers. */
class KillSwitch {
  left = Number.POSITIVE_INFINITY;
  readonly #killed = Promise.withResolvers<void>();
  readonly #begun: unknown[] = [];

  /** Resolves with the first effect that does not happen any more. */
  get killed(): Promise<void> {
    return this.#killed.promise;
  }

  wrap<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (object, name) => {
        const value: unknown = Reflect.get(object, name, object);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => this.#act(() => Reflect.apply(value, object, args));
      },
    });
  }

  /** Kills it now, if it lives, and waits for what the kernel or the disk still does of what it had begun. */
  async end(): Promise<void> {
    this.left = 0;
    await Promise.allSettled(this.#begun);
  }

  #act(effect: () => unknown): unknown {
    if (this.left <= 0) {
      this.#killed.resolve();
      return new Promise(() => {});
    }
    this.left--;
    const result = effect();
    this.#begun.push(result);
    return result;
  }
}

t.test(
  'killed at any effect of an ADD or a DEL on kernel or disk, the agent comes back to a whole state',
  async (t) => {
    for (const verb of ['add', 'remove'] as const) {
      let isOver = false;
      for (let left = 0; !isOver; left++) {
        await using world = await makeWorld();
        const { kernel, dir } = world;
        const kill = new KillSwitch();
        const tables = kill.wrap(kernel);
        const records = kill.wrap(new FileRecordStore(join(dir, 'registry')));
        const vips = kill.wrap(new FileVipStore(join(dir, 'vips.json')));
        const removals = kill.wrap(new FileRemovalQueue(join(dir, 'delete-queue')));
        const first = await world.boot({}, { tables, namespaces: tables, records, vips, removals });
        world.disown(first.agent);
        await startAgent(first.agent);
        const request = podRequest(kernel, 'demo/shop-0', { ip: '10.1.2.3', annotations: SHOP_PORTS });
        if (verb === 'remove') await first.life.addPod(request, OPTIONS);
        kill.left = left;
        const call = verb === 'add' ? first.life.addPod(request, OPTIONS) : first.life.removePod(request);
        isOver = await Promise.race([call.then(() => true), kill.killed.then(() => false)]);
        await kill.end();
        const second = await world.boot();
        await startAgent(second.agent);
        await second.agent.runner.idle();
        const title = `${verb}, killed after ${left} effects`;
        const files = await readdir(join(dir, 'registry'));
        t.equal(second.agent.listPods().length, files.length, `${title}: the records are the pods`);
        if (verb === 'remove' && files.length === 0) t.equal(kernel.tables.size, 0, `${title}: the record goes last`);
        const wanted = second.envoy.snapshot?.meshSets.tcp.filter(({ address }) => address.family === 4).length;
        if (files.length > 0)
          t.equal(kernel.elements(request.networkNamespace, 'mesh_tcp4').length, wanted, `${title}: its table`);
        t.match(await second.life.addPod(request, OPTIONS), { kind: 'success' }, `${title}: the runtime tries again`);
        await second.life.removePod(request);
        t.strictSame(await readdir(join(dir, 'registry')), [], title);
        t.equal(kernel.tables.size, 0, title);
      }
    }
  },
);

const PORT_SETS = ['8080', '8080,9000=tcp', '8080=tcp,9000=tcp', '9000=tcp', '8080,9000', '5432=tcp,9000=h2'];
type Step =
  | { readonly kind: 'add'; readonly pod: number; readonly ports: string }
  | { readonly kind: 'remove'; readonly pod: number }
  | { readonly kind: 'kill' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('add' as const), pod: fc.nat(5), ports: fc.constantFrom(...PORT_SETS) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove' as const), pod: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
);

t.test(
  'after any sequence of ADD, DEL and kill all tables agree with the snapshot, and no element ever lacked its cluster',
  async (t) => {
    const property = fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        await using world = await makeWorld();
        const { kernel } = world;
        const boot = async (): Promise<Booted> => {
          const booted = await world.boot();
          await startAgent(booted.agent);
          return booted;
        };
        let node = await boot();
        const alive = new Set<number>();
        for (const action of steps) {
          if (action.kind === 'kill') {
            node = await boot();
            continue;
          }
          const request = podRequest(kernel, `demo/${['shop', 'db', 'web'][action.pod % 3]}-${action.pod}`, {
            ip: `10.1.2.${action.pod + 1}`,
            annotations: action.kind === 'add' ? { 'endpoint.aether.io/ports': action.ports } : {},
          });
          if (action.kind === 'add') {
            await node.life.addPod(request, OPTIONS);
            alive.add(action.pod);
          } else {
            await node.life.removePod(request);
            alive.delete(action.pod);
          }
        }
        await new Promise(setImmediate);
        await node.agent.runner.idle();
        const wanted = node.envoy.snapshot?.meshSets.tcp.map(({ address, port }) => `${address.text} . ${port}`) ?? [];
        if (kernel.tables.size !== alive.size) throw new Error(`${kernel.tables.size} tables, ${alive.size} pods`);
        for (const netns of kernel.tables.keys()) {
          const held = [...kernel.elements(netns, 'mesh_tcp4'), ...kernel.elements(netns, 'mesh_tcp6')];
          if (held.sort().join() !== [...wanted].sort().join())
            throw new Error(`${netns} holds ${held}, wanted ${wanted}`);
        }
      }),
      { numRuns: ROUNDS },
    );
    await t.resolves(property);
  },
);
