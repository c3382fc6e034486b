// Bad input through the real programs, both forms: one JSON error with the right code, or for DEL nothing; and no change in
// kernel, disk or agent. The whole matrix is in bad-input.test.ts. K018, K022, K023, K035, K062, K094.
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { denial } from '../support/hostile-fault.ts';
import {
  type CallOptions,
  configOf,
  makePod,
  prevResultOf,
  type Run,
  renewed,
  runCall,
  runGc,
  startNodeAgent,
} from '../support/hostile-node.ts';
import { PLACES, ROOM_DIR, t } from '../support/hostile-room.ts';
import { readSettledState, waitForState } from '../support/hostile-state.ts';

t.setTimeout(600_000);
const FORMS = ['full', 'relay'] as const;
let agent = await startNodeAgent();
t.teardown(() => agent.stop());
const bystander = makePod();
const pod = makePod();
await runCall('relay', 'ADD', { pod: bystander });
const pods = [bystander, pod];
const before = await readSettledState(pods);
const good = JSON.stringify(configOf(pod));

/** The one error object of a run that failed; '' where all is as it must be. */
function describeFlaws(
  { exit, stdout, stderr }: Run,
  expected: { readonly code: number; readonly says: RegExp },
): string {
  const object = JSON.parse(stdout) as Record<string, unknown>;
  const said = `${String(object['msg'])} ${String(object['details'])}`;
  const flaws = [
    exit === 1 ? '' : `exit ${exit}`,
    stdout.indexOf('\n') === stdout.length - 1 ? '' : 'not one line',
    object['code'] === expected.code ? '' : `code ${String(object['code'])}`,
    typeof object['cniVersion'] === 'string' ? '' : 'no version',
    expected.says.test(said) ? '' : said,
    /\n\s*at |\.(ts|js|cjs):\d/.test(stdout + stderr) ? `a stack trace: ${stderr}` : '',
  ];
  return flaws.filter((flaw) => flaw !== '').join(', ');
}

async function checkUnchanged(t: Test, what: string): Promise<void> {
  t.strictSame(await waitForState(before, pods), before, `nothing has changed: ${what}`);
}

interface BadCall extends CallOptions {
  readonly what: string;
  readonly code: number;
  readonly says: RegExp;
}

const regularFile = join(ROOM_DIR, 'test-file');
writeFileSync(regularFile, '');
const variable = (name: string, value: string | undefined, code: number): BadCall => ({
  what: `${name}=${value === undefined ? '(none)' : value.slice(0, 40)}`,
  variables: { [name]: value },
  code,
  says: new RegExp(code === 4 ? name : '/'),
});
const key = (config: Readonly<Record<string, unknown>>, says: RegExp): BadCall => ({
  what: JSON.stringify(config).slice(0, 60),
  config,
  code: 7,
  says,
});
const text = (what: string, stdin: string | Buffer): BadCall => ({ what, stdin, code: 6, says: /decoding|16 MiB/ });

