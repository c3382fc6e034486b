// ADD: order, answer, pass-through, and that a failure at any step leaves nothing behind.
import t from 'tap';
import {
  AgentAbsentError,
  AgentError,
  InternalError,
  KernelError,
  messageOf,
  NetnsError,
  StoreError,
} from '../../src/core/errors.ts';
import type { ContainerId } from '../../src/core/identifiers.ts';
import { type Effect, FakePluginNode } from '../support/fake-plugin-node.ts';
import { ANNOTATIONS_KEY, callPlugin, errorOf, PREV_RESULT } from '../support/plugin-call.ts';

const EMPTY = { pins: [], tables: [], records: [], queue: [], notes: [] };
const DONE = { pins: ['/pins/c1'], tables: ['/run/netns/a aether'], records: ['c1'], queue: [], notes: ['c1'] };
const ORDER: readonly Effect[] = ['assertUsable', 'claim', 'pin', 'addPod', 'replaceTable'];

t.test('addAttachment() takes a pod in, in order, and answers prevResult', async (t) => {
  const node = new FakePluginNode();
  const answer = await callPlugin(node, 'ADD');
  t.strictSame(answer, { stdout: `${JSON.stringify(PREV_RESULT)}\n`, stderr: '', exitCode: 0 });
  t.strictSame(node.calls, ORDER);
  t.strictSame(node.state, DONE);
});

t.test('addAttachment() tells the agent what it decided', async (t) => {
  const node = new FakePluginNode();
  const annotations = { 'aether.io/managed': 'true', other: 'x', 'capture.aether.io/exclude-outbound-ports': '80' };
  const config = {
    capture_redirect_all_default: true,
    exclude_outbound_ports: '81,9000-9010',
    exclude_outbound_ip_ranges: ['10.9.0.0/16'],
    proxy_ready: 'require',
    agent_timeout_ms: 700,
  };
  await callPlugin(node, 'ADD', { annotations, config });
  t.strictSame(node.requests, [
    {
      name: 'shop-0',
      namespace: 'demo',
      containerId: 'c1',
      networkNamespace: '/pins/c1',
      ips: ['10.1.2.3', 'fd00::3'],
      annotations: {
        'aether.io/managed': 'true',
        other: 'x',
        'capture.aether.io/redirect-all': 'true',
        'capture.aether.io/exclude-outbound-ports': '80-81,9000-9010',
        'capture.aether.io/exclude-outbound-ip-ranges': '10.9.0.0/16',
      },
      uid: 'u-1',
      timeoutMs: 700,
      proxyReady: 'require',
    },
  ]);
  const table = node.tables.get('/run/netns/a aether') ?? '';
  for (const part of ['80-81, 9000-9010', '10.9.0.0/16', 'meta l4proto tcp redirect to :18001']) {
    t.ok(table.includes(part), part);
  }
});

t.test('addAttachment() twice is the same as once (K033)', async (t) => {
  const node = new FakePluginNode();
  await callPlugin(node, 'ADD', {
    annotations: { 'aether.io/managed': 'true', 'capture.aether.io/redirect-all': 'true' },
  });
  const first = node.tables.get('/run/netns/a aether');
  t.equal((await callPlugin(node, 'ADD')).exitCode, 0);
  t.strictSame(node.state, DONE);
  t.not(node.tables.get('/run/netns/a aether'), first, 'the second configuration replaces the first');
});

t.test('addAttachment() of a container that has another namespace now leaves nothing in the one it had', async (t) => {
  for (const isPinned of [true, false]) {
    const config = { netns_pin_disabled: !isPinned };
    const node = new FakePluginNode();
    await callPlugin(node, 'ADD', { config });
    t.equal((await callPlugin(node, 'ADD', { config, env: { CNI_NETNS: '/run/netns/b' } })).exitCode, 0);
    t.strictSame(node.state, { ...DONE, pins: isPinned ? DONE.pins : [], tables: ['/run/netns/b aether'] });
    const refused = { CNI_CONTAINERID: 'c2', CNI_NETNS: '/run/netns/b' };
    await callPlugin(node, 'DEL', { config, env: refused });
    t.strictSame(node.state['tables'], ['/run/netns/b aether'], 'it is known where it is now');
    await callPlugin(node, 'DEL', { config, env: { CNI_NETNS: '/run/netns/b' } });
    t.strictSame(node.state, EMPTY);
  }
});

