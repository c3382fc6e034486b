// What people read of an errno: its name, whether to try again, the module that is missing, the step into a namespace that
// failed. No kernel is asked.
import t from 'tap';
import { ABI } from '../../../src/adapters/kernel/abi.ts';
import { errnoName, kernelError } from '../../../src/adapters/kernel/errno.ts';
import { missingModule, netnsStageError } from '../../../src/adapters/kernel/netns-error.ts';

t.test('errnoName() knows the common name of each number', (t) => {
  t.strictSame([1, 2, 11, 17, 22, 95, 4711].map(errnoName), [
    'EPERM',
    'ENOENT',
    'EAGAIN',
    'EEXIST',
    'EINVAL',
    'EOPNOTSUPP',
    'errno 4711',
  ]);
  t.end();
});

t.test('kernelError() is retryable where the errno says so', (t) => {
  t.match(kernelError('do', 11), { message: 'do: EAGAIN', errno: 11, errnoName: 'EAGAIN', retryable: true });
  t.match(kernelError('do', 2, 'kernel lacks nft_redir'), {
    message: 'do: kernel lacks nft_redir (ENOENT)',
    retryable: false,
  });
  t.end();
});

t.test('missingModule() reads a refusal as a missing module only for the errno that means it', (t) => {
  t.equal(missingModule(2, 'nft_redir'), 'kernel lacks nft_redir');
  t.equal(missingModule(95, 'nf_tables'), 'kernel lacks nf_tables');
  t.equal(missingModule(22, 'nft_redir'), undefined);
  t.equal(missingModule(2, undefined), undefined);
  t.end();
});

const STAGES: readonly (readonly [stage: number, errno: number, want: object])[] = [
  [ABI.AE_STAGE_OPEN, 2, { code: 'E_NETNS', problem: 'missing' }],
  [ABI.AE_STAGE_OPEN, 13, { code: 'E_KERNEL', errnoName: 'EACCES' }],
  [ABI.AE_STAGE_NOT_NETNS, 22, { code: 'E_NETNS', problem: 'not-a-namespace' }],
  [ABI.AE_STAGE_FORBIDDEN, 1, { code: 'E_NETNS', problem: 'forbidden' }],
  [ABI.AE_STAGE_ENTER, 1, { code: 'E_KERNEL', message: /: enter: EPERM$/ }],
  [ABI.AE_STAGE_SOCKET, 93, { code: 'E_KERNEL', message: /kernel lacks nfnetlink \(EPROTONOSUPPORT\)$/ }],
  [ABI.AE_STAGE_SEND, 90, { code: 'E_KERNEL', message: /: send: EMSGSIZE$/ }],
  [ABI.AE_STAGE_RECEIVE, 105, { code: 'E_KERNEL', retryable: true }],
];

for (const [stage, errno, want] of STAGES) {
  t.test(`netnsStageError() names stage ${stage} with errno ${errno}`, (t) => {
    t.match(netnsStageError('work', '/run/netns/x', { stage, errno }), want);
    t.match(
      netnsStageError('work', '/run/netns/x', { stage, errno }).message,
      'work in network namespace "/run/netns/x"',
    );
    t.end();
  });
}
