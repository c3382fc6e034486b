// A service that changes under its clients: what each spelling gets while pods of one kind replace pods of another, while
// certificates are renewed, while the agent or Envoy is away. Every request and connection counts. What is promised, and what
// is not, stands in docs/transitions.md.
import { setTimeout as sleep } from 'node:timers/promises';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { enterSandbox } from '../../scripts/lab/sandbox.ts';
import { findUnexpected, firstOf, formatSeen, lastOf } from '../support/traffic.ts';
import { everywhere, follow, httpTo, longTo, startClients, tcpTo } from '../support/traffic-clients.ts';
import { TrafficNode, type TrafficPod } from '../support/traffic-node.ts';

const CERTIFICATE_SECONDS = 16;

const sandbox = await enterSandbox(import.meta.filename);
// Only inside the sandbox: outside, this process prints nothing of its own.
const { default: t } = await import('tap');
t.setTimeout(280_000);
const node = new TrafficNode(sandbox, {
  agentFlags: ['--certificate-lifetime', String(CERTIFICATE_SECONDS), '--log-level', 'debug'],
});
await node.start();
const pods = {
  client: await node.addPod('client-a', { 'capture.aether.io/redirect-all': 'true' }),
  scoped: await node.addPod('scoped-a', { 'capture.aether.io/redirect-all': 'false' }),
};

/** Any end of a connection that its client is told of at once. */
const FAILS = 'lost: (ECONNRESET|ECONNREFUSED|closed)|closed';
const ADDRESS = /^10\.254\./;
/** Whatever becomes of a connection that nobody takes yet, no application answers it. */
const NO_ANSWER = /^(lost|closed)/;
const MIXED = { 'endpoint.aether.io/ports': '8080,9000=tcp' };
const MIXED_APPS = ['http=8080', 'echo=9000'];

const settle = (): Promise<void> => sleep(400);

/** DEL while the application runs, and a moment more. */
async function detach(pod: TrafficPod | undefined): Promise<void> {
  if (pod === undefined) throw new Error('the pod was not added');
  await node.detach(pod);
  await settle();
}

async function removeAll(...all: readonly (TrafficPod | undefined)[]): Promise<void> {
  for (const pod of all) {
    if (pod === undefined) continue;
    await node.detach(pod);
    await node.discard(pod);
  }
}

await t.test('HTTP-only becomes mixed, then TCP-only', async (t) => {
  const a = await node.addPod('shop-a', {}, ['http=8080']);
  let b: TrafficPod | undefined;
  let c: TrafficPod | undefined;
  using clients = await startClients(node, pods, { service: 'shop', more: [tcpTo(9000), httpTo('shop', 8080)] });
  const http = /^200 shop-[ab]:8080$/;
  const begins = new RegExp(`^(shop-b:9000|${FAILS})$`);
  const onlyB = { http: /^200 shop-b:8080$/, tcp: /^shop-b:9000$/ };
  const bOrC = /^shop-[bc]:9000$/;
  await follow(t, { node, clients }, [
    {
      what: 'a pod with a TCP port comes: HTTP goes on, TCP begins',
      run: async () => {
        b = await node.addPod('shop-b', MIXED, MIXED_APPS);
        await settle();
      },
      allowed: { ...everywhere({ http, tcp: begins }), 'tcp 9000': begins, 'http 8080': http, dns: ADDRESS },
    },
    {
      what: 'both kinds: HTTP to both, TCP to the one that has it',
      run: settle,
      allowed: { ...everywhere({ http, tcp: onlyB.tcp }), 'tcp 9000': onlyB.tcp, 'http 8080': http },
    },
    {
      what: 'the HTTP-only pod goes',
      run: () => detach(a),
      allowed: { ...everywhere({ http, tcp: onlyB.tcp }), 'tcp 9000': onlyB.tcp, 'http 8080': http, dns: ADDRESS },
    },
    { what: 'mixed alone', run: settle, allowed: { ...everywhere(onlyB), 'http 8080': onlyB.http } },
    {
      what: 'a pod without HTTP comes: TCP to both',
      run: async () => {
        const annotations = { 'endpoint.aether.io/port': '9000', 'endpoint.aether.io/protocol': 'tcp' };
        c = await node.addPod('shop-c', annotations, ['echo=9000']);
      },
      allowed: { ...everywhere({ ...onlyB, tcp: bOrC }), 'tcp 9000': bOrC, 'http 8080': onlyB.http },
    },
    {
      what: 'the mixed pod goes: HTTP is 200, then 421, and never anything else',
      run: () => detach(b),
      allowed: {
        ...everywhere({ http: /^(200 shop-b:8080|421 no-http-port)$/, tcp: bOrC }),
        'tcp 9000': bOrC,
        dns: ADDRESS,
      },
    },
    {
      what: 'TCP-only alone',
      run: settle,
      allowed: everywhere({ http: /^421 no-http-port$/, tcp: /^shop-c:9000$/ }),
    },
  ]);
  for (const pod of [a, b]) if (pod !== undefined) await node.discard(pod);
  await removeAll(c);
});