t.test('addAttachment() that fails or is ignored leaves nothing of an earlier one', async (t) => {
  const rejected = { 'aether.io/managed': 'true', 'endpoint.aether.io/ports': 'x' };
  for (const [annotations, exitCode] of [
    [rejected, 1],
    [{}, 0],
  ] as const) {
    const node = new FakePluginNode();
    await callPlugin(node, 'ADD');
    t.equal((await callPlugin(node, 'ADD', { annotations })).exitCode, exitCode);
    t.strictSame(node.state['tables'], [], 'no rule that leads to a proxy which has forgotten the pod');
    t.strictSame([node.state['pins'], node.state['notes']], [[], []]);
  }
});

t.test('addAttachment() leaves no rules where a container was that comes to the namespace of another', async (t) => {
  const node = new FakePluginNode();
  await callPlugin(node, 'ADD');
  const other = { CNI_CONTAINERID: 'c2', CNI_NETNS: '/run/netns/b' };
  await callPlugin(node, 'ADD', { env: other });
  const moved = { CNI_NETNS: '/run/netns/b' };
  t.match(errorOf(await callPlugin(node, 'ADD', { env: moved })), { code: 7, msg: /is the network namespace of/ });
  t.strictSame(node.state['tables'], ['/run/netns/b aether']);
  await callPlugin(node, 'DEL', { env: moved });
  const left = { pins: ['/pins/c2'], tables: ['/run/netns/b aether'], records: ['c2'], queue: [], notes: ['c2'] };
  t.strictSame(node.state, left);
});

t.test('addAttachment() without pins takes no rules of the container whose namespace it comes to', async (t) => {
  const node = new FakePluginNode();
  const config = { netns_pin_disabled: true };
  await callPlugin(node, 'ADD', { config });
  await callPlugin(node, 'ADD', { config, env: { CNI_CONTAINERID: 'c2', CNI_NETNS: '/run/netns/b' } });
  const moved = await callPlugin(node, 'ADD', { config, env: { CNI_NETNS: '/run/netns/b' } });
  t.match(errorOf(moved), { code: 7, msg: /is the network namespace of/ });
  t.ok(node.tables.has('/run/netns/b aether'));
});

t.test('addAttachment() without pins works in the namespace of the runtime', async (t) => {
  const node = new FakePluginNode();
  await callPlugin(node, 'ADD', { config: { netns_pin_disabled: true } });
  t.strictSame(node.state, { ...DONE, pins: [] });
  t.equal(node.requests[0]?.networkNamespace, '/run/netns/a');
});

t.test('addAttachment() hands on the warnings of the agent and of the annotations', async (t) => {
  const node = new FakePluginNode();
  node.warnings = ['the proxy was\nnot ready'];
  const annotations = { 'aether.io/managed': 'true', 'capture.aether.io/redirect-all': 'yes' };
  const { stderr, exitCode } = await callPlugin(node, 'ADD', { annotations });
  t.equal(exitCode, 0);
  t.match(stderr, /^aether-cni: the proxy was not ready\naether-cni: capture\.aether\.io\/redirect-all: is neither/);
});

