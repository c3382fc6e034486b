// The whole check with a fake agent, host and kernel: it tells the truth with the agent, without it, and with an old one.
import t from 'tap';
import { KernelError, StoreError } from '../../src/core/errors.ts';
import type { Finding } from '../../src/core/finding.ts';
import { FakeCheckNode, makeRecord, SCOPED } from '../support/fake-check-node.ts';

const { dns: _, ...WITHOUT_DNS } = SCOPED;
const troubles = (findings: readonly Finding[]): readonly Finding[] => findings.filter(({ status }) => status !== 'ok');
const SHOP = '/r/netns/c-shop-0';

t.test('checkFromTool() finds nothing on a node in order, and shows everything it looked at', async (t) => {
  const { findings, pods } = await new FakeCheckNode().check();
  t.strictSame(troubles(findings), []);
  t.strictSame([...pods], ['demo/shop-0', 'demo/web-0']);
  t.strictSame(
    findings.map(({ area, subject }) => `${area} ${subject}`),
    [
      'agent node-a',
      ...['socket /r/admin.sock', 'socket /r/cni.sock', 'socket /r/relay.sock', 'socket /r/xds.sock'],
      ...['kernel 6.18.0', 'conflist /etc/cni/net.d/10-pods.conflist', 'binary /opt/cni/bin/aether-cni'],
      ...['pins /r/netns', 'queue /l/queue', 'record /l/registry', 'limits Envoy, pid 7', 'dns 10.0.0.1:18054'],
      'registry node',
      ...['netns demo/shop-0', 'rules demo/shop-0', 'record demo/shop-0', 'proxy demo/shop-0'],
      ...['netns demo/web-0', 'rules demo/web-0', 'record demo/web-0', 'proxy demo/web-0'],
    ],
  );
});

for (const subject of ['demo/shop-0', 'c-shop-0']) {
  t.test(`checkFromTool() of ${subject} is about that pod and what it stands on`, async (t) => {
    const node = new FakeCheckNode();
    node.agentFindings = {
      kind: 'findings',
      findings: [
        { status: 'ok', area: 'registry', subject: 'node', message: 'answers', remedy: '' },
        { status: 'ok', area: 'proxy', subject: 'demo/shop-0', message: 'Envoy has its listeners', remedy: '' },
      ],
    };
    // What is wrong elsewhere is not asked for.
    node.tables.clear();
    node.setRules(SHOP, SCOPED);
    const { findings } = await node.check(subject);
    t.strictSame(node.askedAbout, [subject]);
    t.strictSame(troubles(findings), []);
    t.strictSame(
      findings.map(({ area, subject: about }) => `${area} ${about}`),
      [
        ...['agent node-a', 'kernel 6.18.0', 'dns 10.0.0.1:18054', 'registry node'],
        ...['netns demo/shop-0', 'rules demo/shop-0', 'record demo/shop-0', 'proxy demo/shop-0'],
      ],
    );
  });
}

t.test('checkFromTool() of a pod that nobody knows says so', async (t) => {
  const { findings } = await new FakeCheckNode().check('demo/nope');
  t.match(troubles(findings), [{ status: 'fail', area: 'pod', subject: 'demo/nope', message: /no pod of this node/ }]);
});

t.test('checkFromTool() by somebody else than root says only that', async (t) => {
  const node = new FakeCheckNode();
  node.uid = 1000;
  t.match((await node.check()).findings, [{ status: 'fail', subject: 'uid 1000', message: /only root/ }]);
});

interface Fault {
  readonly name: string;
  readonly make: (node: FakeCheckNode) => unknown;
  readonly want: readonly (readonly [status: 'warn' | 'fail', area: string, subject: string, message: RegExp])[];
}

const SHOP_RULES = ['fail', 'rules', 'demo/shop-0'] as const;

