// The two directions of the status mapping, and that they fit each other.
import t from 'tap';
import {
  agentErrorFromStatus,
  GRPC_INTERNAL,
  GRPC_INVALID_ARGUMENT,
  GRPC_UNAVAILABLE,
  isRetryableStatus,
  statusFromError,
} from '../../../src/adapters/grpc/status-errors.ts';
import { AgentError, InputError, InternalError, RegistryError, StoreError } from '../../../src/core/errors.ts';

const SERVER = [
  { name: 'an unavailable agent', thrown: new AgentError('unavailable', 'x: y'), code: GRPC_UNAVAILABLE },
  { name: 'a rejection', thrown: new AgentError('rejected', 'x: y'), code: GRPC_INVALID_ARGUMENT },
  { name: 'a namespace that is gone', thrown: new AgentError('gone', 'x: y'), code: 5 },
  { name: 'a file of the agent', thrown: new AgentError('store', 'x: y'), code: 15 },
  { name: 'a failure', thrown: new AgentError('failed', 'x: y'), code: GRPC_INTERNAL },
  { name: 'wrong input', thrown: new InputError('pod', [{ path: 'a', message: 'b' }]), code: GRPC_INVALID_ARGUMENT },
  { name: 'a retryable store', thrown: new StoreError('x: y', { retryable: true }), code: GRPC_UNAVAILABLE },
  { name: 'a final registry error', thrown: new RegistryError('x: y'), code: GRPC_INTERNAL },
  { name: 'a defect', thrown: new InternalError('x: y', { retryable: true }), code: GRPC_INTERNAL },
  { name: 'a foreign throw', thrown: 'boom', code: GRPC_INTERNAL },
];
for (const { name, thrown, code } of SERVER) {
  t.test(`statusFromError() maps ${name}`, async (t) => {
    const status = statusFromError(thrown);
    t.equal(status.code, code);
    t.equal(status.details, thrown instanceof Error ? thrown.message : 'boom');
  });
}

t.test('statusFromError() cuts what would not fit the trailers', async (t) => {
  t.equal(statusFromError(new Error('x'.repeat(100_000))).details.length, 4000);
});

const CLIENT = [
  [1, 'unavailable', false],
  [2, 'failed', false],
  [3, 'rejected', false],
  [4, 'unavailable', true],
  [5, 'gone', false],
  [8, 'unavailable', false],
  [12, 'failed', false],
  [13, 'failed', false],
  [14, 'unavailable', true],
  [15, 'store', false],
  [16, 'failed', false],
] as const;
for (const [code, problem, retryable] of CLIENT) {
  t.test(`agentErrorFromStatus() reads status ${code} as ${problem}`, async (t) => {
    const status = Object.assign(new Error(`${code} NAME: why`), { code, details: 'why' });
    const error = agentErrorFromStatus(status, 'adding the pod');
    t.equal(error.problem, problem);
    t.match(error.message, /^adding the pod: .*why/);
    t.equal(error.cause, status);
    t.equal(isRetryableStatus(status), retryable);
  });
}

t.test('agentErrorFromStatus() says once what was attempted', async (t) => {
  const { message } = agentErrorFromStatus({ code: 3, details: 'adding the pod: ports: x' }, 'adding the pod');
  t.equal(message, 'adding the pod: ports: x');
});

t.test('agentErrorFromStatus() names a status without a sentence', async (t) => {
  t.match(agentErrorFromStatus({ code: 2, details: '' }, 'x').message, 'x: gRPC status 2');
});

t.test('agentErrorFromStatus() gives the reason alone where there was no connection', async (t) => {
  const details = 'No connection established. Last error: Error: connect ENOENT /run/x.sock. Resolution note: ';
  const { message } = agentErrorFromStatus({ code: 14, details }, 'adding the pod');
  t.equal(message, 'adding the pod: the node agent is not available (connect ENOENT /run/x.sock)');
});

t.test('agentErrorFromStatus() takes a foreign throw and passes its own kind', async (t) => {
  const own = new AgentError('rejected', 'x: y');
  t.equal(agentErrorFromStatus(own, 'z'), own);
  const foreign = agentErrorFromStatus(Object.assign(new Error('gone'), { code: 'ENOENT', details: 'd' }), 'z');
  t.equal(foreign.problem, 'failed');
  t.equal(foreign.message, 'z: gone');
  t.equal(isRetryableStatus(new Error('gone')), false);
});

t.test('a problem survives the way from server to client', async (t) => {
  for (const problem of ['unavailable', 'rejected', 'gone', 'store', 'failed'] as const) {
    t.equal(agentErrorFromStatus(statusFromError(new AgentError(problem, 'a: b')), 'x').problem, problem);
  }
});
