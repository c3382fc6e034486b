// The relay with the agent as a process that is stopped and killed, on a bare host, and in numbers; and its fuzz target.
import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { RelayHandler } from '../../src/adapters/relay/relay-connection.ts';
import { encodeAnswer, MARKER_TAKEN } from '../../src/cni/relay-frame.ts';
import { formatVersionAnswer } from '../../src/cni/versions.ts';
import { recordLog, until } from '../adapters/relay/relay-world.ts';
import { buildRelay, built, envOf, errorCode, install, isStandalone, run, runInShell, VERBS } from './relay-program.ts';
import { serve, serveRaw, startAgent } from './relay-servers.ts';

buildRelay();
t.jobs = 4; // most of the time is waited

t.test('an agent that was stopped does nothing for a relay that went another way', { buffered: true }, async (t) => {
  using relay = install('aether-cni-relay');
  await using agent = await startAgent(relay.socketPath);
  agent.kill('SIGSTOP');
  const env = envOf(relay, 'ADD', { AETHER_RELAY_TIMEOUT_MS: '300' });
  t.ok(isStandalone(await run(relay.path, { env, stdin: '{}' }), 'ADD', '{}'));
  agent.kill('SIGCONT');
  const next = await run(relay.path, { env: envOf(relay, 'ADD', { CNI_CONTAINERID: 'c2' }), stdin: '{}' });
  t.equal(next.stdout.toString(), 'agent c2');
  t.same(agent.lines, ['ready', 'acts ADD c2'], 'c1 was not touched');
});

t.test('an agent that does not read is waited for as long as the configuration says', { buffered: true }, async (t) => {
  using relay = install('aether-cni-relay');
  await using agent = await startAgent(relay.socketPath);
  agent.kill('SIGSTOP');
  const cases = [
    { stdin: '{"agent_timeout_ms": 1500, "x": "\\"agent_timeout_ms\\":1"}', from: 1400, to: 4500 },
    { stdin: '{"agent_timeout_ms":"1"}', from: 4900, to: 12_000 },
  ];
  const runs = cases.map(async ({ stdin, from, to }) => {
    const result = await run(relay.path, { env: envOf(relay, 'ADD'), stdin });
    t.ok(isStandalone(result, 'ADD', stdin), stdin);
    t.ok(result.ms > from && result.ms < to, `${Math.round(result.ms)} ms`);
  });
  await Promise.all(runs);
});

t.test(
  'an agent that hangs holds up a DEL for a second, one that has no processor for longer',
  { buffered: true },
  async (t) => {
    using relay = install('aether-cni-relay');
    await using agent = await startAgent(relay.socketPath);
    const env = envOf(relay, 'DEL');
    agent.kill('SIGSTOP');
    const stopped = await run(relay.path, { env, stdin: '{}' });
    t.ok(isStandalone(stopped, 'DEL', '{}'));
    t.ok(stopped.ms > 950 && stopped.ms < 3500, `${Math.round(stopped.ms)} ms`);
    agent.kill('SIGCONT');
    agent.kill('SIGUSR2');
    await until(() => agent.lines.includes('works'));
    const busy = await run(relay.path, { env, stdin: '{}' });
    t.equal(busy.stdout.toString(), 'agent c1', `${Math.round(busy.ms)} ms`);
  },
);

t.test('an agent that has read the call and others before it is waited for longer', { buffered: true }, async (t) => {
  using relay = install('aether-cni-relay');
  const whole = encodeAnswer({ stdout: 'at last', exitCode: 0 });
  await using _server = await serveRaw(relay, (socket) => void setTimeout(() => socket.end(whole), 2500));
  const result = await run(relay.path, { env: envOf(relay, 'ADD'), stdin: '{"agent_timeout_ms":500}' });
  t.equal(result.stdout.toString(), 'at last');
});