await t.test('a port is re-typed while both kinds of pods live', async (t) => {
  const a = await node.addPod('api-a', { 'endpoint.aether.io/ports': '8080,9000' }, ['http=8080', 'http=9000']);
  const b = await node.addPod('api-b', MIXED);
  using clients = await startClients(node, pods, {
    service: 'api',
    more: [
      httpTo('api', 9000),
      httpTo('api', 9000, 80),
      tcpTo(9000),
      { ...tcpTo(9000), name: 'bytes', sends: '\u0001\u0002' },
    ],
  });
  const both = /^200 api-[ab]:8080$/;
  const onA = /^200 api-a:8080$/;
  const viaA = /^200 api-a:9000$/;
  // An HTTP request that the TCP application answers, as the client's parser calls it.
  const httpSwitches = /^(200 api-a:9000|lost: HPE_INVALID_CONSTANT)$/;
  const tcpSwitches = new RegExp(`^(api-b:9000|${FAILS})$`);
  const [, change] = await follow(t, { node, clients }, [
    {
      what: 'nobody answers TCP yet: the port is still HTTP',
      run: settle,
      allowed: {
        ...{ keep: onA, fresh: onA, 'scoped fresh': onA, 'http 9000': viaA, 'http 9000 at 80': viaA, dns: ADDRESS },
        ...{ default: NO_ANSWER, 'scoped default': NO_ANSWER },
      },
    },
    {
      what: 'the first pod that answers TCP: the number becomes TCP, the authority stays HTTP',
      run: async () => {
        node.startApp(b, MIXED_APPS);
        await node.untilServed(b);
        // What was dialled before and might have become HTTP waits for a second.
        await sleep(1500);
      },
      allowed: {
        keep: both,
        fresh: both,
        'scoped fresh': both,
        'scoped default': tcpSwitches,
        'http 9000': httpSwitches,
        'http 9000 at 80': viaA,
        'tcp 9000': tcpSwitches,
        bytes: tcpSwitches,
        default: tcpSwitches,
      },
    },
    {
      what: 'both kinds live',
      run: settle,
      allowed: {
        ...everywhere({ http: both, tcp: /^api-b:9000$/ }),
        'http 9000': /^lost: HPE_INVALID_CONSTANT$/,
        'http 9000 at 80': viaA,
        'tcp 9000': /^api-b:9000$/,
        bytes: /^api-b:9000$/,
      },
    },
    {
      what: 'the old kind goes',
      run: () => detach(a),
      allowed: {
        ...everywhere({ http: both, tcp: /^api-b:9000$/ }),
        'http 9000 at 80': /^(200 api-a:9000|503 .*)$/,
        'tcp 9000': /^api-b:9000$/,
        bytes: /^api-b:9000$/,
      },
    },
  ]);
  const [lastHttp, firstTcp] = [lastOf(change, 'http 9000', viaA), firstOf(change, 'http 9000', /HPE/)];
  t.ok(lastHttp !== undefined && firstTcp !== undefined && lastHttp <= firstTcp, 'the meaning changes once');
  await node.discard(a);
  await removeAll(b);
});

await t.test('the primary changes, of HTTP and of TCP', async (t) => {
  const a = await node.addPod(
    'web-a',
    { 'endpoint.aether.io/port': '8081', 'endpoint.aether.io/ports': '8081,9001=tcp' },
    ['http=8081', 'echo=9001'],
  );
  let b: TrafficPod | undefined;
  using clients = await startClients(node, pods, { service: 'web', more: [httpTo('web', 8081), tcpTo(9001)] });
  const both = { http: /^200 (web-a:8081|web-b:8080)$/, tcp: /^(web-a:9001|web-b:5432)$/ };
  const onlyA = { http: /^200 web-a:8081$/, tcp: /^web-a:9001$/ };
  await follow(t, { node, clients }, [
    {
      what: 'a pod with another primary comes, not ready yet: the old one answers',
      run: async () => {
        b = await node.addPod('web-b', { 'endpoint.aether.io/ports': '8080,5432=tcp' });
        await settle();
      },
      allowed: { ...everywhere(onlyA), 'http 8081': onlyA.http, 'tcp 9001': onlyA.tcp },
    },
    {
      what: 'it is ready: either answers, the numbers mean what they meant',
      run: async () => {
        if (b === undefined) throw new Error('the pod was not added');
        node.startApp(b, ['http=8080', 'echo=5432']);
        await node.untilServed(b);
        await settle();
      },
      allowed: { ...everywhere(both), 'http 8081': onlyA.http, 'tcp 9001': onlyA.tcp, dns: ADDRESS },
    },
    {
      what: 'the old one goes',
      run: () => detach(a),
      allowed: { ...everywhere(both), 'http 8081': /^(200 web-a:8081|503 .*)$/, dns: ADDRESS },
    },
    { what: 'the new one alone', run: settle, allowed: everywhere({ http: /^200 web-b:8080$/, tcp: /^web-b:5432$/ }) },
  ]);
  await node.discard(a);
  await removeAll(b);
});

