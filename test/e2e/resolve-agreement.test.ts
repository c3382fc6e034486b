// The resolution rule against the real kernel and the real Envoy, in the split form of capture.
import t from 'tap';
import { AGREEMENT_TIMEOUT_MS, checkAgreement } from '../support/resolve-agreement.ts';

t.setTimeout(AGREEMENT_TIMEOUT_MS);
await t.test('resolve() and the data plane agree in the split form', (t) => checkAgreement(t, 'split'));
