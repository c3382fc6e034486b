// Bad input of any kind ends with exactly one JSON error, the right code, every problem named by its path, no stack trace, and
// no change; DEL with the same input ends well. The whole matrix in-process; a part of it through real processes is in
// bad-input-process.test.ts. K005, K019, K021, K023, K035.
import t, { type Test } from 'tap';
import type { CniAnswer } from '../../src/plugin/dispatch.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { badConfigsOf, KEYS, withDuplicate } from '../support/hostile-matrix.ts';
import { callPlugin, type PluginCall, PREV_RESULT } from '../support/plugin-call.ts';

const REFUSING = ['ADD', 'CHECK', 'GC', 'STATUS'] as const;
const ATTACHMENT_VARIABLES = ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME'] as const;
const VALID = 'cni.dev/valid-attachments';

t.setTimeout(120_000);

/** What a verb needs to be a good call. */
const goodConfig = (verb: string) => (verb === 'GC' ? { [VALID]: [] } : {});

/** What is not as it must be; '' is a good error. */
function describeFlaws(answer: CniAnswer, expected: { readonly code: number; readonly paths: readonly string[] }) {
  const { stdout, stderr, exitCode } = answer;
  const object = JSON.parse(stdout) as Record<string, unknown>;
  const said = `${String(object['msg'])} ${String(object['details'])}`;
  const problems = [
    exitCode === 1 ? '' : `exit code ${exitCode}`,
    stdout.indexOf('\n') === stdout.length - 1 ? '' : 'not one line',
    object['code'] === expected.code ? '' : `code ${String(object['code'])}: ${said}`,
    /^(0\.3\.[01]|0\.4\.0|1\.[01]\.0)$/.test(String(object['cniVersion'])) ? '' : 'no version',
    ...expected.paths.map((path) => (said.includes(path) ? '' : `${path} is not named: ${said}`)),
    /\n\s*at |\.(ts|js|cjs):\d/.test(stdout + stderr) ? 'a stack trace' : '',
    /^(aether-cni: [^\n]+\n)*$/.test(stderr) ? '' : 'stderr is no list of sentences',
  ];
  return problems.filter((problem) => problem !== '').join(', ');
}

/** Refused by every verb that reads it, with nothing touched; DEL ends well. */
async function checkRefused(
  t: Test,
  what: string,
  call: PluginCall,
  expected: { readonly code: number; readonly paths: readonly string[]; readonly verbs?: readonly string[] },
): Promise<void> {
  for (const verb of expected.verbs ?? REFUSING) {
    const node = new FakePluginNode();
    const answer = await callPlugin(node, verb, { ...call, config: { ...goodConfig(verb), ...call.config } });
    t.equal(describeFlaws(answer, expected), '', `${verb}: ${what}`);
    t.strictSame(node.calls, [], `${verb}: ${what}: nothing was touched`);
  }
  await checkDeleted(t, what, call);
}

async function checkDeleted(t: Test, what: string, call: PluginCall): Promise<void> {
  const { stdout, exitCode, stderr } = await callPlugin(new FakePluginNode(), 'DEL', call);
  t.strictSame([exitCode, stdout], [0, ''], `DEL: ${what}`);
  t.notMatch(stderr, /\n\s*at /);
}

t.test('the calls that are spoilt below are good ones', async (t) => {
  for (const verb of ['ADD', 'CHECK', 'DEL', 'GC', 'STATUS']) {
    const node = new FakePluginNode();
    await callPlugin(node, 'ADD');
    const answer = await callPlugin(node, verb, { config: goodConfig(verb) });
    t.strictSame([answer.exitCode, answer.stderr], [0, ''], `${verb} ${answer.stdout}`);
  }
});