await t.test('the last endpoint goes and comes back', async (t) => {
  const a = await node.addPod('last-a', MIXED, MIXED_APPS);
  let b: TrafficPod | undefined;
  using clients = await startClients(node, pods, { service: 'last', more: [tcpTo(9000)] });
  const nobody = '503 (no healthy upstream|no-endpoints)';
  const [, , back] = await follow(t, { node, clients }, [
    {
      what: 'it goes: what is answered is right, then HTTP is refused with 503 and TCP is closed',
      run: () => detach(a),
      allowed: {
        ...everywhere({
          http: new RegExp(`^(200 last-a:8080|${nobody})$`),
          tcp: new RegExp(`^(last-a:9000|${FAILS})$`),
        }),
        'tcp 9000': new RegExp(`^(last-a:9000|${FAILS})$`),
        dns: ADDRESS,
      },
    },
    {
      what: 'nobody: at once, and the name keeps its address',
      run: settle,
      allowed: { ...everywhere({ http: new RegExp(`^${nobody}$`), tcp: new RegExp(`^(${FAILS})$`) }), dns: ADDRESS },
    },
    {
      what: 'it comes back',
      run: async () => {
        b = await node.addPod('last-b', MIXED, MIXED_APPS);
        await settle();
      },
      allowed: {
        ...everywhere({
          http: new RegExp(`^(200 last-b:8080|${nobody})$`),
          tcp: new RegExp(`^(last-b:9000|${FAILS})$`),
        }),
        dns: ADDRESS,
      },
    },
    { what: 'as before', run: settle, allowed: everywhere({ http: /^200 last-b:8080$/, tcp: /^last-b:9000$/ }) },
  ]);
  // What failed last, failed before what came first: it does not flap.
  for (const [stream, good] of [
    ['keep', /^200/],
    ['fresh', /^200/],
    ['scoped fresh', /^200/],
    ['default', /^last-b/],
    ['scoped default', /^last-b/],
  ] as const) {
    const [bad, first] = [lastOf(back, stream, /^(503|lost|closed)/), firstOf(back, stream, good)];
    t.ok(first !== undefined && (bad === undefined || bad <= first), `${stream} is back once and for all`);
  }
  await node.discard(a);
  await removeAll(b);
});

await t.test('what is open stays open: DEL of another pod, new certificates, another agent', async (t) => {
  const a = await node.addPod('long-a', MIXED, MIXED_APPS);
  const longs = ['long 1', 'long 2', 'long 3', 'long 4'];
  using clients = await startClients(node, pods, {
    service: 'long',
    more: [tcpTo(9000), ...longs.map((name) => longTo(9000, name))],
  });
  const b = await node.addPod('long-b', MIXED, MIXED_APPS);
  const both = { http: /^200 long-[ab]:8080$/, tcp: /^long-[ab]:9000$/ };
  const onA = Object.fromEntries(longs.map((name) => [name, /^long-a:9000$/]));
  const all = { ...everywhere(both), ...onA, 'tcp 9000': both.tcp };
  const version = async () => {
    const dump = await node.envoy.admin('/config_dump?resource=dynamic_active_secrets');
    return /"name": "spiffe:[^"]*sa\/long",\s+"version_info": "(\w+)"/.exec(dump)?.[1];
  };
  await follow(t, { node, clients }, [
    { what: 'one of two pods is deleted by DEL', run: () => detach(b), allowed: { ...all, dns: ADDRESS } },
    {
      what: 'certificates are renewed',
      run: async () => {
        const old = await version();
        await waitUntil('Envoy to have a new certificate', async () => (await version()) !== old, {
          timeoutMs: CERTIFICATE_SECONDS * 1000,
        });
        await settle();
      },
      allowed: { ...all, dns: ADDRESS },
    },
    {
      what: 'the agent ends and comes back',
      run: async () => {
        await node.agent.stop();
        await sleep(1000);
        await node.startAgent();
        await settle();
      },
      allowed: all,
    },
    {
      what: 'the agent is killed and comes back',
      run: async () => {
        await node.agent.stop('SIGKILL');
        await sleep(200);
        await node.startAgent();
        await settle();
      },
      allowed: all,
    },
  ]);
  await node.discard(b);
  await removeAll(a);
});

