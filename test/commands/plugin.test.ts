// The program as a runtime starts it: a real process with variables and stdin, one document on stdout, nothing left behind.
// Root only: namespaces and pins are real.
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { buildNative } from '../support/native.ts';
import { execIn, makeNetns } from '../support/netns.ts';
import { pluginPlaces } from '../support/plugin-places.ts';

const ROOT = join(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'src/main.ts');
const dir = mkdtempSync('/tmp/ae-plugin-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
buildNative();
const pod = makeNetns(t, 'plugin');

const ANNOTATIONS = 'io.kubernetes.cri.pod-annotations';
const PREV_RESULT = { cniVersion: '1.0.0', ips: [{ address: '10.1.2.3/24' }], big: 'BIG' };
const CONFIG = {
  cniVersion: '1.0.0',
  name: 'net',
  type: 'aether-cni',
  ...pluginPlaces(dir),
  log_file: join(dir, 'log/plugin.log'),
  agent_timeout_ms: 300,
  runtimeConfig: { [ANNOTATIONS]: { 'aether.io/managed': 'true' } },
  prevResult: PREV_RESULT,
};
const ENV = {
  CNI_CONTAINERID: 'c1',
  CNI_NETNS: pod.path,
  CNI_IFNAME: 'eth0',
  CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=demo;K8S_POD_NAME=shop-0',
  CNI_PATH: '/opt/cni/bin',
};
const EXCLUDED = { CNI_ARGS: 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=x' };

interface Run {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly stdin?: string;
  /** A program that starts it. */
  readonly under?: readonly string[];
}

function run(
  verb: string | undefined,
  { env = {}, config = {}, stdin, under = [] }: Run = {},
): SpawnSyncReturns<string> {
  const input = stdin ?? JSON.stringify({ ...CONFIG, ...config }).replace('"BIG"', '12345678901234567890.10');
  // Nothing of the test's own environment: a runtime gives little, no HOME and no locale.
  const variables = { PATH: '/usr/bin', CNI_COMMAND: verb, ...ENV, ...env };
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined));
  const [command = '', ...args] = [...under, process.execPath, MAIN];
  return spawnSync(command, args, { env: given, input, encoding: 'utf8', timeout: 20_000 });
}

/** All that a failed call may have left. */
function leftovers(): readonly string[] {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return [
    ...mounts.filter((line) => line.includes(`${dir}/pins/`)),
    ...['pins', 'queue', 'pins.attachments'].flatMap((name) =>
      existsSync(join(dir, name)) ? readdirSync(join(dir, name)) : [],
    ),
    ...execIn(pod, ['nft', 'list', 'tables']).split('\n'),
  ].filter((line) => line !== '');
}

t.test('VERSION answers without stdin', async (t) => {
  const { stdout, stderr, status } = run('VERSION', { stdin: '' });
  t.match(JSON.parse(stdout), {
    cniVersion: '1.1.0',
    supportedVersions: ['0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0'],
  });
  t.strictSame([stderr, status], ['', 0]);
});

const FAILING: readonly { readonly name: string; readonly call: Run; readonly code: number; readonly msg: RegExp }[] = [
  { name: 'no prevResult', call: { config: { prevResult: undefined } }, code: 7, msg: /chained/ },
  { name: 'prevResult null', call: { config: { prevResult: null } }, code: 7, msg: /chained/ },
  { name: 'malformed JSON', call: { stdin: '{"cniVersion":' }, code: 6, msg: /line 1 column 15/ },
  { name: 'empty stdin', call: { stdin: '' }, code: 6, msg: /unexpected end/ },
  { name: 'no container id', call: { env: { CNI_CONTAINERID: undefined } }, code: 4, msg: /CNI_CONTAINERID/ },
  {
    name: 'no variables at all',
    call: { env: { CNI_CONTAINERID: '', CNI_NETNS: '', CNI_IFNAME: '' } },
    code: 4,
    msg: /NETNS.*IFNAME/,
  },
  { name: 'no version', call: { config: { cniVersion: undefined } }, code: 1, msg: /0\.2\.0/ },
  { name: 'a future version', call: { config: { cniVersion: '9.9.9' } }, code: 1, msg: /9\.9\.9/ },
  { name: 'a wrong type', call: { config: { agent_timeout_ms: '5' } }, code: 7, msg: /agent_timeout_ms/ },
  { name: 'a vanished namespace (K023)', call: { env: { CNI_NETNS: '/run/netns/ae-none' } }, code: 3, msg: /ae-none/ },
  { name: 'a file that is no namespace', call: { env: { CNI_NETNS: '/etc/passwd' } }, code: 4, msg: /passwd/ },
  { name: 'its own namespace (K035)', call: { env: { CNI_NETNS: '/proc/self/ns/net' } }, code: 100, msg: /proc/ },
  { name: 'an absent agent (K039)', call: {}, code: 11, msg: /agent is not available/ },
];
for (const { name, call, code, msg } of FAILING) {
  t.test(`ADD with ${name} gives one document with code ${code} and leaves nothing`, async (t) => {
    const { stdout, status } = run('ADD', call);
    t.match(JSON.parse(stdout), { cniVersion: /^1\.[01]\.0$/, code, msg, details: String });
    t.equal(stdout.indexOf('\n'), stdout.length - 1);
    t.equal(status, 1);
    t.strictSame(leftovers(), []);
  });
}