const FAULTS: readonly Fault[] = [
  {
    name: 'rules that are gone (K065, K090)',
    make: (node) => node.tables.delete(`${SHOP} aether`),
    want: [[...SHOP_RULES, /missing table inet aether: nothing of this pod is captured/]],
  },
  {
    name: 'a rule that is gone (K065)',
    make: (node) =>
      node.changeRules(SHOP, (table) => ({
        ...table,
        chains: table.chains.map((chain) => ({ ...chain, rules: chain.rules.slice(0, -1) })),
      })),
    want: [[...SHOP_RULES, /missing rule \d+ of chain "output": "udp dport 18081 redirect to :18001"/]],
  },
  {
    name: 'a dormant table (K065)',
    make: (node) => node.changeRules(SHOP, (table) => ({ ...table, isDormant: true })),
    want: [[...SHOP_RULES, /dormant/]],
  },
  {
    name: 'another capture mode than the record has',
    make: (node) => node.setRules(SHOP, { ...SCOPED, redirectAll: true }),
    want: [[...SHOP_RULES, /extra rule/]],
  },
  {
    name: 'rules of an older configuration of the node',
    make: (node) => node.setRules(SHOP, WITHOUT_DNS),
    want: [['warn', 'rules', 'demo/shop-0', /made under another configuration/]],
  },
  {
    name: 'a namespace that is gone',
    make: (node) => node.gone.add(SHOP),
    want: [['fail', 'netns', 'demo/shop-0', /network namespace is not usable/]],
  },
  {
    name: 'a kernel that refuses to be read',
    make: (node) => {
      const { readTable } = node;
      node.readTable = async (netns, planned) => {
        if (netns === SHOP) throw new KernelError('read table inet aether: EPERM', 1, 'EPERM');
        return readTable(netns, planned);
      };
    },
    want: [[...SHOP_RULES, /could not be looked at: .*EPERM/]],
  },
  {
    name: 'a kernel that does not answer',
    make: (node) => {
      node.readTable = () => new Promise(() => {});
    },
    want: ['demo/shop-0', 'demo/web-0'].map((pod) => ['fail', 'rules', pod, /no answer within 300 ms/] as const),
  },
  {
    name: 'a record that is gone',
    make: (node) => node.stored.shift(),
    want: [['fail', 'record', 'demo/shop-0', /its record \/l\/registry\/c-shop-0\.json is missing/]],
  },
  {
    name: 'a record that is none',
    make: (node) => node.broken.push({ file: 'c9.json', reason: 'unexpected end of the input' }),
    want: [['fail', 'record', '/l/registry/c9.json', /is no record: unexpected end/]],
  },
  {
    name: 'a record of a pod that the agent does not know',
    make: (node) => {
      const old = makeRecord('old-0');
      node.stored.push(old);
      node.gone.add(old.networkNamespace);
    },
    want: [
      ['fail', 'record', 'demo/old-0', /the agent does not know the pod/],
      ['fail', 'netns', 'demo/old-0', /not usable/],
    ],
  },
  {
    name: 'a record with annotations that no longer parse',
    make: (node) => {
      node.records = node.records.map((record) =>
        record.name === 'shop-0' ? makeRecord('shop-0', { 'endpoint.aether.io/ports': '9000=quic' }) : record,
      );
    },
    want: [['fail', 'record', 'demo/shop-0', /endpoint\.aether\.io\/ports\[0\]/]],
  },
  {
    name: 'a record with exclusions that do not parse',
    make: (node) => {
      node.records = node.records.map((record) =>
        record.name === 'shop-0'
          ? makeRecord('shop-0', { 'capture.aether.io/exclude-outbound-ports': '25,$(reboot)' })
          : record,
      );
    },
    want: [['fail', 'record', 'demo/shop-0', /exclude-outbound-ports\[1\]/]],
  },
  {
    name: 'an agent that is not ready',
    make: (node) => {
      if (node.answer.kind === 'status') node.answer = { ...node.answer, ready: false, problems: ['no snapshot'] };
    },
    want: [['fail', 'agent', 'node-a', /not ready, new pods are refused: no snapshot/]],
  },
  {
    name: 'an agent that cannot check itself',
    make: (node) => {
      node.agentFindings = { kind: 'unsupported' };
      if (node.answer.kind === 'status') node.answer = { ...node.answer, problems: ['no proxy is connected'] };
    },
    want: [
      ['warn', 'agent', 'node-a', /version 1 cannot check itself/],
      ['fail', 'agent', 'node-a', /no proxy is connected/],
    ],
  },
  {
    name: 'an agent that does not answer',
    make: (node) => {
      node.agentFindings = { kind: 'failed', reason: 'checking: the node agent is not available (Deadline exceeded)' };
    },
    want: [['fail', 'agent', 'node-a', /could not check itself: .*Deadline exceeded/]],
  },
  {
    name: 'mesh DNS that is silent',
    make: (node) => {
      node.dnsAnswers = false;
    },
    want: [['fail', 'dns', '10.0.0.1:18054', /does not answer/]],
  },
  {
    name: 'a runtime that does not call us (K043)',
    make: (node) => {
      node.plugins = [{ type: 'bridge' }];
    },
    want: [['warn', 'conflist', '/etc/cni/net.d/10-pods.conflist', /does not call aether-cni/]],
  },
  {
    name: 'directories that cannot be read (K062)',
    make: (node) => {
      const refuse = async (): Promise<never> => {
        throw new StoreError('EACCES: permission denied');
      };
      node.host = { readConfFiles: refuse, listRemovals: refuse };
    },
    want: [
      ['fail', 'tool', '/etc/cni/net.d', /permission denied/],
      ['warn', 'conflist', '/etc/cni/net.d', /no network configuration/],
      ['fail', 'tool', '/l/queue', /permission denied/],
    ],
  },
  {
    name: 'a disk that hangs',
    make: (node) => {
      node.host = { readPinDir: () => new Promise(() => {}) };
    },
    want: [['fail', 'tool', '/r/netns', /no answer within 300 ms/]],
  },
];