const BAD_CALLS: readonly BadCall[] = [
  ...['CNI_CONTAINERID', 'CNI_NETNS', 'CNI_IFNAME'].flatMap((name) =>
    [undefined, ''].map((value) => variable(name, value, 4)),
  ),
  variable('CNI_CONTAINERID', '../x', 4),
  variable('CNI_IFNAME', 'eth0; flush ruleset', 4),
  variable('CNI_ARGS', 'K8S_POD_NAMESPACE=../../etc', 4),
  // K023, K035: a namespace that is gone, that is none, that is the node's or the plugin's own.
  variable('CNI_NETNS', '/run/netns/never-was', 3),
  variable('CNI_NETNS', '/proc/999999/ns/net', 3),
  { ...variable('CNI_NETNS', regularFile, 4), says: /test-file/ },
  { ...variable('CNI_NETNS', ROOM_DIR, 4), says: /not a network namespace/ },
  { ...variable('CNI_NETNS', '/proc/self/ns/mnt', 4), says: /not a network namespace/ },
  { ...variable('CNI_NETNS', '/proc/self/ns/net', 100), says: /own/ },
  { ...variable('CNI_NETNS', '/proc/1/ns/net', 100), says: /own/ },
  text('nothing', ''),
  text('garbage', '\u0000\u0001garbage'),
  text('no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d])),
  ...[1, 0.25, 0.5, 0.75, 0.99].map((part) => text(`cut at ${part}`, good.slice(0, Math.ceil(good.length * part) - 1))),
  text('5 MB of good JSON', `${good.slice(0, -1)},"x":"${'y'.repeat(5 * 1024 * 1024)}"}`),
  text('17 MB', ' '.repeat(17 * 1024 * 1024)),
  key({ prevResult: null }, /prevResult.*chained/),
  key({ agent_timeout_ms: '5000', log_level: 1 }, /agent_timeout_ms.*log_level/),
  key({ exclude_outbound_ports: '80,70000' }, /exclude_outbound_ports\[1\]/),
  { what: 'a key twice', stdin: `{"name":"net",${good.slice(1)}`, code: 7, says: /name: is given twice/ },
  { what: 'a version of the future', config: { cniVersion: '9.9.9' }, code: 1, says: /9\.9\.9.*1\.1\.0/ },
  { what: 'no version', config: { cniVersion: undefined }, code: 1, says: /0\.2\.0/ },
  // K062: path options that point at the wrong thing. (The relay's agent has sockets of its own.)
  key({ agent_cni_path: 'relative.sock' }, /agent_cni_path/),
];
const FULL_ONLY: readonly BadCall[] = [
  ['nothing', '/nowhere/cni.sock'],
  ['a directory', ROOM_DIR],
  ['a file', regularFile],
].map(([what, path]) => ({
  what: `agent_cni_path that is ${what}`,
  config: { agent_cni_path: path, agent_timeout_ms: 200 },
  ...{ code: 11, says: /agent/ },
}));
const WRONG_DIRS: readonly BadCall[] = [
  { what: 'netns_pin_dir below a file', config: { netns_pin_dir: `${regularFile}/pins` }, code: 5, says: /test-file/ },
  { what: 'netns_pin_dir where nothing can be made', config: { netns_pin_dir: '/proc/pins' }, code: 5, says: /\/proc/ },
];

for (const form of FORMS) {
  await t.test(`bad calls of the ${form} plugin give one error each and change nothing`, async (t) => {
    const calls = [...BAD_CALLS, ...WRONG_DIRS, ...(form === 'full' ? FULL_ONLY : [])];
    for (const { what, code, says, ...call } of calls) {
      const run = await runCall(form, 'ADD', { ...call, pod: renewed(pod) });
      t.equal(describeFlaws(run, { code, says }), '', `ADD with ${what}`);
    }
    await checkUnchanged(t, 'ADD');
    for (const { what, code, says, ...call } of calls) {
      const run = await runCall(form, 'DEL', { ...call, pod: renewed(pod) });
      t.strictSame([run.exit, run.stdout], [0, ''], `DEL with ${what}: ${run.stderr}`);
      t.notMatch(run.stderr, /\n\s*at /);
    }
    await checkUnchanged(t, 'DEL');
  });

  await t.test(`standard input of the ${form} plugin that never ends gets an answer`, async (t) => {
    const inputs = ['', '{"name":', good];
    const adds = inputs.map(async (stdin) => {
      const run = await runCall(form, 'ADD', { pod: renewed(pod), stdin, open: true });
      t.equal(describeFlaws(run, { code: 5, says: /stdin/ }), '');
      t.ok(run.ms < 15_000, `${Math.round(run.ms)} ms`);
    });
    const dels = inputs.map(async (stdin) => {
      const run = await runCall(form, 'DEL', { pod: renewed(pod), stdin, open: true });
      t.strictSame([run.exit, run.stdout], [0, ''], run.stderr);
    });
    await Promise.all([...adds, ...dels]);
    await checkUnchanged(t, 'stdin');
  });

  await t.test(`a log that cannot be written never fails an ADD of the ${form} plugin`, async (t) => {
    const full = mountSmall('test-full', 'size=4k');
    writeFileSync(join(full, 'filler'), 'x'.repeat(4096));
    const readOnly = mountSmall('test-ro', 'size=4k,ro');
    symlinkSync('/nowhere/at/all', join(ROOM_DIR, 'test-dangling'));
    execFileSync('mkfifo', [join(ROOM_DIR, 'test-fifo')]);
    const files = [
      join(ROOM_DIR, 'test-missing/deep/plugin.log'),
      join(full, 'plugin.log'),
      join(full, 'filler'),
      join(readOnly, 'plugin.log'),
      ROOM_DIR,
      `${regularFile}/plugin.log`,
      join(ROOM_DIR, 'test-dangling'),
      join(ROOM_DIR, 'test-fifo'),
    ];
    for (const log_file of files) {
      const one = renewed(pod);
      const run = await runCall(form, 'ADD', { pod: one, config: { log_file } });
      t.strictSame([run.exit, run.stdout], [0, `${JSON.stringify(prevResultOf(pod))}\n`], `${log_file}: ${run.stdout}`);
      t.notMatch(run.stderr, /\n\s*at /);
      const del = await runCall(form, 'DEL', { pod: one, config: { log_file } });
      t.strictSame([del.exit, del.stdout], [0, '']);
    }
    for (const dir of [full, readOnly]) execFileSync('umount', [dir]);
    for (const name of ['missing', 'full', 'ro', 'dangling', 'fifo']) {
      rmSync(join(ROOM_DIR, `test-${name}`), { recursive: true, force: true });
    }
    await checkUnchanged(t, 'logs');
  });
}

/** An empty tmpfs of its own in the room. */
function mountSmall(name: string, options: string): string {
  const dir = join(ROOM_DIR, name);
  mkdirSync(dir);
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'aether-test', dir]);
  return dir;
}

