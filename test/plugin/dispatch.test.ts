// One answer for every call: verbs, versions, what is read when, failures of the parts.
import fc from 'fast-check';
import t from 'tap';
import { StoreError } from '../../src/core/errors.ts';
import { answerCall } from '../../src/plugin/dispatch.ts';
import { FakePluginNode } from '../support/fake-plugin-node.ts';
import { callPlugin, errorOf } from '../support/plugin-call.ts';

const never = async (): Promise<never> => {
  throw new Error('must not be called');
};

t.test('answerCall() answers VERSION without stdin and deps', async (t) => {
  const answer = await answerCall({ env: { CNI_COMMAND: 'VERSION' }, readStdin: never }, never);
  t.match(JSON.parse(answer.stdout), {
    cniVersion: '1.1.0',
    supportedVersions: ['0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'],
  });
  t.equal(answer.exitCode, 0);
});

t.test('answerCall() looks at the variables before stdin', async (t) => {
  for (const env of [{}, { CNI_COMMAND: 'X' }, { CNI_COMMAND: 'ADD' }, { CNI_COMMAND: 'CHECK', CNI_IFNAME: 'a' }]) {
    const answer = await answerCall({ env, readStdin: never }, never);
    t.match(errorOf(answer), { code: 4 });
    t.equal(answer.exitCode, 1);
  }
});

t.test('answerCall() gives code 5 when stdin cannot be read', async (t) => {
  const readStdin = async (): Promise<never> => {
    throw new StoreError('reading stdin: gone');
  };
  t.equal(errorOf(await answerCall({ env: { CNI_COMMAND: 'STATUS' }, readStdin }, never)).code, 5);
  const answer = await answerCall({ env: { CNI_COMMAND: 'DEL' }, readStdin }, async () => new FakePluginNode().deps);
  t.match(answer, { exitCode: 0, stdout: '' });
});

t.test('answerCall() answers when the deps cannot be opened', async (t) => {
  const readStdin = async () => new TextEncoder().encode('{"cniVersion":"1.1.0","name":"n"}');
  t.equal(errorOf(await answerCall({ env: { CNI_COMMAND: 'GC' }, readStdin }, never)).code, 999);
  t.match(await answerCall({ env: { CNI_COMMAND: 'DEL' }, readStdin }, never), {
    exitCode: 0,
    stdout: '',
    stderr: /must not/,
  });
});

const MATRIX: readonly (readonly [string, string, boolean])[] = [
  ['ADD', '0.2.0', false],
  ['ADD', '0.3.0', true],
  ['ADD', '1.2.0', false],
  ['CHECK', '0.3.1', false],
  ['CHECK', '0.4.0', true],
  ['GC', '1.0.0', false],
  ['GC', '1.1.0', true],
  ['STATUS', '1.0.0', false],
  ['STATUS', '1.1.0', true],
];
for (const [verb, cniVersion, fits] of MATRIX) {
  t.test(`answerCall() ${fits ? 'takes' : 'refuses'} ${verb} with ${cniVersion}`, async (t) => {
    const answer = await callPlugin(new FakePluginNode(), verb, { config: { cniVersion }, annotations: {} });
    t.equal(answer.exitCode, fits ? 0 : 1);
    if (!fits) t.match(errorOf(answer), { code: 1, details: /supported: / });
  });
}

t.test('answerCall() needs no container for GC and STATUS (K017)', async (t) => {
  const env = { CNI_CONTAINERID: undefined, CNI_NETNS: undefined, CNI_IFNAME: undefined, CNI_ARGS: undefined };
  for (const verb of ['GC', 'STATUS']) {
    t.match(await callPlugin(new FakePluginNode(), verb, { env }), { exitCode: 0, stdout: '' });
  }
});

t.test('answerCall() warns of unknown keys, but not without end', async (t) => {
  const config = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`key${i}`, i]));
  const { stderr } = await callPlugin(new FakePluginNode(), 'ADD', { config });
  t.match(stderr, /^aether-cni: key0: is not a key of this plugin\n/);
  t.equal(stderr.split('\n').length, 22);
  t.match(stderr, /and 30 more/);
});

t.test('answerCall() gives one JSON document or nothing for any input', async (t) => {
  const text = fc.string({ unit: 'binary' });
  const verb = fc.constantFrom('ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION', 'X', undefined);
  const stdin = fc.oneof(text, fc.json(), fc.constant('{"cniVersion":"1.1.0","name":"n"}'));
  await fc.assert(
    fc.asyncProperty(verb, stdin, text, text, async (command, input, id, args) => {
      const env = { CNI_COMMAND: command, CNI_CONTAINERID: id, CNI_ARGS: args };
      const { stdout, exitCode } = await callPlugin(new FakePluginNode(), 'X', { env, stdin: input });
      if (exitCode === 1) t.type(JSON.parse(stdout).code, 'number');
      else if (command === 'VERSION') t.ok(JSON.parse(stdout));
      else t.equal(stdout, '');
      if (command === 'DEL') t.equal(exitCode, 0);
    }),
    { numRuns: 300 },
  );
});
