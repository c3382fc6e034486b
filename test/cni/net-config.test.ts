// The network configuration: every key with every wrong type, all problems at once, what is warned about, no secret shown.
import fc from 'fast-check';
import t from 'tap';
import { parseJson } from '../../src/cni/json.ts';
import {
  decodeNetConfig,
  defaultNetConfig,
  type NetConfigReading,
  parseConfigVersion,
  readNetConfig,
} from '../../src/cni/net-config.ts';
import { DecodeError, InputError, VersionError } from '../../src/core/errors.ts';

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
function read(config: Record<string, unknown>): NetConfigReading {
  return readNetConfig(decodeNetConfig(encode(JSON.stringify({ cniVersion: '1.0.0', name: 'net', ...config }))));
}
const pathsOf = ({ problems }: NetConfigReading): string[] => problems.map(({ path }) => path);

const PROTO = '__proto__';
const ANNOTATIONS = 'io.kubernetes.cri.pod-annotations';
/** A full configuration as a runtime hands it over. */
const FULL = {
  cniVersion: '1.1.0',
  name: 'net',
  type: 'aether-cni',
  capabilities: { [ANNOTATIONS]: true },
  runtimeConfig: { [ANNOTATIONS]: { 'aether.io/managed': 'true', empty: '' } },
  args: { x: 1 },
  ipam: {},
  dns: {},
  cniVersions: ['1.0.0'],
  disableCheck: true,
  disableGC: false,
  loadOnlyInlinedPlugins: true,
  'cni.dev/valid-attachments': [{ containerID: 'a', ifname: 'eth0' }],
  agent_cni_path: '/tmp/cni.sock',
  admin_socket: '/tmp/admin.sock',
  agent_timeout_ms: 300,
  proxy_ready: 'require',
  readiness_probe_disabled: false,
  netns_pin_disabled: true,
  netns_pin_dir: '/tmp/pins',
  netns_unpin_delay_seconds: 10,
  delete_queue_dir: '/tmp/queue',
  capture_redirect_all_default: true,
  mesh_dns_enabled: true,
  host_ip: '10.0.0.1',
  cri_socket: '/run/x',
  otlp_endpoint: 'http://x',
  log_level: 'debug',
  log_file: '/tmp/log',
  excluded_namespaces: ['A', 'b'],
  exclude_outbound_ports: '80,8000-8100',
  exclude_outbound_ip_ranges: ['10.0.0.0/8', 'fd00::/8'],
  agent_pod: { namespace: 'ns', name_prefix: 'p-' },
  prevResult: { cniVersion: '1.1.0', ips: [{ address: '10.1.2.3/24' }] },
};

t.test('readNetConfig() reads every key', async (t) => {
  const { config, problems, warnings } = read(FULL);
  t.strictSame(problems, []);
  t.strictSame(warnings, []);
  const { prevResult, ...rest } = config;
  t.strictSame(prevResult?.ips, ['10.1.2.3']);
  t.match(rest, {
    name: 'net',
    agentSocket: '/tmp/cni.sock',
    adminSocket: '/tmp/admin.sock',
    agentTimeoutMs: 300,
    proxyReady: 'require',
    pinDisabled: true,
    pinDir: '/tmp/pins',
    deleteQueueDir: '/tmp/queue',
    unpinDelaySeconds: 10,
    redirectAllDefault: true,
    excludePorts: '80,8000-8100',
    excludeRanges: '10.0.0.0/8,fd00::/8',
    meshDnsEnabled: true,
    hostIp: { text: '10.0.0.1' },
    agentPod: { namespace: 'ns', namePrefix: 'p-' },
    logLevel: 'debug',
    logFile: '/tmp/log',
    podAnnotations: { 'aether.io/managed': 'true', empty: '' },
    validAttachments: [{ containerId: 'a', ifname: 'eth0' }],
  });
  t.strictSame([...rest.excludedNamespaces], ['a', 'b']);
});