const DENIED: readonly {
  readonly call: string;
  readonly part: string;
  readonly code?: number;
  readonly says?: RegExp;
}[] = [
  { call: 'open', part: 'plugin.log' },
  { call: 'mkdir', part: 'netns.attachments', code: 5, says: /EACCES.*netns\.attachments/ },
  { call: 'open', part: 'netns.attachments/', code: 5, says: /EACCES.*netns\.attachments/ },
  { call: 'connect', part: 'cni.sock', code: 11, says: /EACCES.*cni\.sock/ },
];
for (const { call, part, code, says } of DENIED) {
  await t.test(`K094 the plugin is denied ${call} of ${part}`, async (t) => {
    const one = renewed(pod);
    if (call === 'mkdir') rmSync(`${PLACES.pinDir}.attachments/${bystander.containerId}`);
    if (call === 'mkdir') rmSync(`${PLACES.pinDir}.attachments`, { recursive: true });
    const run = await runCall('full', 'ADD', {
      pod: one,
      variables: denial(call, part),
      config: { agent_timeout_ms: 300 },
    });
    if (code === undefined)
      t.strictSame([run.exit, run.stdout], [0, `${JSON.stringify(prevResultOf(pod))}\n`], run.stdout);
    else t.equal(describeFlaws(run, { code, says: says ?? /./ }), '');
    const del = await runCall('full', 'DEL', { pod: one, variables: denial(call, part) });
    t.strictSame([del.exit, del.stdout], [0, ''], del.stderr);
    await runCall('full', 'DEL', { pod: one });
    // The bystander's note went with the directory.
    if (call === 'mkdir') await runCall('relay', 'ADD', { pod: bystander });
    await checkUnchanged(t, part);
  });
}

