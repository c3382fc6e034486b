// The command line as a process: help, exit codes, and that rendered rules are what nft takes.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeNetns } from '../support/netns.ts';

const ROOT = join(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'src/main.ts');
const dir = mkdtempSync('/tmp/ae-cli-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

function run(...args: readonly string[]) {
  const { stdout, stderr, status } = spawnSync(process.execPath, [MAIN, ...args], {
    encoding: 'utf8',
    env: { PATH: '/usr/bin' },
  });
  return { stdout, stderr, status };
}

const EXITS: readonly {
  readonly args: readonly string[];
  readonly status: number;
  readonly stdout?: RegExp;
  readonly stderr?: RegExp;
}[] = [
  { args: [], status: 0, stderr: /versions supported: 0\.3\.0.*--help/s },
  { args: ['--help'], status: 0, stdout: /agent.*rules.*version/s },
  { args: ['help'], status: 0, stdout: /Usage: aether-cni/ },
  { args: ['help', 'check'], status: 0, stdout: /--cni-conf-dir <DIR>/ },
  { args: ['--version'], status: 0, stdout: /^\d+\.\d+\.\d+\n$/ },
  { args: ['version'], status: 0, stdout: /^aether-cni \d/ },
  { args: ['version', '--json'], status: 0, stdout: /"cniVersions":\["0\.3\.0"/ },
  { args: ['rules', 'render', '--help'], status: 0, stdout: /--annotation/ },
  { args: ['frobnicate'], status: 2, stderr: /unknown command 'frobnicate'\n\(add --help/ },
  { args: ['--frobnicate'], status: 2, stderr: /unknown option/ },
  { args: ['version', '--frobnicate'], status: 2, stderr: /unknown option '--frobnicate'\n\(add --help/ },
  { args: ['envoy-bootstrap', '--json'], status: 0, stdout: /^\{"node":\{"id":"[^"]+".*\}\n$/ },
  {
    args: ['envoy-bootstrap', '--node-name', '', '--xds-socket', 'x', '--admin-socket', 'y'],
    status: 2,
    stderr: /--node-name: must be .*--xds-socket: must be an absolute path, got "x"; --admin-socket: .*"y"/,
  },
  { args: ['rules'], status: 2, stderr: /Usage/ },
  { args: ['rules', 'frobnicate'], status: 2, stderr: /unknown command/ },
  { args: ['rules', 'render', '--table', 'x'], status: 2, stderr: /plugin, mesh, both/ },
  { args: ['rules', 'render', '--annotation', 'x'], status: 2, stderr: /KEY=VALUE/ },
  {
    args: ['rules', 'render', '--annotation', 'capture.aether.io/exclude-outbound-ports=0'],
    status: 2,
    stderr: /ports\[0\]/,
  },
  { args: ['rules', 'render', '--config', '/nonexistent/x'], status: 1, stderr: /nonexistent/ },
];
for (const { args, status, stdout = /^$/, stderr = /^$/ } of EXITS) {
  t.test(`aether-cni ${args.join(' ')} ends with ${status}`, async (t) => {
    t.match(run(...args), { status, stdout, stderr });
  });
}

t.test('version is that of package.json', async (t) => {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  t.equal(run('--version').stdout, `${manifest.version}\n`);
});

const netns = makeNetns(t, 'cli');
const RENDERED = [
  { name: 'defaults', args: [], has: 'tcp dport 18082 redirect to :18001', lacks: 'meta l4proto tcp redirect' },
  { name: 'both tables', args: ['--table', 'both'], has: 'table inet aether_mesh', lacks: 'meta l4proto tcp redirect' },
  {
    name: 'annotations',
    args: [
      ...['--annotation', 'capture.aether.io/redirect-all=true'],
      ...['--annotation', 'capture.aether.io/exclude-outbound-ports=22,8000-8100'],
    ],
    has: '22, 8000-8100',
    lacks: 'aether_mesh',
  },
];
for (const { name, args, has, lacks } of RENDERED) {
  t.test(`rules render with ${name} gives what nft takes`, async (t) => {
    const { stdout, status } = run('rules', 'render', ...args);
    t.equal(status, 0);
    t.ok(stdout.includes(has));
    t.notOk(stdout.includes(lacks));
    const nft = spawnSync('ip', ['netns', 'exec', netns.name, 'nft', '-c', '-f', '-'], {
      input: stdout,
      encoding: 'utf8',
    });
    t.strictSame([nft.stderr, nft.status], ['', 0]);
  });
}

t.test('rules render reads a configuration, and our entry of a conflist', async (t) => {
  const entry = { type: 'aether-cni', capture_redirect_all_default: true, mesh_dns_enabled: true, host_ip: '10.0.0.1' };
  for (const value of [entry, { cniVersion: '1.0.0', name: 'n', plugins: [{ type: 'bridge' }, entry] }]) {
    writeFileSync(join(dir, 'conf'), JSON.stringify(value));
    const { stdout, stderr } = run('rules', 'render', '--config', join(dir, 'conf'));
    t.match(stdout, /dnat ip to 10\.0\.0\.1:18054/);
    t.match(stdout, /meta l4proto tcp redirect to :18001/);
    t.equal(stderr, '');
  }
  writeFileSync(join(dir, 'conf'), '{"plugins":[{"type":"bridge"}]}');
  t.match(run('rules', 'render', '--config', join(dir, 'conf')), { status: 2, stderr: /no entry of type/ });
  writeFileSync(join(dir, 'conf'), '{"plugins":');
  t.match(run('rules', 'render', '--config', join(dir, 'conf')), { status: 1, stderr: /line 1 column 12/ });
});