t.test('defaultNetConfig() is what a configuration without keys means', async (t) => {
  const config = defaultNetConfig();
  t.match(config, {
    name: '',
    agentSocket: '/run/aether/cni.sock',
    adminSocket: '/run/aether/admin.sock',
    agentTimeoutMs: 5000,
    proxyReady: 'wait',
    pinDisabled: false,
    pinDir: '/run/aether/netns',
    deleteQueueDir: '/var/lib/aether/delete-queue',
    unpinDelaySeconds: 0,
    redirectAllDefault: false,
    excludePorts: '',
    excludeRanges: '',
    meshDnsEnabled: false,
    agentPod: { namespace: 'aether-system', namePrefix: 'aether-agent-' },
    logLevel: 'info',
    logFile: '/var/log/aether-cni/plugin.log',
    podAnnotations: {},
  });
  t.ok(config.excludedNamespaces.has('kube-system') && config.excludedNamespaces.has('spire-system'));
  t.notOk('prevResult' in config || 'validAttachments' in config || 'hostIp' in config);
});

t.test('readNetConfig() takes null and an empty text as absent', async (t) => {
  const absent = { log_level: null, agent_cni_path: '', prevResult: null, runtimeConfig: null, host_ip: '' };
  const reading = read(absent);
  t.strictSame(reading.problems, []);
  t.equal(reading.config.agentSocket, '/run/aether/cni.sock');
  t.notOk('prevResult' in reading.config);
});

t.test('readNetConfig() takes an empty prevResult as none (K005)', async (t) => {
  t.notOk('prevResult' in read({ prevResult: {} }).config);
  t.ok('prevResult' in read({ prevResult: { cniVersion: '1.0.0' } }).config);
});

t.test('readNetConfig() keeps an empty list of attachments apart from none', async (t) => {
  t.strictSame(read({ 'cni.dev/valid-attachments': [] }).config.validAttachments, []);
  t.strictSame(read({ 'cni.dev/attachments': [{ containerID: 'a', ifname: 'x' }] }).config.validAttachments?.length, 1);
  t.equal(read({}).config.validAttachments, undefined);
});

// K019: each key with each type that it is not.
const SAMPLES: Readonly<Record<string, unknown>> = {
  string: 'text',
  number: 7,
  boolean: true,
  object: { a: 1 },
  array: [1],
};
const TYPES: Readonly<Record<string, readonly string[]>> = {
  name: ['string'],
  agent_cni_path: ['string'],
  admin_socket: ['string'],
  agent_timeout_ms: ['number'],
  proxy_ready: ['string'],
  readiness_probe_disabled: ['boolean'],
  netns_pin_disabled: ['boolean'],
  netns_pin_dir: ['string'],
  netns_unpin_delay_seconds: ['number'],
  delete_queue_dir: ['string'],
  capture_redirect_all_default: ['boolean'],
  mesh_dns_enabled: ['boolean'],
  host_ip: ['string'],
  cri_socket: ['string'],
  otlp_endpoint: ['string'],
  log_level: ['string'],
  log_file: ['string'],
  excluded_namespaces: ['array'],
  exclude_outbound_ports: ['string', 'array'],
  exclude_outbound_ip_ranges: ['string', 'array'],
  agent_pod: ['object'],
  runtimeConfig: ['object'],
  prevResult: ['object'],
  'cni.dev/valid-attachments': ['array'],
};
for (const [key, types] of Object.entries(TYPES)) {
  for (const [type, value] of Object.entries(SAMPLES)) {
    if (types.includes(type)) continue;
    t.test(`readNetConfig() rejects ${key} as ${type} (K019)`, async (t) => {
      t.strictSame(pathsOf(read({ [key]: value })), [key]);
    });
  }
}