for (const { name, make, want } of FAULTS) {
  t.test(`checkFromTool() names ${name}`, async (t) => {
    const node = new FakeCheckNode();
    await make(node);
    const found = troubles((await node.check()).findings);
    t.match(
      found,
      want.map(([status, area, subject, message]) => ({ status, area, subject, message })),
    );
    t.equal(found.length, want.length, JSON.stringify(found));
    for (const { status, remedy } of found) if (status === 'fail') t.not(remedy, '');
  });
}

t.test('checkFromTool() without the agent looks at everything else', async (t) => {
  const node = new FakeCheckNode();
  node.answer = { kind: 'away', reason: '/r/admin.sock is not there' };
  node.tables.delete(`${SHOP} aether`);
  node.tables.delete('/r/netns/c-web-0 aether_mesh');
  const { findings } = await node.check('', {
    places: {
      ...{ adminSocket: '/r/admin.sock', confDir: '/etc/cni/net.d', binDir: '/opt/cni/bin' },
      ...{ recordDir: '/l/registry', pinDir: undefined, deleteQueueDir: undefined },
    },
  });
  t.match(troubles(findings), [
    {
      area: 'agent',
      subject: '/r/admin.sock',
      message: /the agent is away/,
      remedy: /take the entry "aether-cni" out of the active conflist/,
    },
    { area: 'rules', subject: 'demo/shop-0', message: /missing table inet aether/ },
  ]);
  t.strictSame(node.askedAbout, []);
  t.match(
    findings.filter(({ area, message }) => area === 'rules' && message.includes('aether_mesh')),
    [
      { subject: 'demo/shop-0', message: /aether_mesh is there; what it should hold only the agent knows/ },
      { subject: 'demo/web-0', message: /no table inet aether_mesh/ },
    ],
  );
});

t.test('checkFromTool() without a configuration takes rules with any DNS of the node as planned', async (t) => {
  const node = new FakeCheckNode();
  node.host = { readConfFiles: async () => undefined };
  node.setRules('/r/netns/c-web-0', WITHOUT_DNS);
  const { findings } = await node.check();
  t.strictSame(
    troubles(findings).map(({ area }) => area),
    ['conflist'],
  );
});

t.test('checkFromTool() without configuration and agent takes the DNS that the rules themselves name', async (t) => {
  const node = new FakeCheckNode();
  node.plugins = [{ type: 'bridge' }];
  node.answer = { kind: 'away', reason: '/r/admin.sock is not there' };
  const ofAgent = { recordDir: '/l/registry', pinDir: undefined, deleteQueueDir: undefined };
  const look = async () =>
    node.check('', {
      places: { adminSocket: '/r/admin.sock', confDir: '/etc/cni/net.d', binDir: '/opt/cni/bin', ...ofAgent },
    });
  const { findings } = await look();
  t.strictSame(
    troubles(findings).map(({ area }) => area),
    ['agent', 'conflist'],
  );
  t.match(
    findings.find(({ area, subject }) => area === 'rules' && subject === 'demo/shop-0'),
    { message: /as planned; that its DNS is 10\.0\.0\.1:18054 only/ },
  );
  node.changeRules(SHOP, (table) => ({
    ...table,
    chains: table.chains.map((chain) => ({ ...chain, rules: chain.rules.slice(0, -1) })),
  }));
  t.match(troubles((await look()).findings).at(-1), { area: 'rules', subject: 'demo/shop-0', message: /missing rule/ });
});

t.test('checkFromTool() tells how to put the rules back at once', async (t) => {
  const node = new FakeCheckNode();
  node.tables.delete(`${SHOP} aether`);
  node.records = [makeRecord('shop-0', { 'capture.aether.io/exclude-outbound-ports': '25, 80' })];
  const [finding] = troubles((await node.check('c-shop-0')).findings);
  const command = [
    'aether-cni rules render --config /etc/cni/net.d/10-pods.conflist',
    '--annotation capture.aether.io/redirect-all=false',
    "--annotation capture.aether.io/exclude-outbound-ports='25, 80'",
    '| nsenter --net=/r/netns/c-shop-0 nft -f -',
  ].join(' ');
  t.ok(finding?.remedy.endsWith(`; or at once: ${command}`), `got ${finding?.remedy}`);
});