t.test('ADD refuses the namespace of the host, also where it may not look at it (K035)', async (t) => {
  const { stdout, status } = run('ADD', { env: { CNI_NETNS: '/proc/1/ns/net' } });
  t.ok(JSON.parse(stdout).code >= 100);
  t.equal(status, 1);
  t.strictSame(leftovers(), []);
});

t.test('ADD waits for an absent agent no longer than it may', async (t) => {
  const start = performance.now();
  run('ADD', { config: { agent_timeout_ms: 1 } });
  const short = performance.now() - start;
  t.ok(short < 3000, `${short} ms`);
});

t.test('STATUS asks the kernel itself before it asks the agent (K018)', async (t) => {
  const config = { cniVersion: '1.1.0' };
  const away = JSON.parse(run('STATUS', { config }).stdout);
  t.match(away, { code: 50, msg: /agent is not available/ }, 'the kernel takes the rules');
  // A process that may make no namespace cannot know: nothing but the kernel can tell it so.
  const denied = run('STATUS', { config, under: ['setpriv', '--bounding-set=-sys_admin'] });
  t.match(JSON.parse(denied.stdout), { code: 50, msg: /asking the kernel .*EPERM/ });
});

t.test('ADD of an excluded pod hands on prevResult with the agent away', async (t) => {
  const { stdout, stderr, status } = run('ADD', { env: EXCLUDED });
  t.equal(stdout, '{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.3/24"}],"big":12345678901234567890.10}\n');
  t.strictSame([stderr, status], ['', 0]);
});

t.test('ADD hands on a large prevResult whole', async (t) => {
  const prevResult = { cniVersion: '1.0.0', vendor: 'x'.repeat(1_000_000) };
  const { stdout, status } = run('ADD', { env: EXCLUDED, config: { prevResult } });
  t.equal(status, 0);
  t.equal(stdout, `${JSON.stringify(prevResult)}\n`);
});

t.test('DEL ends well with the agent away, and queues the removal (K026)', async (t) => {
  for (const netns of [pod.path, '', '/run/netns/ae-none', '/etc/passwd', '/proc/self/ns/net']) {
    const start = performance.now();
    const { stdout, stderr, status } = run('DEL', { env: { CNI_NETNS: netns } });
    t.strictSame([stdout, stderr, status], ['', '', 0], netns);
    t.ok(performance.now() - start < 10_000);
    t.strictSame(readdirSync(join(dir, 'queue')), ['c1.json']);
  }
  rmSync(join(dir, 'queue'), { recursive: true });
});

t.test('DEL ends well with an agent that never answers', async (t) => {
  const sockets = new Set<{ destroy(): void }>();
  const path = join(dir, 'silent.sock');
  const server = createServer((socket) => sockets.add(socket.on('error', () => {}))).listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  // The child is waited for synchronously, so nobody here accepts either: the kernel's queue is silent enough.
  const { stdout, status } = run('DEL', { config: { agent_cni_path: path, agent_timeout_ms: 5000 } });
  t.strictSame([stdout, status], ['', 0]);
  t.strictSame(readdirSync(join(dir, 'queue')), ['c1.json']);
  for (const socket of sockets) socket.destroy();
  server.close();
  rmSync(join(dir, 'queue'), { recursive: true });
});

t.test('DEL ends well whatever stdin holds', async (t) => {
  for (const stdin of ['{', '\u0000', '[]']) {
    // Defaults would reach the paths of a real node: without an id there is nothing to do there.
    const { stdout, status } = run('DEL', { stdin, env: { CNI_CONTAINERID: '' } });
    t.strictSame([stdout, status], ['', 0]);
  }
});

const NOISE = {
  NODE_OPTIONS: '--trace-warnings --trace-exit',
  NODE_DEBUG: 'net,http2,stream',
  GRPC_TRACE: 'all',
  GRPC_VERBOSITY: 'DEBUG',
  NODE_EXTRA_CA_CERTS: '/nonexistent/ca.pem',
  LC_ALL: 'xx_YY',
};
for (const verb of ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION']) {
  t.test(`${verb} keeps stdout clean when everything is told to talk (K001)`, async (t) => {
    const config = { cniVersion: '1.1.0', 'cni.dev/valid-attachments': [] };
    const { stdout, stderr, status } = run(verb, { env: NOISE, config });
    if (verb === 'DEL' || verb === 'GC') t.equal(stdout, '');
    else t.ok(JSON.parse(stdout));
    t.equal(status, verb === 'ADD' || verb === 'STATUS' || verb === 'CHECK' ? 1 : 0);
    if (verb !== 'VERSION') t.match(stderr, /\S/, 'it did talk');
    rmSync(join(dir, 'queue'), { recursive: true, force: true });
  });
}