const AGENT_DENIED: readonly { readonly call: string; readonly part: string }[] = [
  ...['cni.sock', 'relay.sock', 'admin.sock', 'xds.sock'].map((part) => ({ call: 'bind', part })),
  { call: 'mkdir', part: 'registry' },
  { call: 'open', part: 'vips.json' },
];
for (const { call, part } of AGENT_DENIED) {
  await t.test(`K094 the agent is denied ${call} of ${part}`, async (t) => {
    await agent.stop();
    const outcome = await startNodeAgent({ env: denial(call, part) }).then(
      async (started) => {
        await started.stop();
        return 'it started';
      },
      (error: unknown) => (error instanceof Error ? error.message : 'no error'),
    );
    t.match(outcome, /agent ended[\s\S]*EACCES/, 'it ends');
    t.ok(outcome.includes(part), 'and names what it was denied');
    t.notMatch(outcome, /\n\s+at /);
    agent = await startNodeAgent();
    await checkUnchanged(t, part);
  });
}

await t.test('K018 STATUS says why an ADD could not succeed', async (t) => {
  const status = (form: 'full' | 'relay') => runCall(form, 'STATUS', { pod, config: { prevResult: undefined } });
  for (const form of FORMS) t.strictSame([(await status(form)).exit, (await status(form)).stdout], [0, ''], form);
  await agent.stop('SIGKILL');
  for (const form of FORMS) {
    t.equal(describeFlaws(await status(form), { code: 50, says: /agent/ }), '', `${form}: nobody listens`);
  }
  agent = await startNodeAgent();
  process.kill(agent.pid, 'SIGSTOP');
  for (const form of FORMS) {
    const run = await runCall(form, 'STATUS', {
      ...{ pod, config: { prevResult: undefined } },
      variables: { AETHER_RELAY_TIMEOUT_MS: '300' },
    });
    t.equal(describeFlaws(run, { code: 50, says: /agent/ }), '', `${form}: it never answers`);
  }
  process.kill(agent.pid, 'SIGCONT');
  await agent.stop();
  for (const form of FORMS) {
    t.equal(describeFlaws(await status(form), { code: 50, says: /agent/ }), '', `${form}: no socket`);
  }
  agent = await startNodeAgent();
  await checkUnchanged(t, 'STATUS');
});

/** Foreign things in a directory of ours, `/` at the end for a directory; some are called as a container might be. A pipe has no other end. */
const FOREIGN: readonly { readonly dir: string; readonly names: readonly string[] }[] = [
  { dir: PLACES.pinDir, names: ['.lock', 'x.tmp', 'README', 'a b', 'folder/', 'link', 'pipe'] },
  { dir: `${PLACES.pinDir}.attachments`, names: ['.lock', 'x.tmp', 'README', 'a b', 'folder/', 'link', 'pipe'] },
  {
    dir: PLACES.recordDir,
    names: ['.lock', 'x.tmp', 'README', 'folder.json/', '.hidden.json', 'odd name.json', 'link.json', 'pipe.json'],
  },
  {
    dir: PLACES.deleteQueueDir,
    names: ['.lock', 'x.tmp', 'README', 'folder.json/', 'a b.json', 'link.json', 'pipe.json'],
  },
];

