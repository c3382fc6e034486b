// Which spellings name a pod.
import t from 'tap';
import { isNamedBy, SHORT_ID_LENGTH } from '../../src/core/pod-subject.ts';

const POD = { namespace: 'demo', name: 'shop-0', containerId: '0123456789abcdef0123456789abcdef' };
const { containerId } = POD;

for (const text of ['demo/shop-0', containerId, containerId.slice(0, SHORT_ID_LENGTH), containerId.slice(0, -1)]) {
  t.test(`isNamedBy() takes ${text}`, async (t) => {
    t.ok(isNamedBy(POD, text));
  });
}

const OTHERS = ['', 'demo', 'demo/shop', 'shop-0', containerId.slice(0, SHORT_ID_LENGTH - 1), `${containerId}0`];
for (const text of [...OTHERS, containerId.slice(1)]) {
  t.test(`isNamedBy() refuses "${text}"`, async (t) => {
    t.notOk(isNamedBy(POD, text));
  });
}
