// CNI_ARGS in any order, with keys of others; names that Kubernetes would not allow.
import fc from 'fast-check';
import t from 'tap';
import { parseCniArgs } from '../../src/cni/cni-args.ts';

const PAIRS = ['K8S_POD_NAME=shop-0', 'K8S_POD_NAMESPACE=demo', 'K8S_POD_UID=0f-1', 'IgnoreUnknown=1', 'X=a=b', 'Y='];

t.test('parseCniArgs() takes any order', async (t) => {
  fc.assert(
    fc.property(fc.shuffledSubarray(PAIRS, { minLength: PAIRS.length }), (pairs) => {
      t.match(parseCniArgs(pairs.join(';')), { value: { podName: 'shop-0', podNamespace: 'demo', podUid: '0f-1' } });
    }),
  );
});

const READ = [
  { name: 'nothing', text: '', value: {} },
  { name: 'separators alone', text: ';;', value: {} },
  { name: 'an empty value as none', text: 'K8S_POD_NAMESPACE=;K8S_POD_NAME=x', value: {} },
  { name: 'a container of podman, whose name is its own', text: 'K8S_POD_NAME=My_Container', value: {} },
];
for (const { name, text, value } of READ) {
  t.test(`parseCniArgs() reads ${name}`, async (t) => {
    t.same(parseCniArgs(text), { kind: 'value', value, warnings: [] });
  });
}

const REJECTED = [
  { name: 'a pair without "="', text: 'K8S_POD_NAME', path: 'CNI_ARGS' },
  { name: 'a pair without a key', text: '=x', path: 'CNI_ARGS' },
  { name: 'a key given twice', text: 'K8S_POD_NAME=a;K8S_POD_NAME=b', path: 'CNI_ARGS.K8S_POD_NAME' },
  { name: 'a namespace with a slash', text: 'K8S_POD_NAMESPACE=../x', path: 'CNI_ARGS.K8S_POD_NAMESPACE' },
  { name: 'a namespace with capitals', text: 'K8S_POD_NAMESPACE=Demo', path: 'CNI_ARGS.K8S_POD_NAMESPACE' },
  { name: 'a name with a line break', text: 'K8S_POD_NAMESPACE=a;K8S_POD_NAME=a\nb', path: 'CNI_ARGS.K8S_POD_NAME' },
  {
    name: 'a name of 300 letters',
    text: `K8S_POD_NAMESPACE=a;K8S_POD_NAME=${'a'.repeat(300)}`,
    path: 'CNI_ARGS.K8S_POD_NAME',
  },
  { name: 'a uid with a quote', text: 'K8S_POD_NAMESPACE=a;K8S_POD_UID="', path: 'CNI_ARGS.K8S_POD_UID' },
];
for (const { name, text, path } of REJECTED) {
  t.test(`parseCniArgs() rejects ${name}`, async (t) => {
    t.match(parseCniArgs(text), { kind: 'problems', problems: [{ path }] });
  });
}
