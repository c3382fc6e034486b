// The CNI_* variables: all problems at once, what each verb needs, DEL that takes anything.
import fc from 'fast-check';
import t from 'tap';
import { parseAttachment, parseDetachment, parseVerb, VERBS } from '../../src/cni/environment.ts';
import { EnvironmentError } from '../../src/core/errors.ts';

const GOOD = {
  CNI_CONTAINERID: 'abc123',
  CNI_NETNS: '/var/run/netns/cni-1',
  CNI_IFNAME: 'eth0',
  CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAME=shop-0;K8S_POD_NAMESPACE=demo',
};

for (const verb of VERBS) {
  t.test(`parseVerb() takes ${verb}`, async (t) => {
    t.equal(parseVerb({ CNI_COMMAND: verb }), verb);
  });
}
for (const text of [undefined, '', 'add', 'ADD ', 'UPDATE']) {
  t.test(`parseVerb() rejects ${JSON.stringify(text)}`, async (t) => {
    t.throws(() => parseVerb({ CNI_COMMAND: text }), { code: 'E_ENVIRONMENT', message: /CNI_COMMAND: must be one of/ });
  });
}

t.test('parseAttachment() reads a call', async (t) => {
  t.same(parseAttachment(GOOD), {
    containerId: 'abc123',
    netns: '/var/run/netns/cni-1',
    ifname: 'eth0',
    args: { podName: 'shop-0', podNamespace: 'demo' },
  });
});

const BAD = [
  ['CNI_CONTAINERID', undefined],
  ['CNI_CONTAINERID', ''],
  ['CNI_CONTAINERID', '../../etc'],
  ['CNI_CONTAINERID', 'a\nb'],
  ['CNI_CONTAINERID', 'a'.repeat(300)],
  ['CNI_CONTAINERID', '-a'],
  ['CNI_NETNS', undefined],
  ['CNI_NETNS', 'relative/path'],
  ['CNI_IFNAME', ''],
  ['CNI_IFNAME', 'eth0; flush ruleset'],
  ['CNI_IFNAME', 'a" accept "'],
  ['CNI_IFNAME', '0123456789abcdef'],
  ['CNI_IFNAME', 'ééééééééé'],
  ['CNI_IFNAME', '..'],
  ['CNI_ARGS', 'K8S_POD_NAME'],
  ['CNI_ARGS', '=x'],
] as const;
for (const [name, value] of BAD) {
  t.test(`parseAttachment() rejects ${name} ${JSON.stringify(value)} (K069)`, async (t) => {
    const problem = { path: name, message: /^.{10,250}$/ };
    const expected = { code: 'E_ENVIRONMENT', problems: [problem] };
    t.throws(() => parseAttachment({ ...GOOD, [name]: value }), expected);
    const { warnings } = parseDetachment({ ...GOOD, [name]: value });
    const absentIsFine = (value ?? '') === '' && name !== 'CNI_CONTAINERID';
    t.equal(warnings.length, absentIsFine ? 0 : 1);
  });
}

t.test('parseAttachment() names every problem at once', async (t) => {
  try {
    parseAttachment({ CNI_IFNAME: 'a/b', CNI_ARGS: 'x;K8S_POD_NAMESPACE=A_B' });
    t.fail('must throw');
  } catch (error) {
    if (!(error instanceof EnvironmentError)) throw error;
    t.same(
      error.problems.map(({ path }) => path),
      ['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME', 'CNI_ARGS', 'CNI_ARGS.K8S_POD_NAMESPACE'],
    );
  }
});

t.test('parseDetachment() takes the second DEL: no namespace, no arguments', async (t) => {
  t.same(parseDetachment({ CNI_CONTAINERID: 'abc', CNI_NETNS: '', CNI_IFNAME: 'eth0' }), {
    containerId: 'abc',
    ifname: 'eth0',
    args: {},
    warnings: [],
  });
});

t.test('parseDetachment() never throws', async (t) => {
  const text = fc.option(fc.string({ unit: 'binary' }), { nil: undefined });
  fc.assert(
    fc.property(text, text, text, text, (id, netns, ifname, args) => {
      const env = { CNI_CONTAINERID: id, CNI_NETNS: netns, CNI_IFNAME: ifname, CNI_ARGS: args };
      t.ok(parseDetachment(env));
    }),
  );
});