t.test('each variable missing, empty and malformed, for each verb', async (t) => {
  const malformed: Readonly<Record<string, readonly string[]>> = {
    CNI_CONTAINERID: ['../x', 'a b', '-x', 'x'.repeat(300), 'a\nb', 'é'],
    CNI_NETNS: ['run/netns/a', '/a\u0000b', `/${'x'.repeat(5000)}`],
    CNI_IFNAME: ['a/b', 'a:b', 'a b', '..', 'sixteen-letters-', 'a\n', '\u0007'],
    CNI_ARGS: [
      'K8S_POD_NAMESPACE=../x',
      'K8S_POD_NAMESPACE=a;K8S_POD_NAME=A/B',
      'novalue',
      '=x',
      'K8S_POD_NAMESPACE=A',
    ],
  };
  for (const variable of ATTACHMENT_VARIABLES) {
    for (const value of [undefined, '', ...(malformed[variable] ?? [])]) {
      const what = `${variable} ${JSON.stringify(value)}`;
      await checkRefused(
        t,
        what,
        { env: { [variable]: value } },
        { code: 4, paths: [variable], verbs: ['ADD', 'CHECK'] },
      );
    }
  }
  for (const value of malformed['CNI_ARGS'] ?? []) {
    await checkRefused(
      t,
      value,
      { env: { CNI_ARGS: value } },
      { code: 4, paths: ['CNI_ARGS'], verbs: ['ADD', 'CHECK'] },
    );
  }
  const env = Object.fromEntries(ATTACHMENT_VARIABLES.map((variable) => [variable, undefined]));
  await checkRefused(t, 'all', { env }, { code: 4, paths: ATTACHMENT_VARIABLES, verbs: ['ADD', 'CHECK'] });
  for (const verb of ['GC', 'STATUS', 'VERSION']) {
    const answer = await callPlugin(new FakePluginNode(), verb, {
      env: { ...env, CNI_ARGS: undefined },
      config: goodConfig(verb),
    });
    t.equal(answer.exitCode, 0, `${verb} needs none of them`);
  }
  for (const command of [undefined, '', 'add', 'ADD ', 'FROB', 'x'.repeat(10_000)]) {
    const node = new FakePluginNode();
    const answer = await callPlugin(node, 'ADD', { env: { CNI_COMMAND: command } });
    t.equal(describeFlaws(answer, { code: 4, paths: ['CNI_COMMAND'] }), '', `CNI_COMMAND ${command?.slice(0, 9)}`);
    t.strictSame(node.calls, []);
  }
});

for (const key of Object.keys(KEYS)) {
  t.test(`K019 ${key} with each wrong type, each impossible value, and given twice`, async (t) => {
    for (const { what, value, path } of badConfigsOf(key)) {
      // The version is read by itself, before everything else.
      await checkRefused(
        t,
        `${key} ${what}`,
        { config: { [key]: value } },
        { code: 7, paths: [path], ...verbsFor(key) },
      );
    }
    const full = { cniVersion: '1.1.0', name: 'net', prevResult: PREV_RESULT, [VALID]: [] };
    await checkRefused(t, 'twice', { stdin: withDuplicate(full, key) }, { code: 7, paths: [`${key}: is given twice`] });
  });
}

/** What concerns capture alone is read by the verbs that program it. */
function verbsFor(key: string): { readonly verbs?: readonly string[] } {
  return key.startsWith('exclude_outbound_') ? { verbs: ['ADD'] } : {};
}

t.test('K019 many mistakes at once are all named', async (t) => {
  const config = {
    agent_timeout_ms: 'soon',
    log_level: 'loud',
    host_ip: 7,
    excluded_namespaces: [1, 'ok', ''],
    agent_pod: { namespace: [] },
    netns_pin_dir: 'here',
  };
  const paths = ['agent_timeout_ms', 'log_level', 'host_ip', 'excluded_namespaces[0]', 'excluded_namespaces[2]'];
  await checkRefused(t, 'six', { config }, { code: 7, paths: [...paths, 'agent_pod.namespace', 'netns_pin_dir'] });
});

/** A sample with every key, several bytes a letter, escapes and numbers. */
const SAMPLE = new TextEncoder().encode(
  JSON.stringify(
    {
      cniVersion: '1.1.0',
      ...Object.fromEntries(Object.entries(KEYS).map(([key, { good }]) => [key, Object.values(good)[0]])),
      prevResult: { ...PREV_RESULT, vendor: { text: 'aé€😀"\\\n', number: -1.5e-7 } },
      runtimeConfig: { 'io.kubernetes.cri.pod-annotations': { 'aether.io/managed': 'true' } },
    },
    null,
    1,
  ),
);

t.test('JSON cut at every byte of a sample', async (t) => {
  const whole = await callPlugin(new FakePluginNode(), 'ADD', { bytes: SAMPLE });
  t.equal(whole.exitCode, 0, whole.stdout);
  let wrong = 0;
  for (let length = 0; length < SAMPLE.length; length++) {
    const bytes = SAMPLE.subarray(0, length);
    for (const verb of REFUSING) {
      const node = new FakePluginNode();
      const problem = describeFlaws(await callPlugin(node, verb, { bytes }), { code: 6, paths: ['decoding'] });
      if (problem === '' && node.calls.length === 0) continue;
      wrong++;
      t.fail(`${verb} cut at ${length}: ${problem} ${node.calls.join()}`);
    }
    const del = await callPlugin(new FakePluginNode(), 'DEL', { bytes });
    if (del.exitCode !== 0 || del.stdout !== '') t.fail(`DEL cut at ${length}: ${del.stdout}`);
  }
  t.equal(wrong, 0, `${SAMPLE.length} lengths`);
});