t.test('an agent that takes the call in the last moment of a relay cannot', { buffered: true }, async (t) => {
  using relay = install('aether-cni-relay', { standalone: false });
  const marked = Promise.withResolvers<string | undefined>();
  // The relay gives up after 200 ms and, held here, closes its socket at 1700.
  await using _server = await serveRaw(relay, (socket) => {
    setTimeout(() => {
      socket.write(Buffer.of(MARKER_TAKEN), (error) => marked.resolve((error as NodeJS.ErrnoException | null)?.code));
    }, 1000);
  });
  const args = ['-qq', '-o', '/dev/null', '-e', 'inject=close:delay_enter=1500ms', relay.path];
  const env = envOf(relay, 'ADD', { AETHER_RELAY_TIMEOUT_MS: '200' });
  const result = await run('/usr/bin/strace', { args, env, stdin: '{}' });
  t.match(result.stdout.toString(), /does not answer, and/, 'it went another way');
  t.equal(await marked.promise, 'EPIPE', 'the marker failed, so nothing is done');
});

t.test(
  'an agent killed within a call: 11 for ADD, the standalone program for the rest, at once',
  { buffered: true },
  async (t) => {
    for (const verb of VERBS) {
      using relay = install('aether-cni-relay');
      await using agent = await startAgent(relay.socketPath);
      const running = run(relay.path, { env: envOf(relay, verb, { CNI_CONTAINERID: 'never' }), stdin: '{}' });
      await until(() => agent.lines.length > 1);
      agent.kill('SIGKILL');
      const result = await running;
      t.ok(verb === 'ADD' ? errorCode(result) === 11 : isStandalone(result, verb, '{}'), verb);
      t.ok(result.ms < 10_000);
    }
  },
);

t.test('a full backlog counts as no agent after a second', { buffered: true }, async (t) => {
  using relay = install('aether-cni-relay');
  await using agent = await startAgent(relay.socketPath);
  agent.kill('SIGSTOP');
  const limit = Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'));
  const fillers: Socket[] = [];
  const full = Promise.withResolvers<void>();
  for (let i = 0; i < limit + 10; i++) fillers.push(connect(relay.socketPath).on('error', () => full.resolve()));
  await full.promise;
  const result = await run(relay.path, { env: envOf(relay, 'ADD'), stdin: '{}' });
  for (const socket of fillers) socket.destroy();
  t.ok(isStandalone(result, 'ADD', '{}'));
  t.ok(result.ms > 900 && result.ms < 10_000, `${Math.round(result.ms)} ms`);
});

t.test('the agent refuses a relay that root did not start', { buffered: true }, async (t) => {
  using relay = install('aether-cni-relay');
  const log = recordLog();
  const handle: RelayHandler = async ({ peer }) => ({ stdout: JSON.stringify(peer), exitCode: 0 });
  await using _server = await serve(relay, handle, { mode: 0o666, log });
  const env = envOf(relay, 'ADD');
  t.ok(isStandalone(await run(relay.path, { env, stdin: '{}', uid: 65534 }), 'ADD', '{}'));
  t.match(log.events, [{}, { event: 'relay.client.refused', fields: { uid: 65534 } }]);
  const root = JSON.parse((await run(relay.path, { env, stdin: '{}' })).stdout.toString()) as { uid: number };
  t.equal(root.uid, 0);
});