const BAD: readonly (readonly [string, Record<string, unknown>, string])[] = [
  ['a missing name', { name: undefined }, 'name'],
  ['an empty name', { name: '' }, 'name'],
  ['a name with a slash', { name: 'a/b' }, 'name'],
  ['a relative socket', { agent_cni_path: 'x.sock' }, 'agent_cni_path'],
  ['a socket path that no socket can have', { agent_cni_path: `/${'x'.repeat(107)}` }, 'agent_cni_path'],
  ['a path with NUL', { netns_pin_dir: '/a\u0000b' }, 'netns_pin_dir'],
  ['pins in the root directory', { netns_pin_dir: '/' }, 'netns_pin_dir'],
  ['a queue in the root directory', { delete_queue_dir: '//./' }, 'delete_queue_dir'],
  ['a path too long', { delete_queue_dir: `/${'x'.repeat(4096)}` }, 'delete_queue_dir'],
  ['a time-out of 0', { agent_timeout_ms: 0 }, 'agent_timeout_ms'],
  ['a negative time-out', { agent_timeout_ms: -1 }, 'agent_timeout_ms'],
  ['a broken time-out', { agent_timeout_ms: 1.5 }, 'agent_timeout_ms'],
  ['a time-out of hours', { agent_timeout_ms: 1e9 }, 'agent_timeout_ms'],
  ['an unknown choice', { proxy_ready: 'maybe' }, 'proxy_ready'],
  ['an unknown level', { log_level: 'loud' }, 'log_level'],
  ['a log that is stdout', { log_file: '/dev/stdout' }, 'log_file'],
  ['a log that is a descriptor', { log_file: '//proc/self/fd/1' }, 'log_file'],
  ['a host that is no address', { host_ip: 'node-1' }, 'host_ip'],
  ['mesh DNS without a host', { mesh_dns_enabled: true }, 'host_ip'],
  ['a namespace that is a number', { excluded_namespaces: ['a', 1] }, 'excluded_namespaces[1]'],
  ['a namespace that is empty', { excluded_namespaces: [''] }, 'excluded_namespaces[0]'],
  ['a port that is a boolean', { exclude_outbound_ports: [80, true] }, 'exclude_outbound_ports[1]'],
  ['a range that is null', { exclude_outbound_ip_ranges: [null] }, 'exclude_outbound_ip_ranges[0]'],
  ['a prefix that is a number', { agent_pod: { name_prefix: 1 } }, 'agent_pod.name_prefix'],
  ['annotations that are a list', { runtimeConfig: { [ANNOTATIONS]: [] } }, `runtimeConfig.${ANNOTATIONS}`],
  ['an annotation that is a number', { runtimeConfig: { [ANNOTATIONS]: { a: 1 } } }, `runtimeConfig.${ANNOTATIONS}.a`],
  ['an address that is none', { prevResult: { ips: [{ address: 'x' }] } }, 'prevResult.ips[0].address'],
  ['an attachment that is a text', { 'cni.dev/valid-attachments': ['a'] }, 'cni.dev/valid-attachments[0]'],
  [
    'an attachment of no id',
    { 'cni.dev/attachments': [{ containerID: '../x' }] },
    'cni.dev/attachments[0].containerID',
  ],
];
for (const [name, config, path] of BAD) {
  t.test(`readNetConfig() rejects ${name}`, async (t) => {
    t.strictSame(pathsOf(read(config)), [path]);
  });
}

t.test('readNetConfig() rejects a key that is given twice', async (t) => {
  const source = decodeNetConfig(encode('{"name":"a","name":"b","log_level":"info","log_level":"warn","x":1,"x":1}'));
  t.strictSame(pathsOf(readNetConfig(source)), ['name', 'log_level', 'x']);
});

t.test('readNetConfig() reads many annotations, and knows those that are given twice', async (t) => {
  for (const count of [1, 15, 16, 17, 40]) {
    const pairs = Array.from({ length: count }, (_, n) => `"k${n}":"v${n}"`);
    const text = (more: string) => `{"name":"a","runtimeConfig":{"${ANNOTATIONS}":{${[...pairs, more].join(',')}}}}`;
    const readText = (more: string) => readNetConfig(decodeNetConfig(encode(text(more))));
    const fine = readText(`"${PROTO}":"p"`);
    t.strictSame(pathsOf(fine), []);
    t.strictSame(Object.keys(fine.config.podAnnotations).length, count + 1);
    t.equal(fine.config.podAnnotations[PROTO], 'p');
    const twice = readText('"k0":1');
    t.strictSame(
      twice.problems.map(({ message }) => message),
      ['is given twice', 'must be a string, got a number'],
    );
    t.equal(readText('"k0":"last"').config.podAnnotations['k0'], 'last');
    t.equal(readText('"k0":null').config.podAnnotations['k0'], undefined);
  }
});