t.test('every byte of a sample replaced', async (t) => {
  for (let at = 0; at < SAMPLE.length; at++) {
    for (const replacement of [0x00, 0x22, 0x7d, 0xff]) {
      const bytes = Uint8Array.from(SAMPLE);
      bytes[at] = replacement;
      const node = new FakePluginNode();
      const answer = await callPlugin(node, 'ADD', { bytes });
      if (answer.exitCode === 0) continue;
      const { code } = JSON.parse(answer.stdout) as { code: number };
      const problem = describeFlaws(answer, { code, paths: [] });
      // A cniVersion that is none, a key or value that is none, no JSON at all; and a call that the agent refuses is undone.
      if (problem !== '' || ![1, 6, 7].includes(code)) t.fail(`byte ${at} as ${replacement}: ${code} ${problem}`);
      if (Object.values(node.state).some((left) => left.length > 0))
        t.fail(`byte ${at}: ${JSON.stringify(node.state)}`);
    }
  }
  t.pass(`${SAMPLE.length} bytes`);
});

const MIB = 1024 * 1024;
const WHOLES: readonly { readonly what: string; readonly stdin: () => string; readonly code: number }[] = [
  { what: 'nothing', stdin: () => '', code: 6 },
  { what: 'blanks', stdin: () => ' \n\t', code: 6 },
  ...['null', 'true', '7', '"text"', '[]', '[{}]'].map((stdin) => ({ what: stdin, stdin: () => stdin, code: 6 })),
  { what: '5 MB of blanks', stdin: () => ' '.repeat(5 * MIB), code: 6 },
  { what: '5 MB of garbage', stdin: () => '\u0001'.repeat(5 * MIB), code: 6 },
  { what: '5 MB of good JSON', stdin: () => `{"name":"net","x":"${'y'.repeat(5 * MIB)}"}`, code: 6 },
  { what: '3 MB of brackets', stdin: () => '['.repeat(3 * MIB), code: 6 },
  { what: 'two documents', stdin: () => '{"name":"net"}{"name":"net"}', code: 6 },
  { what: 'a byte order mark', stdin: () => '\ufeff{', code: 6 },
  { what: 'an empty object', stdin: () => '{}', code: 1 },
];
for (const { what, stdin, code } of WHOLES) {
  t.test(`${what} as a configuration`, async (t) => {
    await checkRefused(t, what, { stdin: stdin() }, { code, paths: [] });
  });
}

t.test('K005 prevResult null, {} and missing', async (t) => {
  for (const prevResult of [null, {}, undefined]) {
    const expected = { code: 7, paths: ['prevResult', 'chained'], verbs: ['ADD'] };
    await checkRefused(t, JSON.stringify(prevResult) ?? 'missing', { config: { prevResult } }, expected);
  }
});

t.test('K021 CHECK with little to go by', async (t) => {
  for (const config of [
    { runtimeConfig: undefined },
    { prevResult: {} },
    { prevResult: { cniVersion: '1.1.0' } },
    { prevResult: null },
  ]) {
    const { stdout, exitCode } = await callPlugin(new FakePluginNode(), 'CHECK', { config });
    if (exitCode === 0) t.equal(stdout, '');
    else t.match(JSON.parse(stdout), { code: Number });
  }
});

const BAD_ANNOTATIONS: readonly { readonly annotation: string; readonly values: readonly string[] }[] = [
  { annotation: 'endpoint.aether.io/port', values: ['', '0', '65536', '-1', '8080 8081', '0x50', '8080=tcp', 'é'] },
  {
    annotation: 'endpoint.aether.io/ports',
    values: ['0', '9000=', '9000=udp', '80=tcp,80=h2', '18082=tcp', '1=2=3', 'x'.repeat(5000)],
  },
  { annotation: 'endpoint.aether.io/protocol', values: ['udp', 'HTTP', ' http'] },
  { annotation: 'endpoint.aether.io/weight', values: ['-1', 'x', '1.5', '99999999999'] },
  { annotation: 'capture.aether.io/exclude-outbound-ports', values: ['0', '70000', '9-1', 'a; flush ruleset'] },
  { annotation: 'capture.aether.io/exclude-outbound-ip-ranges', values: ['10/8', '1.2.3.4/40', '"; accept', '::/200'] },
  { annotation: 'aether.io/service-account', values: ['../x', 'A', 'a/b', 'x'.repeat(300)] },
];
for (const { annotation, values } of BAD_ANNOTATIONS) {
  t.test(`a managed pod with a bad ${annotation}`, async (t) => {
    for (const value of values) {
      const node = new FakePluginNode();
      const answer = await callPlugin(node, 'ADD', {
        annotations: { 'aether.io/managed': 'true', [annotation]: value },
      });
      t.equal(describeFlaws(answer, { code: 7, paths: [annotation] }), '', value.slice(0, 40));
      t.ok(
        Object.values(node.state).every((left) => left.length === 0),
        'nothing is left',
      );
    }
  });
}