const PASSING = [
  { name: 'a call without a namespace', env: { CNI_ARGS: 'K8S_POD_NAME=My_Container' } },
  { name: 'a call without arguments', env: { CNI_ARGS: undefined } },
  { name: 'an excluded namespace', env: { CNI_ARGS: 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=x' } },
  {
    name: 'a namespace excluded by configuration',
    env: { CNI_ARGS: 'K8S_POD_NAMESPACE=own;K8S_POD_NAME=x' },
    config: { excluded_namespaces: ['OWN'] },
  },
  {
    name: 'the agent (K039, K040)',
    env: { CNI_ARGS: 'K8S_POD_NAMESPACE=mesh;K8S_POD_NAME=agent-x' },
    config: { agent_pod: { namespace: 'mesh', name_prefix: 'agent-' }, excluded_namespaces: [] },
  },
];
for (const { name, env, config } of PASSING) {
  t.test(`addAttachment() lets ${name} pass before anything is touched`, async (t) => {
    const node = new FakePluginNode();
    const answer = await callPlugin(node, 'ADD', { env, ...(config === undefined ? {} : { config }) });
    t.equal(answer.exitCode, 0);
    t.strictSame(JSON.parse(answer.stdout), PREV_RESULT);
    t.strictSame(node.calls, []);
  });
}

for (const [managed, said] of [
  ['True', /aether\.io\/managed: only "true" takes a pod into the mesh, got "True"/],
  ['', /got ""/],
  ['false', /^$/],
  [undefined, /^$/],
] as const) {
  t.test(`addAttachment() of a pod with managed ${JSON.stringify(managed)} leaves it alone and says why`, async (t) => {
    const node = new FakePluginNode();
    const annotations = managed === undefined ? {} : { 'aether.io/managed': managed };
    const answer = await callPlugin(node, 'ADD', { annotations });
    t.equal(answer.exitCode, 0);
    t.match(answer.stderr, said);
    t.strictSame(node.state, EMPTY);
  });
}

t.test('addAttachment() leaves a pod alone that the agent ignores', async (t) => {
  for (const annotations of [{}, { 'capture.aether.io/exclude-outbound-ports': 'rubbish' }]) {
    const node = new FakePluginNode();
    const answer = await callPlugin(node, 'ADD', { annotations });
    t.equal(answer.exitCode, 0);
    t.strictSame(JSON.parse(answer.stdout), PREV_RESULT);
    t.strictSame(node.state, EMPTY);
    t.notOk(node.calls.includes('removePod'), 'the agent kept nothing');
  }
});

const FAILURES: readonly { readonly effect: Effect; readonly error: unknown; readonly code: number }[] = [
  { effect: 'assertUsable', error: new NetnsError('forbidden', '/n', 'x: y'), code: 100 },
  { effect: 'claim', error: new StoreError('x: y'), code: 5 },
  { effect: 'pin', error: new KernelError('x: y', 1, 'EPERM'), code: 102 },
  { effect: 'addPod', error: new AgentAbsentError('x: y'), code: 11 },
  { effect: 'addPod', error: new AgentError('unavailable', 'x: y'), code: 11 },
  { effect: 'addPod', error: new AgentError('rejected', 'x: y'), code: 7 },
  { effect: 'addPod', error: new AgentError('gone', 'x: y'), code: 3 },
  { effect: 'addPod', error: new AgentError('failed', 'x: y'), code: 101 },
  { effect: 'addPod', error: 'a text', code: 999 },
  { effect: 'replaceTable', error: new KernelError('x: y', 2, 'ENOENT'), code: 102 },
  { effect: 'replaceTable', error: new InternalError('x: y'), code: 999 },
];
for (const { effect, error, code } of FAILURES) {
  t.test(`addAttachment() undoes everything when ${effect} fails with ${String(error)}`, async (t) => {
    const node = new FakePluginNode();
    node.failures.set(effect, error);
    const answer = await callPlugin(node, 'ADD');
    t.equal(answer.exitCode, 1);
    t.match(errorOf(answer), { cniVersion: '1.1.0', code });
    t.strictSame(node.state, EMPTY);
    const isAsked = effect === 'replaceTable' || (effect === 'addPod' && !(error instanceof AgentAbsentError));
    t.equal(node.calls.includes('removePod'), isAsked, 'the agent is told if it may know');
  });
}

t.test('addAttachment() queues the removal when the agent goes away in the middle', async (t) => {
  const node = new FakePluginNode();
  node.failures.set('replaceTable', new KernelError('x: y', 1, 'EPERM'));
  node.failures.set('removePod', new AgentError('unavailable', 'x: y'));
  t.equal(errorOf(await callPlugin(node, 'ADD')).code, 102);
  t.strictSame(node.state, { ...EMPTY, records: ['c1'], queue: ['/queue/c1'] });
});

t.test('addAttachment() goes on undoing after errors, and answers the first', async (t) => {
  const node = new FakePluginNode();
  node.failures.set('replaceTable', new KernelError('first: y', 1, 'EPERM'));
  node.failures.set('destroyTable', new KernelError('second: y', 1, 'EPERM'));
  node.failures.set('unpin', new KernelError('third: y', 1, 'EPERM'));
  const answer = await callPlugin(node, 'ADD');
  t.match(errorOf(answer), { code: 102, msg: 'first: y' });
  t.match(answer.stderr, /second: y\n.*third: y/);
  t.strictSame(node.state, { ...EMPTY, pins: ['/pins/c1'] });
});

t.test('addAttachment() undoes everything when the call is no longer wanted', async (t) => {
  for (const [index, effect] of ORDER.slice(1).entries()) {
    const node = new FakePluginNode();
    const abort = new AbortController();
    const { calls } = node;
    const push = calls.push.bind(calls);
    calls.push = (...names) => {
      if (names.includes(effect)) abort.abort(new AgentError('unavailable', 'ADD: given up'));
      return push(...names);
    };
    const answer = await callPlugin(node, 'ADD', { signal: abort.signal });
    t.match(errorOf(answer), { code: 11, msg: 'ADD: given up' }, effect);
    t.strictSame(node.state, EMPTY, `${index}`);
  }
});

t.test('addAttachment() refuses a second interface and changes nothing', async (t) => {
  const node = new FakePluginNode();
  await callPlugin(node, 'ADD');
  const answer = await callPlugin(node, 'ADD', { env: { CNI_IFNAME: 'net1' } });
  t.match(errorOf(answer), { code: 7, msg: /CNI_IFNAME: the container is in the mesh with "eth0"/ });
  t.strictSame(node.state, DONE);
});

t.test('addAttachment() refuses before it touches anything', async (t) => {
  const cases = [
    {
      name: 'no prevResult (K008)',
      call: { config: { prevResult: undefined } },
      code: 7,
      msg: /prevResult: .*chained/,
    },
    { name: 'prevResult null (K005)', call: { config: { prevResult: null } }, code: 7, msg: /prevResult: .*chained/ },
    { name: 'prevResult {} (K005)', call: { config: { prevResult: {} } }, code: 7, msg: /prevResult: .*chained/ },
    {
      name: 'a bad port of the node',
      call: { config: { exclude_outbound_ports: '1,x' } },
      code: 7,
      msg: /exclude_outbound_ports\[1\]/,
    },
    {
      name: 'a reversed range',
      call: { config: { exclude_outbound_ports: '90-80' } },
      code: 7,
      msg: /exclude_outbound_ports\[0\]/,
    },
    {
      name: 'a bad annotation of a managed pod',
      call: {
        annotations: { 'aether.io/managed': 'true', 'capture.aether.io/exclude-outbound-ip-ranges': '10.0.0.0/33' },
      },
      code: 7,
      msg: /exclude-outbound-ip-ranges\[0\]/,
    },
    {
      name: 'bad annotations of both kinds',
      call: {
        annotations: {
          'aether.io/managed': 'true',
          'capture.aether.io/exclude-outbound-ports': '0',
          'endpoint.aether.io/ports': 'x',
          'endpoint.aether.io/weight': '-1',
        },
      },
      code: 7,
      msg: /exclude-outbound-ports\[0\].*aether\.io\/ports\[0\].*aether\.io\/weight: /,
    },
    {
      name: 'keys that are wrong in themselves and in what they say',
      call: { config: { exclude_outbound_ports: '0', log_level: 3 } },
      code: 7,
      msg: /log_level: .*exclude_outbound_ports\[0\]: /,
    },
    { name: 'no pod name', call: { env: { CNI_ARGS: 'K8S_POD_NAMESPACE=demo' } }, code: 4, msg: /K8S_POD_NAME/ },
  ];
  for (const { name, call, code, msg } of cases) {
    const node = new FakePluginNode();
    t.match(errorOf(await callPlugin(node, 'ADD', call)), { code, msg }, name);
    t.strictSame(node.calls, [], name);
  }
});

t.test('addAttachment() refuses a vanished namespace with code 3 and the host with 100 (K023, K035)', async (t) => {
  const node = new FakePluginNode();
  t.equal(errorOf(await callPlugin(node, 'ADD', { env: { CNI_NETNS: '/run/netns/gone' } })).code, 3);
  t.equal(errorOf(await callPlugin(node, 'ADD', { env: { CNI_NETNS: '/proc/1/ns/net' } })).code, 100);
  t.strictSame(node.state, EMPTY);
  t.strictSame(node.calls, ['assertUsable', 'assertUsable']);
});

t.test(
  'addAttachment() answers what it finds at the namespace in its own words, whatever the agent makes of it',
  async (t) => {
    const node = new FakePluginNode();
    const { pods } = node.deps;
    const addPod: typeof pods.addPod = (pod, options) =>
      pods.addPod(pod, options).catch((cause) => {
        throw new AgentError('failed', `adding the pod: ${messageOf(cause)}`, { cause });
      });
    node.deps = { ...node.deps, pods: { ...pods, addPod } };
    t.match(errorOf(await callPlugin(node, 'ADD', { env: { CNI_NETNS: '/proc/1/ns/net' } })), {
      code: 100,
      msg: /^work/,
    });
    t.equal((await callPlugin(node, 'ADD')).exitCode, 0);
    const second = await callPlugin(node, 'ADD', { env: { CNI_IFNAME: 'net1' } });
    t.match(errorOf(second), { code: 7, msg: /^adding an interface: CNI_IFNAME/ });
  },
);

t.test('addAttachment() takes a pod whose mistakes the agent rejects back out', async (t) => {
  const node = new FakePluginNode();
  const annotations = { 'aether.io/managed': 'true', 'endpoint.aether.io/ports': '0,x=tcp' };
  t.match(errorOf(await callPlugin(node, 'ADD', { annotations })), { code: 7, msg: /ports\[0\].*ports\[1\]/ });
  t.strictSame(node.state, EMPTY);
});

t.test('addAttachment() answers in the version of the configuration', async (t) => {
  const node = new FakePluginNode();
  const { stdout } = await callPlugin(node, 'ADD', { config: { cniVersion: '0.4.0' } });
  t.match(JSON.parse(stdout), {
    cniVersion: '0.4.0',
    ips: [{ version: '4' }, { version: '6' }],
    vendor: { kept: [1] },
  });
  t.equal(
    errorOf(await callPlugin(node, 'ADD', { config: { cniVersion: '0.4.0', log_level: 'x' } })).cniVersion,
    '0.4.0',
  );
});

t.test('no secret of the configuration reaches a message', async (t) => {
  const secret = 's3cr3t-t0ken';
  const stdins = [
    `{"cniVersion":"1.0.0","name":"n","password":"${secret}",`,
    `{"cniVersion":"1.0.0","name":"n","password":"${secret}" "x":1}`,
    `{"cniVersion":"1.0.0","name":"n","log_level":{"token":"${secret}"},"${secret.slice(0, 4)}":"${secret}"}`,
    `{"cniVersion":"1.0.0","name":"n","${ANNOTATIONS_KEY}":"${secret}","args":{"x":"${secret}"}}`,
    `{"cniVersion":{"v":"${secret}"}}`,
    `["${secret}"]`,
  ];
  for (const stdin of stdins) {
    const node = new FakePluginNode();
    const { stdout, stderr } = await callPlugin(node, 'ADD', { stdin });
    t.notMatch(stdout + stderr + JSON.stringify(node.log.entries), secret, stdin);
    t.ok(JSON.parse(stdout).code > 0);
  }
});

t.test('addAttachment() again after a kill refuses a namespace that is taken, and leaves its rules', async (t) => {
  const node = new FakePluginNode();
  await callPlugin(node, 'ADD');
  const before = node.state;
  const containerId = 'c2' as ContainerId;
  node.notes.set(containerId, { containerId, ifname: 'eth0', network: 'net' });
  const answer = await callPlugin(node, 'ADD', { env: { CNI_CONTAINERID: 'c2' } });
  t.match(errorOf(answer), { code: 7, msg: /the network namespace of container "c1"/ });
  t.strictSame(node.state, before);
});

t.test('addAttachment() that a DEL overtook takes its table away though the pin is gone', async (t) => {
  const node = new FakePluginNode();
  const { rules } = node.deps;
  const replaceTable: typeof rules.replaceTable = async (...args) => {
    await rules.replaceTable(...args);
    node.tables.set('/run/netns/a aether_mesh', '');
    node.pins.clear();
    throw new KernelError('replacing the table: interrupted', 4, 'EINTR');
  };
  node.deps = { ...node.deps, rules: { ...rules, replaceTable } };
  t.equal((await callPlugin(node, 'ADD')).exitCode, 1);
  t.strictSame(node.state, EMPTY);
});