const asImport = (source: string): string => `--import=data:text/javascript,${encodeURIComponent(source)}`;
const CRASHES = [
  { name: 'an exception that nobody catches', source: 'setTimeout(() => { throw new Error("boom") }, 0)' },
  { name: 'a rejection that nobody handles', source: 'setTimeout(() => { Promise.reject(new Error("boom")) }, 0)' },
  { name: 'a module that cannot be loaded', source: hookResolve('/plugin.ts') },
  { name: 'a module that cannot be loaded later', source: hookResolve('/cni-client.ts') },
  { name: 'native code that cannot be loaded', source: hookResolve('/load-ffi.ts') },
];
function hookResolve(ending: string): string {
  return `import { registerHooks } from "node:module";
    registerHooks({ resolve(name, context, next) {
      if (name.endsWith("${ending}")) throw new Error("boom");
      return next(name, context);
    } });`;
}
for (const { name, source } of CRASHES) {
  t.test(`${name} still gives one document, or a DEL that ends well (K004)`, async (t) => {
    const env = { NODE_OPTIONS: asImport(source) };
    const { stdout, status } = run('ADD', { env });
    t.match(JSON.parse(stdout), { code: 999, msg: /boom/ });
    t.equal(status, 1);
    // A removal that was queued to be sure is no harm.
    rmSync(join(dir, 'queue'), { recursive: true, force: true });
    t.strictSame(leftovers(), []);
    const del = run('DEL', { env });
    t.strictSame([del.stdout, del.status], ['', 0]);
    rmSync(join(dir, 'queue'), { recursive: true, force: true });
  });
}

t.test('a process that got no processor time reads what came meanwhile', async (t) => {
  // The idle timer is made short, and the process stands still behind it.
  const source = `const real = setTimeout; globalThis.setTimeout = (call, ms, ...rest) => {
    if (ms !== 5000) return real(call, ms, ...rest);
    process.nextTick(() => { for (const end = Date.now() + 500; Date.now() < end; ); });
    return real(call, 100, ...rest);
  };`;
  const { stdout, status } = run('ADD', { env: { ...EXCLUDED, NODE_OPTIONS: asImport(source) } });
  t.equal(status, 0, stdout);
});

t.test('a log that cannot be written does not fail a call', async (t) => {
  writeFileSync(join(dir, 'plain'), '');
  const { stdout, stderr, status } = run('ADD', { env: EXCLUDED, config: { log_file: join(dir, 'plain/x.log') } });
  t.equal(status, 0);
  t.ok(JSON.parse(stdout));
  t.match(stderr, /no log is written/);
});

t.test('a closed stdout or stderr is survived', async (t) => {
  for (const redirection of ['>&-', '2>&-', '>&- 2>&-', '<&-']) {
    const script = `CNI_COMMAND=VERSION '${process.execPath}' '${MAIN}' ${redirection}`;
    t.equal(spawnSync('bash', ['-c', script]).status, 0, redirection);
  }
});

t.test('without CNI_COMMAND and arguments it says what it is, on stderr', async (t) => {
  for (const command of [undefined, '']) {
    const { stdout, stderr, status } = run(command);
    t.strictSame([stdout, status], ['', 0]);
    t.match(stderr, /0\.3\.0, 0\.3\.1, 0\.4\.0, 1\.0\.0, 1\.1\.0/);
  }
});

/** Names of the modules that a call loads. */
function modulesOf(verb: string, call: Run): string {
  const file = join(dir, 'modules');
  writeFileSync(file, '');
  const source = `import { registerHooks } from "node:module"; import { appendFileSync } from "node:fs";
    registerHooks({ load(url, context, next) { appendFileSync("${file}", url + "\\n"); return next(url, context); } });`;
  run(verb, { ...call, env: { ...call.env, NODE_OPTIONS: asImport(source) } });
  return readFileSync(file, 'utf8');
}

t.test('a call loads no more than it needs', async (t) => {
  const never = /commander|\/src\/(xds|agent|registry)\/|gen\/envoy|agent-process|peculiar|node_modules\/netlink/;
  const heavy = /grpc-js|ffi-rs|\/pino\//;
  const version = modulesOf('VERSION', {});
  t.match(version, /commands\/plugin\.ts/);
  t.notMatch(version, never);
  t.notMatch(version, heavy);
  const excluded = modulesOf('ADD', { env: EXCLUDED });
  t.notMatch(excluded, never);
  t.notMatch(excluded, /grpc-js|ffi-rs/);
  const add = modulesOf('ADD', {});
  t.match(add, /grpc-js/);
  t.match(add, /kernel\/rules\.ts|kernel\/namespaces\.ts/);
  t.notMatch(add, never);
});
