// The agent's flags, variables and file: the contract's defaults, which source wins, and every problem at once under the
// source that it came from. No file is read here.
import t from 'tap';
import { AGENT_SETTINGS, parseAgentSettings } from '../../src/commands/agent-settings.ts';
import type { SettingSources } from '../../src/commands/setting-source.ts';
import { formatProblem } from '../../src/core/problems.ts';
import { formatSocketAddress } from '../../src/core/socket-address.ts';
import { makeIp } from '../support/services.ts';

const HOST = { hostname: 'node-a', hostIp: makeIp('192.0.2.10') };

function parse(given: {
  readonly flags?: Readonly<Record<string, readonly string[]>>;
  readonly environment?: SettingSources['environment'];
  readonly file?: unknown;
}): ReturnType<typeof parseAgentSettings> {
  const text = typeof given.file === 'string' ? given.file : JSON.stringify(given.file);
  return parseAgentSettings(
    {
      flags: new Map(Object.entries(given.flags ?? {})),
      environment: given.environment ?? {},
      ...(given.file === undefined ? {} : { file: { path: '/etc/agent.json', text } }),
    },
    HOST,
  );
}

const problemsOf = (given: Parameters<typeof parse>[0]): readonly string[] => {
  const parsed = parse(given);
  return parsed.kind === 'problems' ? parsed.problems.map(formatProblem) : [];
};

t.test('parseAgentSettings() has the defaults of the contract', (t) => {
  const parsed = parse({});
  t.match(parsed, {
    kind: 'value',
    value: {
      cniSocket: '/run/aether/cni.sock',
      relaySocket: '/run/aether/relay.sock',
      xdsSocket: '/run/aether/xds.sock',
      xdsSocketMode: 0o600,
      adminSocket: '/run/aether/admin.sock',
      healthSocket: '/run/aether/health.sock',
      recordDir: '/var/lib/aether/registry',
      stateDir: '/var/lib/aether',
      caDir: '/var/lib/aether/ca',
      deleteQueueDir: '/var/lib/aether/delete-queue',
      netnsPinDir: '/run/aether/netns',
      nodeName: 'node-a',
      clusterName: 'local',
      meshDomain: 'aether.internal',
      captureRedirectAllDefault: false,
      servicesFile: undefined,
      identity: 'embedded',
      dnsUpstreams: [],
      logLevel: 'info',
    },
  });
  if (parsed.kind === 'value') {
    t.strictSame(
      parsed.value.vipRanges.map(({ text }) => text),
      ['10.254.0.0/16', 'fd0a:e7e0::/112'],
    );
    t.strictSame(parsed.value.meshDns.map(formatSocketAddress), ['192.0.2.10:18054']);
  }
  t.end();
});

t.test('parseAgentSettings() takes flag over variable over file over default', (t) => {
  const file = {
    zone: 'file',
    region: 'file',
    node_name: 'file',
    capture_redirect_all_default: true,
    vip_cidr: ['10.1.0.0/16'],
  };
  const environment = { AETHER_ZONE: 'variable', AETHER_REGION: 'variable', AETHER_CLUSTER_NAME: '' };
  const parsed = parse({ flags: { zone: ['flag'] }, environment, file });
  t.match(parsed, {
    kind: 'value',
    value: {
      zone: 'flag',
      region: 'variable',
      nodeName: 'file',
      clusterName: 'local',
      captureRedirectAllDefault: true,
    },
  });
  t.match(parsed, { value: { vipRanges: [{ text: '10.1.0.0/16' }] } });
  t.end();
});

t.test('parseAgentSettings() reads the access log and its sample', (t) => {
  const flags = { 'access-log': ['file:/tmp/a.log'], 'access-log-sample': ['2.5'] };
  t.match(parse({ flags }), {
    value: { accessLog: { sink: { kind: 'file', path: '/tmp/a.log' }, successPercent: 2.5 } },
  });
  t.match(parse({}), { value: { accessLog: undefined } });
  for (const percent of ['101', '-1', 'x', '1.234']) {
    const wrong = { flags: { 'access-log': ['syslog'], 'access-log-sample': [percent] } };
    t.match(problemsOf(wrong), [/^--access-log: must be off, stdout/, /^--access-log-sample: must be from 0 to 100/]);
  }
  t.end();
});

t.test('parseAgentSettings() derives places from --record-dir, so that agents can run side by side', (t) => {
  const parsed = parse({ flags: { 'record-dir': ['/tmp/a/lib/registry'] } });
  t.match(parsed, {
    value: { stateDir: '/tmp/a/lib', caDir: '/tmp/a/lib/ca', deleteQueueDir: '/tmp/a/lib/delete-queue' },
  });
  t.end();
});

t.test('parseAgentSettings() reads lists', (t) => {
  const cases = [
    {
      flags: { 'mesh-dns': ['10.0.0.1:53', '[fd00::1]:53'], 'dns-upstream': ['10.96.0.10', 'fd00::a', '1.2.3.4:5353'] },
    },
    {
      environment: {
        AETHER_MESH_DNS: '10.0.0.1:53, [fd00::1]:53',
        AETHER_DNS_UPSTREAM: '10.96.0.10,fd00::a,1.2.3.4:5353',
      },
    },
    { file: { mesh_dns: ['10.0.0.1:53', '[fd00::1]:53'], dns_upstream: ['10.96.0.10', 'fd00::a', '1.2.3.4:5353'] } },
  ];
  for (const given of cases) {
    const parsed = parse(given);
    if (parsed.kind !== 'value') throw new Error(JSON.stringify(parsed));
    t.strictSame(parsed.value.meshDns.map(formatSocketAddress), ['10.0.0.1:53', '[fd00::1]:53']);
    t.strictSame(parsed.value.dnsUpstreams.map(formatSocketAddress), ['10.96.0.10:53', '[fd00::a]:53', '1.2.3.4:5353']);
  }
  t.match(parse({ flags: { 'mesh-dns': ['off'] } }), { value: { meshDns: [] } });
  t.end();
});