await t.test(
  'a pod ends as runtimes end it, its application first: HTTP loses nothing, TCP fails at once until DEL',
  async (t) => {
    const a = await node.addPod('end-a', MIXED, MIXED_APPS);
    const b = await node.addPod('end-b', MIXED, MIXED_APPS);
    using clients = await startClients(node, pods, { service: 'end', more: [httpTo('end', 8080), tcpTo(9000)] });
    const both = { http: /^200 end-[ab]:8080$/, tcp: new RegExp(`^(end-[ab]:9000|${FAILS})$`) };
    await follow(t, { node, clients }, [
      {
        what: 'its application ends, then comes DEL',
        run: async () => {
          await a.app?.stop();
          await detach(a);
        },
        allowed: { ...everywhere(both), 'http 8080': both.http, 'tcp 9000': both.tcp, dns: ADDRESS },
      },
      { what: 'the other alone', run: settle, allowed: everywhere({ http: /^200 end-b:8080$/, tcp: /^end-b:9000$/ }) },
    ]);
    await node.discard(a);
    await removeAll(b);
  },
);

await t.test(
  'the agent hangs until Envoy gives its stream up: nothing fails, and the next change is taken',
  async (t) => {
    // Certificates that outlast it.
    await node.agent.stop();
    await node.startAgent(['--log-level', 'debug']);
    const a = await node.addPod('hang-a', MIXED, MIXED_APPS);
    let b: TrafficPod | undefined;
    using clients = await startClients(node, pods, { service: 'hang', more: [tcpTo(9000), longTo(9000)] });
    const onlyA = { http: /^200 hang-a:8080$/, tcp: /^hang-a:9000$/ };
    const both = { http: /^200 hang-[ab]:8080$/, tcp: /^hang-[ab]:9000$/ };
    const streams = async () => (await node.envoy.counters()).get('cluster.agent_xds.upstream_cx_total') ?? 0;
    const before = await streams();
    await follow(t, { node, clients }, [
      {
        what: 'it hangs',
        run: async () => {
          const { pid } = node.agent;
          process.kill(pid, 'SIGSTOP');
          try {
            await waitUntil('Envoy to notice', async () => (await streams()) > before, { timeoutMs: 60_000 });
          } finally {
            process.kill(pid, 'SIGCONT');
          }
          await settle();
        },
        allowed: { ...everywhere(onlyA), 'tcp 9000': onlyA.tcp, long: onlyA.tcp },
      },
      {
        what: 'a pod comes',
        run: async () => {
          b = await node.addPod('hang-b', MIXED, MIXED_APPS);
          await settle();
        },
        allowed: { ...everywhere(both), 'tcp 9000': both.tcp, long: onlyA.tcp },
      },
    ]);
    await removeAll(a, b);
  },
);

await t.test('Envoy is restarted: what is open is lost, and all is as before when it is back', async (t) => {
  const a = await node.addPod('new-a', MIXED, MIXED_APPS);
  using clients = await startClients(node, pods, { service: 'new', more: [tcpTo(9000), longTo(9000)] });
  await node.envoy.process.stop('SIGKILL');
  const awayMs = Date.now();
  await node.startEnvoy();
  await node.untilServed(a);
  await settle();
  const seen = await clients.take();
  t.comment(`back after ${(lastOf(seen, 'tcp 9000', /^(lost|closed)/) ?? 0) - awayMs} ms\n${formatSeen(seen)}`);
  const good = { http: /^200 new-a:8080$/, tcp: /^new-a:9000$/ };
  const fails = new RegExp(`${FAILS}|lost: socket hang up|503 .*`).source;
  const lossy = everywhere({
    http: new RegExp(`^(200 new-a:8080|${fails})$`),
    tcp: new RegExp(`^(new-a:9000|${fails})$`),
  });
  t.strictSame(findUnexpected(seen, { ...lossy, dns: ADDRESS }), [], 'meanwhile dials fail at once');
  await follow(t, { node, clients }, [
    { what: 'all is as before', run: settle, allowed: { ...everywhere(good), 'tcp 9000': good.tcp, long: good.tcp } },
  ]);
  await removeAll(a);
});

await t.test('the node ends in good order', async (t) => {
  await node.stop();
  t.pass();
});