await t.test('K014 foreign files in our directories are left alone and stop nothing', async (t) => {
  const put = FOREIGN.flatMap(({ dir, names }) => names.map((name) => join(dir, name)));
  for (const path of put) {
    mkdirSync(dirname(path), { recursive: true });
    if (path.endsWith('/')) mkdirSync(path);
    else if (basename(path).startsWith('link')) symlinkSync('/nowhere/at/all', path);
    else if (basename(path).startsWith('pipe')) execFileSync('mkfifo', [path]);
    else writeFileSync(path, 'not ours');
  }
  await agent.stop();
  agent = await startNodeAgent();
  for (const form of FORMS) {
    for (const verb of ['ADD', 'CHECK', 'DEL'] as const) {
      const run = await runCall(form, verb, { pod });
      t.equal(run.exit, 0, `${form} ${verb}: ${run.stdout}${run.stderr}`);
    }
    const gc = await runGc(form, [bystander]);
    t.strictSame([gc.exit, gc.stdout, gc.stderr], [0, '', ''], `${form} GC`);
  }
  // Longer than the agent takes to look at what waits for it.
  await sleep(6000);
  for (const path of put) t.ok(lstatSync(path, { throwIfNoEntry: false }), `${path} is still there`);
  const log = agent.tail();
  t.notMatch(log, /removal.failed/, log);
  for (const path of put) rmSync(path, { recursive: true });
  await agent.stop();
  agent = await startNodeAgent();
  await checkUnchanged(t, 'foreign files');
});

await t.test('an agent whose disk is full refuses pods and goes on', async (t) => {
  await agent.stop();
  const other = join(ROOM_DIR, 'test-small');
  mkdirSync(other);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'aether-test', other]);
  execFileSync('cp', ['-a', `${join(PLACES.recordDir, '..')}/.`, other]);
  execFileSync('mount', ['--bind', other, join(PLACES.recordDir, '..')]);
  agent = await startNodeAgent();
  // Fails for lack of room, after writing what there is.
  try {
    writeFileSync(join(other, 'registry/filler'), 'x'.repeat(1024 * 1024));
  } catch {}
  for (const form of FORMS) {
    const one = renewed(pod);
    const add = await runCall(form, 'ADD', { pod: one });
    t.equal(add.exit, 1, 'no pod without a record');
    t.match(JSON.parse(add.stdout), { code: Number, msg: /ENOSPC/ });
    const del = await runCall(form, 'DEL', { pod: one });
    t.strictSame([del.exit, del.stdout], [0, ''], del.stderr);
  }
  t.ok(agent.isAlive());
  rmSync(join(other, 'registry/filler'));
  for (const form of FORMS) {
    const one = renewed(pod);
    const add = await runCall(form, 'ADD', { pod: one });
    t.equal(add.exit, 0, `with room again: ${add.stdout}`);
    await runCall(form, 'DEL', { pod: one });
  }
  await agent.stop();
  execFileSync('umount', [join(PLACES.recordDir, '..')]);
  execFileSync('umount', [other]);
  rmSync(other, { recursive: true });
  agent = await startNodeAgent();
  await checkUnchanged(t, 'disk');
});

await t.test('an agent whose log is full or gone goes on', async (t) => {
  await agent.stop();
  const log = join(ROOM_DIR, 'agent.log');
  rmSync(log, { force: true });
  const full = mountSmall('test-log', 'size=4k');
  writeFileSync(join(full, 'log'), 'x'.repeat(4096));
  symlinkSync(join(full, 'log'), log);
  agent = await startNodeAgent();
  for (const form of FORMS) {
    const one = renewed(pod);
    for (const verb of ['ADD', 'CHECK', 'DEL'] as const) {
      const run = await runCall(form, verb, { pod: one });
      t.equal(run.exit, 0, `${form} ${verb}: ${run.stdout}`);
    }
  }
  t.ok(agent.isAlive());
  await agent.stop();
  rmSync(log);
  execFileSync('umount', [full]);
  rmSync(full, { recursive: true });
  agent = await startNodeAgent();
  await checkUnchanged(t, 'log');
});

await t.test('the calls that were spoilt are good ones', async (t) => {
  for (const form of FORMS) {
    const one = renewed(pod);
    for (const verb of ['ADD', 'CHECK', 'DEL'] as const) {
      const run = await runCall(form, verb, { pod: one });
      t.strictSame([run.exit, run.stderr], [0, ''], `${form} ${verb} ${run.stdout}`);
    }
  }
  await checkUnchanged(t, 'good calls');
});