t.test('parseAgentSettings() rejects with every problem, each under its source', (t) => {
  t.strictSame(
    problemsOf({
      flags: {
        'cni-socket': ['run/x.sock'],
        'xds-socket-mode': ['rw'],
        'vip-cidr': ['10.0.0.0/31', '10.1.0.0/16', '10.2.0.0/16', 'x'],
      },
      environment: { AETHER_MESH_DOMAIN: 'Aether_Internal', AETHER_LOG_LEVEL: 'loud', AETHER_HOST_IP: 'here' },
      file: { zone: 7, tone: 'x', repair: 'yes' },
    }),
    [
      'zone in /etc/agent.json: must be a text, got 7',
      'tone in /etc/agent.json: unknown key',
      'repair in /etc/agent.json: must be true or false, got "yes"',
      'AETHER_HOST_IP: must be an IP address, got "here"',
      '--cni-socket: must be an absolute path, got "run/x.sock"',
      '--xds-socket-mode: must be permissions in octal, such as 0660, got "rw"',
      'AETHER_MESH_DOMAIN: must be a domain in lower case, got "Aether_Internal"',
      '--vip-cidr: must be a range of at least 4 addresses, got "10.0.0.0/31"',
      '--vip-cidr: one range of a family only: 10.2.0.0/16 is a second of IPv4',
      '--vip-cidr: must be a range such as 10.254.0.0/16, got "x"',
      'AETHER_LOG_LEVEL: must be one of info, debug, warn, error, got "loud"',
    ],
  );
  t.match(problemsOf({ file: '{' }), [/^\/etc\/agent\.json: must be JSON/]);
  t.match(problemsOf({ file: [] }), [/^\/etc\/agent\.json: must be an object/]);
  t.match(problemsOf({ flags: { zone: ['a', 'b'] } }), ['--zone: may be given only once']);
  t.match(problemsOf({ flags: { 'admin-socket': [`/${'x'.repeat(107)}`] } }), [
    /--admin-socket: must be a path of 107 bytes/,
  ]);
  t.end();
});

t.test('parseAgentSettings() takes a lifetime of certificates between 10 seconds and a year', (t) => {
  for (const text of ['9', '31536001', '1h', '', '-20', '100000000']) {
    t.match(problemsOf({ flags: { 'certificate-lifetime': [text] } }), [
      /^--certificate-lifetime: must be a number of sec/,
    ]);
  }
  for (const text of ['10', '31536000'])
    t.strictSame(problemsOf({ flags: { 'certificate-lifetime': [text] } }), [], text);
  t.end();
});

t.test('parseAgentSettings() takes absolute paths, and for what is made root’s alone no directory of the root', (t) => {
  t.strictSame(problemsOf({ flags: { 'kubelet-pods-dir': ['off'] } }), []);
  t.match(problemsOf({ flags: { 'kubelet-pods-dir': ['pods'] } }), [
    '--kubelet-pods-dir: must be an absolute path, got "pods"',
  ]);
  // Directories of ours are made root's alone.
  for (const [flag, path] of [
    ['netns-pin-dir', '//'],
    ['record-dir', '/records'],
  ] as const) {
    t.match(
      problemsOf({ flags: { [flag]: [path] } })[0],
      /must be something below the root directory, got "\/\/?"/,
      path,
    );
  }
  t.end();
});

t.test('parseAgentSettings() refuses what is not built, by name', (t) => {
  const cases: readonly [string, string][] = [
    ['pod-source', 'kubernetes'],
    ['registry', 'etcd'],
    ['identity', 'spire'],
    ['metrics', '127.0.0.1:9090'],
    ['page', '127.0.0.1:9091'],
    ['registrar', 'registrar:8443'],
    ['repair', 'true'],
  ];
  for (const [name, value] of cases) {
    t.match(problemsOf({ flags: { [name]: [value] } }), [new RegExp(`^--${name}: .*is not implemented yet`)], name);
  }
  t.match(problemsOf({ flags: { registry: ['paper'] } }), ['--registry: must be one of embedded, got "paper"']);
  t.strictSame(problemsOf({ file: { repair: false, on_demand_tcp: false, metrics: 'off' } }), []);
  t.end();
});

t.test('parseAgentSettings() without an address of the host wants one for mesh DNS', (t) => {
  const sources = { flags: new Map<string, readonly string[]>(), environment: {} };
  t.match(parseAgentSettings(sources, { hostname: 'a', hostIp: undefined }), {
    kind: 'problems',
    problems: [{ path: '--host-ip' }],
  });
  const off = { flags: new Map([['mesh-dns', ['off']]]), environment: {} };
  t.equal(parseAgentSettings(off, { hostname: 'a', hostIp: undefined }).kind, 'value');
  t.end();
});

t.test('AGENT_SETTINGS has each name once, and says each default', (t) => {
  const names = AGENT_SETTINGS.map(({ name }) => name);
  t.equal(new Set(names).size, names.length);
  for (const row of AGENT_SETTINGS) t.not(row.fallback, '', row.name);
  t.end();
});