t.test('readNetConfig() names all problems at once', async (t) => {
  const reading = read({ log_level: 1, agent_timeout_ms: 'x', host_ip: 'y', prevResult: [] });
  t.strictSame(pathsOf(reading).sort(), ['agent_timeout_ms', 'host_ip', 'log_level', 'prevResult']);
});

t.test('readNetConfig() warns of keys that nobody knows, and only of those', async (t) => {
  const { warnings, problems } = read({ ...FULL, log_levle: 'x', agent_pod: { name: 'x' }, 'a\nb': 1 });
  t.strictSame(problems, []);
  t.strictSame(warnings.map(({ path }) => path).sort(), ['"a\\nb"', 'agent_pod.name', 'log_levle']);
});

t.test('readNetConfig() never shows the value of a wrong type or an unknown key', async (t) => {
  const secret = 's3cr3t';
  for (const key of [...Object.keys(TYPES), 'unknown']) {
    for (const value of [{ token: secret }, [secret], [{ token: secret }]]) {
      const { problems, warnings } = read({ [key]: value });
      t.notMatch(JSON.stringify([problems, warnings]), secret, key);
    }
  }
});

t.test('readiness_probe_disabled means skip', async (t) => {
  t.equal(read({ readiness_probe_disabled: true, proxy_ready: 'require' }).config.proxyReady, 'skip');
});

t.test('decodeNetConfig() gives one error for a configuration cut at any byte', async (t) => {
  const bytes = encode(JSON.stringify(FULL, null, 1).replace('"net"', '"né€t"'));
  for (let length = 0; length < bytes.length; length++) {
    try {
      decodeNetConfig(bytes.subarray(0, length));
      t.fail(`${length} bytes were taken`);
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      if (!/line \d+ column \d+: unexpected end|not UTF-8/.test(error.message)) t.fail(error.message);
    }
  }
  t.ok(decodeNetConfig(bytes));
});

for (const text of ['null', '[]', '"x"', '7', '\u0000', '{"a":1}{"a":1}']) {
  t.test(`decodeNetConfig() rejects ${JSON.stringify(text)}`, async (t) => {
    t.throws(() => decodeNetConfig(encode(text)), DecodeError);
  });
}

t.test('decodeNetConfig() rejects what is no UTF-8 and what is too large', async (t) => {
  t.throws(() => decodeNetConfig(Uint8Array.of(0x7b, 0xff, 0x7d)), { message: /not UTF-8/ });
  t.throws(() => decodeNetConfig(new Uint8Array(4 * 1024 * 1024 + 1)), { message: /more than/ });
});

t.test('decodeNetConfig() never quotes the text', async (t) => {
  t.throws(() => decodeNetConfig(encode('{"password":"s3cr3t" x}')), { message: /^((?!s3cr3t).)*$/ });
});

t.test('parseConfigVersion() reads the version of a configuration', async (t) => {
  const of = (text: string) => parseJson(text, 'x');
  t.equal(parseConfigVersion(of('"0.4.0"'), 'ADD'), '0.4.0');
  t.throws(() => parseConfigVersion(undefined, 'ADD'), VersionError);
  t.throws(() => parseConfigVersion(of('null'), 'ADD'), VersionError);
  t.throws(() => parseConfigVersion(of('1'), 'ADD'), InputError);
});

t.test('readNetConfig() gives a value for any JSON object', async (t) => {
  const keys = fc.constantFrom(...Object.keys(FULL), 'x');
  fc.assert(
    fc.property(fc.dictionary(keys, fc.jsonValue({ maxDepth: 2 })), (object) => {
      const { config } = readNetConfig(decodeNetConfig(encode(JSON.stringify(object))));
      t.ok(config.agentSocket.startsWith('/') && config.agentTimeoutMs > 0);
    }),
  );
});

t.test('decodeNetConfig() passes over a byte order mark', (t) => {
  t.equal(decodeNetConfig(Buffer.from('\ufeff{"name":"x"}')).text, '{"name":"x"}');
  t.end();
});