t.test('the shipped relay needs nothing of its host, and little of the kernel', { buffered: true }, async (t) => {
  t.ok(statSync(built('aether-cni-relay')).size < 100_000, 'size');

  await t.test('an empty root file system, no /proc', async (t) => {
    using relay = install('aether-cni-relay', { standalone: false });
    await using _server = await serve(relay, async () => ({ stdout: 'fine', exitCode: 0 }));
    const inRoot = (env: Record<string, string>) =>
      run('/usr/sbin/chroot', { args: [relay.dir, '/aether-cni'], env, stdin: '{}' });
    t.equal((await inRoot({ CNI_COMMAND: 'VERSION' })).stdout.toString(), formatVersionAnswer());
    const add = await inRoot({ CNI_COMMAND: 'ADD', AETHER_RELAY_SOCKET: '/relay.sock' });
    t.equal(add.stdout.toString(), 'fine');
    t.equal(errorCode(await inRoot({ CNI_COMMAND: 'ADD', AETHER_RELAY_SOCKET: '/none' })), 11);
    const hello = 'int puts(const char *); int main(void) { puts("standalone"); return 0; }';
    execFileSync('musl-gcc', ['-static', '-xc', '-o', `${relay.path}-standalone`, '-'], { input: hello });
    const fallback = await inRoot({ CNI_COMMAND: 'ADD', AETHER_RELAY_SOCKET: '/none' });
    t.equal(fallback.stdout.toString(), 'standalone\n', 'found without /proc');
  });

  await t.test('one exec, no fork, at most 20 system calls', async (t) => {
    using relay = install('aether-cni-relay');
    await using _server = await serve(relay, async () => ({ stdout: 'fine', exitCode: 0 }));
    const trace = join(relay.dir, 'trace');
    const args = ['-f', '-qq', '-o', trace, relay.path];
    const result = await run('/usr/bin/strace', { args, env: envOf(relay, 'ADD'), stdin: '{}' });
    t.equal(result.stdout.toString(), 'fine');
    const calls = readFileSync(trace, 'utf8')
      .split('\n')
      .map((line) => /^\d+ +(\w+)\(/.exec(line)?.[1])
      .filter((name) => name !== undefined);
    t.ok(calls.length > 5 && calls.length <= 20, `${calls.length}: ${calls.join(' ')}`);
    t.equal(calls.filter((name) => name === 'execve').length, 1);
    t.notOk(
      calls.some((name) => /fork|clone|open|creat|mkdir|pipe|memfd/.test(name)),
      'no file, no process',
    );
  });

  await t.test('the way to the standalone file makes no file and no process either', async (t) => {
    using relay = install('aether-cni-relay');
    const trace = join(relay.dir, 'trace');
    const args = ['-f', '-qq', '-o', trace, relay.path];
    t.ok(isStandalone(await run('/usr/bin/strace', { args, env: envOf(relay, 'ADD'), stdin: '{}' }), 'ADD', '{}'));
    const lines = readFileSync(trace, 'utf8').split('\n');
    // What comes after the second program's start is not the relay's any more.
    const own = lines.slice(
      0,
      lines.findIndex((line, index) => index > 0 && line.includes('execve(')),
    );
    t.ok(own.length > 5);
    const makes = /\b(v?fork|clone3?|open(at2?)?|creat|mkdir(at)?|pipe2?|(sym)?link(at)?)\(/;
    t.strictSame(
      own.filter((line) => makes.test(line)),
      [],
    );
  });
});

t.test('the parsers of answers and requests stand their fuzz target', { buffered: true }, async (t) => {
  for (const seed of ['1', String(Date.now())]) {
    const fuzz = await run(built('relay-fuzz'), { args: ['200000', seed] });
    t.equal(fuzz.code, 0, `seed ${seed} ${fuzz.stderr}`);
    t.match(fuzz.stdout.toString(), /[1-9]\d{3,} complete answers, [1-9]\d{3,} whole requests/);
  }
});

t.test('the relay connects only when it has all of its stdin', { buffered: true }, async (t) => {
  // A client without a whole request is dropped after a while; a runtime may take longer to write.
  using relay = install('aether-cni-relay');
  const handle = async () => ({ stdout: 'fine', exitCode: 0 });
  await using _server = await serve(relay, handle, { limits: { requestMs: 1000 } });
  const slow = await runInShell('(sleep 1.5; echo "{}") | "$0"', relay.path, { env: envOf(relay, 'ADD') });
  t.equal(slow.stdout.toString(), 'fine');
});
