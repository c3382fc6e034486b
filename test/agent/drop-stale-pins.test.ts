// Which pins the agent takes away at its start: those of nobody, with nothing behind them.
import { join } from 'node:path';
import t from 'tap';
import { dropStalePins } from '../../src/agent/drop-stale-pins.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { planPluginTable } from '../../src/capture/plugin-table.ts';
import { type ContainerId, type NetnsPath, parseNetnsPath } from '../../src/core/identifiers.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';

const RULES = planPluginTable({ redirectAll: false, excludePorts: [], excludeRanges: [] });

t.test('dropStalePins() takes pins away that have neither record nor rules', async (t) => {
  const world = await makeWorld();
  t.teardown(() => world[Symbol.asyncDispose]());
  const { kernel, dir, log } = world;
  const { agent, life } = await world.boot();
  await startAgent(agent);
  await life.addPod(podRequest(kernel, 'demo/known-0', { ip: '10.1.2.3', containerId: 'known' }), {
    timeoutMs: 1000,
    proxyReady: 'skip',
  });
  const pinOf = (id: string): NetnsPath => {
    const path = parseNetnsPath(join(dir, 'netns', id));
    if (typeof path === 'object') throw new Error(path.problem);
    return path;
  };
  for (const id of ['known', 'empty', 'ruled', 'unreadable']) kernel.alive.add(pinOf(id));
  await kernel.replaceTable(pinOf('ruled'), RULES);
  kernel.events.length = 0;
  const read = kernel.readTable.bind(kernel);
  kernel.readTable = async (netns, planned) => {
    if (netns === pinOf('unreadable')) throw new Error('the kernel is busy');
    return read(netns, planned);
  };
  const released: string[] = [];
  const old = ['known', 'empty', 'ruled', 'unreadable', 'unmounted'] as ContainerId[];
  await dropStalePins(agent, { old, release: async (id) => void released.push(id) });
  t.strictSame(kernel.events, [`unpin ${pinOf('empty')}`, `unpin ${pinOf('unmounted')}`]);
  t.strictSame(released, ['empty', 'unmounted']);
  t.ok(log.has('agent.pin.not_dropped', /unreadable.*busy/));
});
