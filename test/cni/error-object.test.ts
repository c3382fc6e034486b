// Everything thrown has one code; messages hold no stack.
import fc from 'fast-check';
import t from 'tap';
import { CniError, formatErrorObject, toErrorObject } from '../../src/cni/error-object.ts';
import {
  AgentError,
  DecodeError,
  EnvironmentError,
  IdentityError,
  InputError,
  InternalError,
  KernelError,
  NativeError,
  NetnsError,
  RegistryError,
  StoreError,
  VersionError,
} from '../../src/core/errors.ts';

const PROBLEM = [{ path: 'a.b', message: 'must be x' }];
const CASES: readonly { readonly name: string; readonly thrown: unknown; readonly code: number }[] = [
  { name: 'a version', thrown: new VersionError('x: y', ['1.0.0']), code: 1 },
  { name: 'a vanished namespace', thrown: new NetnsError('missing', '/n', 'x: y'), code: 3 },
  { name: 'a file that is no namespace', thrown: new NetnsError('not-a-namespace', '/n', 'x: y'), code: 4 },
  { name: 'the environment', thrown: new EnvironmentError(PROBLEM), code: 4 },
  { name: 'a file of ours', thrown: new StoreError('x: y'), code: 5 },
  { name: 'text that is no JSON', thrown: new DecodeError('x: y'), code: 6 },
  { name: 'the configuration', thrown: new InputError('x', PROBLEM), code: 7 },
  { name: "the agent's word that the namespace is gone", thrown: new AgentError('gone', 'x: y'), code: 3 },
  { name: 'a rejection by the agent', thrown: new AgentError('rejected', 'x: y'), code: 7 },
  { name: 'an absent agent', thrown: new AgentError('unavailable', 'x: y'), code: 11 },
  { name: 'a busy kernel', thrown: new KernelError('x: y', 11, 'EAGAIN', { retryable: true }), code: 11 },
  { name: 'the host namespace', thrown: new NetnsError('forbidden', '/n', 'x: y'), code: 100 },
  { name: 'a file of the agent', thrown: new AgentError('store', 'x: y'), code: 5 },
  { name: 'a failing agent', thrown: new AgentError('failed', 'x: y'), code: 101 },
  { name: 'a refusing kernel', thrown: new KernelError('x: y', 1, 'EPERM'), code: 102 },
  { name: 'missing libraries', thrown: new NativeError('x: y'), code: 103 },
  { name: 'the registry', thrown: new RegistryError('x: y'), code: 104 },
  { name: 'an identity', thrown: new IdentityError('x: y'), code: 105 },
  { name: 'an error that knows its code', thrown: new CniError(50, 'x: y'), code: 50 },
  { name: 'several', thrown: new AggregateError([new StoreError('x: y'), 1], 'x: y'), code: 5 },
  { name: 'several of nothing', thrown: new AggregateError([], 'x: y'), code: 999 },
  { name: 'a defect', thrown: new InternalError('x: y'), code: 999 },
  { name: 'a TypeError', thrown: new TypeError('x is not a function'), code: 999 },
  { name: 'a text', thrown: 'boom', code: 999 },
  { name: 'nothing', thrown: undefined, code: 999 },
];
for (const { name, thrown, code } of CASES) {
  t.test(`toErrorObject() gives ${name} code ${code}`, async (t) => {
    const object = toErrorObject(thrown, '0.4.0');
    t.equal(object.code, code);
    t.equal(object.cniVersion, '0.4.0');
    t.ok(object.msg.length > 0);
    t.notMatch(formatErrorObject(object), /\bat .*\.ts:/);
  });
}

t.test('toErrorObject() lists the supported versions', async (t) => {
  t.match(toErrorObject(new VersionError('x: y', ['1.0.0', '1.1.0'])).details, '1.0.0, 1.1.0');
});

t.test('toErrorObject() adds causes that say more, and the name of an errno', async (t) => {
  const cause = new Error('outer', { cause: new Error('inner') });
  const object = toErrorObject(new KernelError('adding rules: refused', 2, 'ENOENT', { cause }));
  t.equal(object.details, 'E_KERNEL; ENOENT; outer; inner');
  t.equal(toErrorObject(new StoreError('x: why', { cause: new Error('why') })).details, 'E_STORE');
});

t.test('toErrorObject() says what to do about an agent that is away, without the words of gRPC', async (t) => {
  const cause = new Error(
    '14 UNAVAILABLE: No connection established. Last error: Error: connect ENOENT /a. Resolution note: ',
  );
  const { details } = toErrorObject(new AgentError('unavailable', 'adding the pod: no agent (ENOENT /a)', { cause }));
  t.equal(details, 'E_AGENT; "aether-cni check" on the node says what to do');
});

t.test('toErrorObject() ends in no blank, which a gRPC trailer would lose the whole text for', async (t) => {
  const { msg, details } = toErrorObject(new StoreError('x: y ', { cause: new Error('note: ') }));
  t.same([msg, details], ['x: y', 'E_STORE; note:']);
});

t.test('toErrorObject() ends with causes that go round', async (t) => {
  const error = new Error('a');
  error.cause = error;
  t.equal(toErrorObject(error).code, 999);
});

t.test('formatErrorObject() prints one line of JSON for whatever is thrown', async (t) => {
  fc.assert(
    fc.property(fc.anything(), fc.string({ unit: 'binary', maxLength: 20_000 }), (thrown, text) => {
      for (const value of [thrown, new Error(text), new StoreError(text)]) {
        const printed = formatErrorObject(toErrorObject(value));
        t.match(JSON.parse(printed), { cniVersion: '1.1.0', code: Number, msg: String, details: String });
        t.equal(printed.indexOf('\n'), printed.length - 1);
      }
    }),
    { numRuns: 100 },
  );
});
