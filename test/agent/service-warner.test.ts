// What the agent's log says of legal but surprising ports: once a service, however often it is looked at.
import t from 'tap';
import { ServiceWarner } from '../../src/agent/service-warner.ts';
import { startAgent } from '../../src/agent/start-up.ts';
import { compareText } from '../../src/core/compare.ts';
import { formatServiceKey } from '../../src/mesh/names.ts';
import { makeWorld, podRequest } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';
import { exampleServices } from '../support/services.ts';

const views = Object.values(exampleServices());

t.test('check() warns once a service of TCP ports that scoped pods cannot reach', (t) => {
  const log = new RecordingLog();
  const warner = new ServiceWarner(log);
  warner.check(views, { hasScopedPod: false, tcp: true });
  t.strictSame(log.entries, []);
  for (let i = 0; i < 3; i++) warner.check(views, { hasScopedPod: true, tcp: true });
  t.match(log.entries, [
    {
      level: 'warn',
      event: 'agent.service.tcp_not_captured',
      fields: { service: 'demo/shop', ports: [9000], reason: /redirect-all reaches all/ },
    },
  ]);
  t.equal(log.entries.length, 1, 'db has only its default port');
  t.end();
});

t.test('check() warns once a service of TCP without identity', (t) => {
  const log = new RecordingLog();
  const warner = new ServiceWarner(log);
  for (let i = 0; i < 3; i++) warner.check(views, { hasScopedPod: true, tcp: false });
  t.match(log.entries.map(({ event, fields }) => [event, fields['service'], fields['ports']]).sort(), [
    ['agent.service.tcp_without_identity', 'demo/db', [5432]],
    ['agent.service.tcp_without_identity', 'demo/shop', [5432, 9000]],
  ]);
  t.end();
});

t.test('check() warns of a service that came between others', (t) => {
  const log = new RecordingLog();
  const warner = new ServiceWarner(log);
  const sorted = views.toSorted((a, b) => compareText(formatServiceKey(a.key), formatServiceKey(b.key)));
  warner.check(
    sorted.filter(({ key }) => formatServiceKey(key) !== 'demo/shop'),
    { hasScopedPod: true, tcp: true },
  );
  t.strictSame(log.entries, []);
  warner.check(sorted, { hasScopedPod: true, tcp: true });
  t.strictSame(
    log.entries.map(({ fields }) => fields['service']),
    ['demo/shop'],
  );
  t.end();
});

t.test('checkPod() warns once a service of a port with its own `=tcp`, which older agents take for HTTP', async (t) => {
  await using world = await makeWorld();
  const { agent, life } = await world.boot();
  await startAgent(agent);
  const add = (name: string, ip: string, annotations: Readonly<Record<string, string>>) =>
    life.addPod(podRequest(world.kernel, `demo/${name}`, { ip, annotations }), { timeoutMs: 1000, proxyReady: 'skip' });
  const suffix = { 'endpoint.aether.io/ports': '8080,9000=tcp' };
  await add('shop-0', '10.1.0.1', suffix);
  await add('shop-1', '10.1.0.2', suffix);
  await add('db-0', '10.1.0.3', { 'endpoint.aether.io/protocol': 'tcp' });
  const said = world.log.entries.filter(({ event }) => event === 'agent.service.tcp_suffix');
  t.match(said, [
    { level: 'warn', fields: { service: 'demo/shop', ports: [9000], reason: /bring those of other nodes/ } },
  ]);
  t.equal(said.length, 1);
});

t.test("the agent's log has what is wrong with a pod that is taken", async (t) => {
  await using world = await makeWorld();
  const { agent, life } = await world.boot();
  await startAgent(agent);
  const annotations = { 'endpoint.aether.io/ports': '18081' };
  const request = podRequest(world.kernel, 'demo/odd-0', { ip: '10.1.0.1', annotations });
  t.match(await life.addPod(request, { timeoutMs: 1000, proxyReady: 'skip' }), {
    kind: 'success',
    warnings: [/port 18081 is the mesh's own/],
  });
  t.ok(world.log.has('agent.pod.warning', /port 18081 is the mesh's own/));
});
