// Certificates over days, on a clock moved by hand, from a fake authority that can fail: renewed in time, the old one kept
// where that fails, and no key in the log.
import t from 'tap';
import { CertificateKeeper } from '../../src/agent/certificate-keeper.ts';
import type { CertificateAuthority } from '../../src/agent/deps.ts';
import { IdentityError } from '../../src/core/errors.ts';
import { TestClock } from '../support/agent-world.ts';
import { RecordingLog } from '../support/recording-log.ts';

const A = 'spiffe://td/ns/demo/sa/a';
const B = 'spiffe://td/ns/demo/sa/b';
const HOUR_MS = 3600_000;

function make() {
  const clock = new TestClock();
  const log = new RecordingLog();
  let serial = 0;
  const state = { fails: false, changes: 0 };
  const authority: CertificateAuthority = {
    trustBundlePem: 'bundle',
    issue: async (identity) => {
      if (state.fails) throw new IdentityError('issuing a certificate: no entropy');
      const renewAt = new Date(clock.now().getTime() + 12 * HOUR_MS);
      return { identity, certificateChainPem: `certificate ${++serial}`, privateKeyPem: 'SECRET', renewAt };
    },
  };
  const keeper = new CertificateKeeper({ authority, clock, log, onChange: () => state.changes++ });
  const settle = () => new Promise((resolve) => setTimeout(resolve, 2));
  return { clock, log, keeper, state, settle };
}

t.test('ensure() issues once for an identity, and renews in time', async (t) => {
  const { keeper, clock, state, settle } = make();
  await keeper.ensure(B);
  await keeper.ensure(A);
  await keeper.ensure(A);
  t.match(keeper.list(), [
    { identity: A, certificateChainPem: 'certificate 2' },
    { identity: B, certificateChainPem: 'certificate 1' },
  ]);
  t.notOk('renewAt' in (keeper.list()[0] ?? {}));
  const [before] = keeper.list();
  t.equal(keeper.list()[0], before, 'unchanged, the same object');
  clock.advance(12 * HOUR_MS - 1);
  await settle();
  t.equal(state.changes, 0);
  clock.advance(1);
  await settle();
  t.equal(state.changes, 2);
  t.strictSame(
    keeper
      .list()
      .map((one) => one.certificateChainPem)
      .sort(),
    ['certificate 3', 'certificate 4'],
  );
});

t.test('a renewal that fails keeps the old certificate and is tried again', async (t) => {
  const { keeper, clock, state, settle, log } = make();
  await keeper.ensure(A);
  state.fails = true;
  clock.advance(12 * HOUR_MS);
  await settle();
  t.match(keeper.list(), [{ certificateChainPem: 'certificate 1' }]);
  state.fails = false;
  clock.advance(1000);
  await settle();
  t.match(keeper.list(), [{ certificateChainPem: 'certificate 2' }]);
  t.equal(state.changes, 1);
  clock.advance(12 * HOUR_MS);
  await settle();
  t.match(keeper.list(), [{ certificateChainPem: 'certificate 3' }], 'and goes on being renewed');
  t.notMatch(JSON.stringify(log.entries), /SECRET/, 'no key is logged');
});

t.test('ensure() that fails is pending until it succeeds or is dropped', async (t) => {
  const { keeper, clock, state, settle } = make();
  state.fails = true;
  await t.rejects(keeper.ensure(A), { code: 'E_IDENTITY' });
  t.equal(keeper.isPending(A), true);
  t.equal(keeper.isPending(B), false, 'nobody wants it');
  await t.rejects(keeper.ensure(B));
  keeper.drop(B);
  t.equal(keeper.isPending(B), false);
  state.fails = false;
  clock.advance(1000);
  await settle();
  t.equal(keeper.isPending(A), false);
  t.strictSame(
    keeper.list().map(({ identity }) => identity),
    [A],
  );
  t.equal(state.changes, 1);
  keeper.drop(A);
  clock.advance(24 * HOUR_MS);
  await settle();
  t.strictSame(keeper.list(), []);
});
