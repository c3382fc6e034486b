// The one decision about calls that are none of the mesh's business.
import t from 'tap';
import { findPassThroughReason } from '../../src/plugin/pass-through.ts';

const CONFIG = {
  excludedNamespaces: new Set(['kube-system']),
  agentPod: { namespace: 'mesh', namePrefix: 'agent-' },
};
for (const [args, reason] of [
  [{}, /not a pod/],
  [{ podName: 'x' }, /not a pod/],
  [{ podNamespace: 'kube-system', podName: 'x' }, /"kube-system" is excluded/],
  [{ podNamespace: 'Kube-System', podName: 'x' }, /excluded/],
  [{ podNamespace: 'mesh', podName: 'agent-1' }, /node agent/],
] as const) {
  t.test(`findPassThroughReason() lets ${JSON.stringify(args)} pass`, async (t) => {
    t.match(findPassThroughReason(args, CONFIG), reason);
  });
}
for (const args of [
  { podNamespace: 'demo', podName: 'agent-1' },
  { podNamespace: 'mesh', podName: 'shop' },
  { podNamespace: 'mesh' },
  { podNamespace: 'kube-system2', podName: 'x' },
]) {
  t.test(`findPassThroughReason() leaves ${JSON.stringify(args)} to the agent`, async (t) => {
    t.equal(findPassThroughReason(args, CONFIG), undefined);
  });
}
