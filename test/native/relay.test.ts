// The relay against the real server and against servers that misbehave, as it is shipped and with sanitizers. What needs the
// agent as a process, or a bare host, is in relay-agent.test.ts.
import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { RelayCall } from '../../src/adapters/relay/relay-connection.ts';
import {
  encodeAnswer,
  MARKER_REFUSED,
  MARKER_TAKEN,
  STDERR_BYTES_MAX,
  STDIN_BYTES_MAX,
} from '../../src/cni/relay-frame.ts';
import { formatVersionAnswer, SUPPORTED_VERSIONS } from '../../src/cni/versions.ts';
import {
  buildRelay,
  envOf,
  errorCode,
  type Installed,
  install,
  isStandalone,
  PROGRAMS,
  run,
  runInShell,
  runVerbs,
  VERBS,
} from './relay-program.ts';
import { serve, serveRaw } from './relay-servers.ts';

buildRelay();
// Most of the time here is waited: both programs at once, and their longest waits beside the rest.
t.jobs = PROGRAMS.length;

const taken = Buffer.of(MARKER_TAKEN);
// Binds and ends without removing the file.
const BIND_AND_LEAVE = 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])';

for (const program of PROGRAMS) {
  t.test(program, { buffered: true }, async (t) => {
    t.jobs = 4;
    t.test('answers VERSION as the TypeScript side does, and reads no stdin', { buffered: true }, async (t) => {
      using relay = install(program, { standalone: false });
      const version = await run(relay.path, { env: { CNI_COMMAND: 'VERSION' }, stdin: 'open' });
      t.same([version.code, version.stdout.toString(), version.stderr], [0, formatVersionAnswer(), '']);
      t.ok(version.ms < 2000);
    });

    t.test('says what it is on stderr where it is called for nothing', { buffered: true }, async (t) => {
      using relay = install(program);
      for (const env of [{}, { CNI_COMMAND: '' }]) {
        const about = await run(relay.path, { env, stdin: 'open' });
        t.same([about.code, about.stdout.length], [0, 0]);
        t.match(about.stderr, SUPPORTED_VERSIONS.join(', '));
      }
    });

    t.test('hands over CNI_* and stdin, and prints the answer byte for byte', { buffered: true }, async (t) => {
      using relay = install(program);
      const calls: RelayCall[] = [];
      await using _server = await serve(relay, async (call) => {
        calls.push(call);
        return { stdout: Buffer.from([0x7b, 0, 0xff, 0x0a]), stderr: 'careful\n', exitCode: 200 };
      });
      const stdin = '{"name":"ü"}\n';
      const answer = await run(relay.path, { env: envOf(relay, 'ADD', { CNI_ARGS: 'A=1;B=ü', CNIX: 'no' }), stdin });
      t.same([answer.code, answer.stdout, answer.stderr], [200, Buffer.from([0x7b, 0, 0xff, 0x0a]), 'careful\n']);
      t.match(calls[0]?.env, { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c1', CNI_NETNS: undefined, CNI_ARGS: 'A=1;B=ü' });
      t.equal(Buffer.from(calls[0]?.stdin ?? []).toString(), stdin);
      for (const verb of VERBS) {
        t.equal((await run(relay.path, { env: envOf(relay, verb) })).code, 200, verb);
        t.equal(calls.at(-1)?.env['CNI_COMMAND'], verb);
      }
    });

    t.test('carries the largest stdin and answer, and names what is larger', { buffered: true }, async (t) => {
      using relay = install(program);
      await using _server = await serve(relay, async ({ stdin }) => ({
        stdout: Buffer.from(stdin),
        stderr: 'w'.repeat(STDERR_BYTES_MAX),
        exitCode: 0,
      }));
      const largest = Buffer.alloc(STDIN_BYTES_MAX, 'abc');
      const there = await run(relay.path, { env: envOf(relay, 'ADD'), stdin: largest });
      t.ok(there.stdout.equals(largest) && there.stderr.length === STDERR_BYTES_MAX, '16 MiB there and back');
      const larger = Buffer.alloc(STDIN_BYTES_MAX + 1, 'abc');
      t.equal(errorCode(await run(relay.path, { env: envOf(relay, 'ADD'), stdin: larger })), 6, 'one byte more');
      const value = 'x'.repeat(40_000);
      const long = { CNI_ARGS: value, CNI_PATH: value };
      t.equal(errorCode(await run(relay.path, { env: envOf(relay, 'ADD', long) })), 4, '80 kB of variables');
      const del = await run(relay.path, { env: envOf(relay, 'DEL', long), stdin: 'in' });
      t.ok(isStandalone(del, 'DEL', 'in'), 'DEL is left to the standalone program then');
    });

    t.test(
      'becomes the standalone program for all that is no call of its own, with stdin untouched',
      { buffered: true },
      async (t) => {
        using relay = install(program);
        const cases: readonly [string, Record<string, string>, readonly string[]][] = [
          ['arguments', {}, ['pods', '--json']],
          ['an unknown verb', { CNI_COMMAND: 'FROB' }, []],
          ['a verb in small letters', { CNI_COMMAND: 'add' }, []],
          ['arguments and a verb', { CNI_COMMAND: 'ADD' }, ['--help']],
        ];
        for (const [name, env, args] of cases) {
          const got = await run(relay.path, { env: { ...env, PATH: process.env['PATH'] ?? '' }, args, stdin: 'in' });
          t.equal(got.stdout.toString(), `standalone ${env['CNI_COMMAND'] ?? ''} ${args.join(' ')}\nin`, name);
        }
      },
    );

    t.test('becomes the standalone program where no agent acted', { buffered: true }, async (t) => {
      const stdin = JSON.stringify({ padding: 'x'.repeat(200_000) });
      const cases: readonly [string, (relay: Installed) => Promise<AsyncDisposable | undefined>][] = [
        ['no socket', async () => undefined],
        ['a dead socket', async (relay) => void execFileSync('python3', ['-c', BIND_AND_LEAVE, relay.socketPath])],
        ['a file in its place', async ({ socketPath }) => writeFileSync(socketPath, '') as undefined],
        ['refused', (relay) => serveRaw(relay, (socket) => socket.end(Buffer.of(MARKER_REFUSED)))],
        ['closed with half a request', (relay) => serveRaw(relay, (socket) => socket.destroy())],
        ['hanging before it takes the call', (relay) => serveRaw(relay, (socket) => socket.pause())],
        ['hanging with all of it', (relay) => serveRaw(relay, (socket) => socket.resume())],
      ];
      for (const [name, open] of cases) {
        using relay = install(program);
        await using _server = await open(relay);
        for (const [verb, result] of await runVerbs(relay, { stdin, timeoutMs: 300 })) {
          t.ok(isStandalone(result, verb, stdin) && result.ms < 10_000, `${verb}: ${name}`);
        }
      }
    });

    t.test('lets a hanging agent hold up neither DEL nor STATUS', { buffered: true }, async (t) => {
      using relay = install(program);
      await using _server = await serveRaw(relay, (socket) => socket.resume());
      const runs = ['DEL', 'STATUS'].map(async (verb) => {
        const result = await run(relay.path, { env: envOf(relay, verb), stdin: '{}' });
        t.ok(isStandalone(result, verb, '{}') && result.ms < 9000, `${verb} after ${Math.round(result.ms)} ms`);
      });
      await Promise.all(runs);
    });

    t.test(
      'gives an agent that is busy time to take a DEL: the other way costs the node more',
      { buffered: true },
      async (t) => {
        using relay = install(program);
        const whole = encodeAnswer({ stdout: '', stderr: 'at last', exitCode: 0 });
        await using _server = await serveRaw(relay, (socket) => void setTimeout(() => socket.end(whole), 2200));
        t.equal((await run(relay.path, { env: envOf(relay, 'DEL'), stdin: '{}' })).stderr, 'at last');
      },
    );

    t.test(
      'answers 11 for an ADD that may have been half done, and repeats every other call',
      { buffered: true },
      async (t) => {
        const half = Buffer.concat([taken, Buffer.of(0, 200, 0, 0, 0, 0, 0, 0, 0), Buffer.from('{"half":')]);
        const cases: readonly [string, (socket: Socket) => void][] = [
          ['dies after it took the call', (socket) => socket.end(taken)],
          ['dies within the answer', (socket) => socket.end(half)],
          ['hangs after it took the call', (socket) => void socket.resume().write(taken)],
          ['hangs within the answer', (socket) => void socket.resume().write(half)],
          ['answers something else', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
          ['announces 4 GB', (socket) => socket.end(Buffer.concat([taken, Buffer.alloc(9, 0xff)]))],
          ['says more than its answer', (socket) => socket.end(Buffer.concat([taken, Buffer.alloc(10)]))],
        ];
        for (const [name, behave] of cases) {
          using relay = install(program);
          await using _server = await serveRaw(relay, behave);
          // Long enough for the marker to come on a busy machine; whoever dies is seen to be dead at once.
          const timeoutMs = name.startsWith('hangs') ? 1500 : 14_000;
          for (const [verb, result] of await runVerbs(relay, { stdin: '{}', timeoutMs })) {
            const right = verb === 'ADD' ? errorCode(result) === 11 : isStandalone(result, verb, '{}');
            t.ok(right && result.ms < 10_000, `${verb}: agent ${name}`);
          }
        }
      },
    );

    t.test(
      'has a right answer for each verb where the standalone program is missing',
      { buffered: true },
      async (t) => {
        using relay = install(program, { standalone: false });
        for (const verb of ['ADD', 'CHECK', 'GC'])
          t.equal(errorCode(await run(relay.path, { env: envOf(relay, verb) })), 11, verb);
        t.equal(errorCode(await run(relay.path, { env: envOf(relay, 'STATUS') })), 50, 'STATUS');
        const del = await run(relay.path, { env: envOf(relay, 'DEL') });
        t.same([del.code, del.stdout.length], [0, 0], 'DEL ends well');
        t.match(del.stderr, /cannot be started/);
        t.equal(errorCode(await run(relay.path, { env: { CNI_COMMAND: 'FROB' } })), 4, 'no verb');
        t.equal((await run(relay.path, { args: ['pods'] })).code, 2, 'the command line');
      },
    );

    t.test('starts the standalone program under its own name', { buffered: true }, async (t) => {
      using relay = install(program, { standalone: false });
      symlinkSync(process.execPath, `${relay.path}-standalone`);
      // With arguments it is no call for the agent.
      const { stdout } = await run(relay.path, { args: ['-p', 'process.argv0'] });
      t.equal(stdout.toString(), `${relay.path}-standalone\n`);
    });

    t.test('does not execute itself for ever', { buffered: true }, async (t) => {
      for (const link of [symlinkSync, linkSync]) {
        using relay = install(program, { standalone: false });
        link(relay.path, `${relay.path}-standalone`);
        t.equal(errorCode(await run(relay.path, { env: envOf(relay, 'ADD') })), 11, link.name);
      }
    });

    t.test('needs no open descriptor, no working directory, and no umask', { buffered: true }, async (t) => {
      using relay = install(program);
      await using _server = await serve(relay, async ({ stdin }) => ({
        stdout: `got ${Buffer.from(stdin)}`,
        exitCode: 0,
      }));
      const env = envOf(relay, 'ADD');
      const gone = join(relay.dir, 'gone');
      mkdirSync(gone);
      const cases: readonly [string, string, string][] = [
        ['umask 0777', 'umask 0777; exec "$0"', 'got {}'],
        ['a deleted working directory', `cd ${gone} && rmdir ${gone} && exec "$0"`, 'got {}'],
        ['stdin closed', 'exec "$0" <&-', 'got '],
        ['stderr closed', 'exec "$0" 2>&-', 'got {}'],
        ['stdin and stderr closed', 'exec "$0" <&- 2>&-', 'got '],
      ];
      for (const [name, script, stdout] of cases) {
        const result = await runInShell(script, relay.path, { env, stdin: '{}' });
        t.same([result.code, result.stdout.toString()], [0, stdout], name);
      }
      // A socket that took the number of a closed stdout would swallow the answer.
      for (const closed of ['>&-', '<&- >&-', '<&- >&- 2>&-']) {
        const result = await runInShell(`exec "$0" ${closed}`, relay.path, { env });
        t.equal(result.code, 1, `an answer that cannot be printed is no success: ${closed}`);
      }
      const full = await runInShell('exec "$0" >/dev/full', relay.path, { env, stdin: '{}' });
      t.equal(full.code, 1, 'stdout is full');
    });

    t.test(
      'gives the standalone program its stdin even where all descriptors were closed',
      { buffered: true },
      async (t) => {
        using relay = install(program);
        const file = join(relay.dir, 'out');
        writeFileSync(`${relay.path}-standalone`, `#!/bin/sh\ncat >${file}; echo end >>${file}\n`, { mode: 0o755 });
        await runInShell('exec "$0" <&- >&- 2>&-', relay.path, { env: envOf(relay, 'DEL') });
        t.equal(readFileSync(file, 'utf8'), 'end\n');
      },
    );

    t.test('does not wait for ever for the end of its stdin', { buffered: true }, async (t) => {
      using relay = install(program);
      const open = await run(relay.path, { env: envOf(relay, 'ADD'), stdin: 'open' });
      t.equal(errorCode(open), 5);
      t.ok(open.ms > 4000 && open.ms < 9000, `${Math.round(open.ms)} ms`);
      const directory = await runInShell('exec "$0" </', relay.path, { env: envOf(relay, 'ADD') });
      t.equal(errorCode(directory), 5, 'a directory as stdin');
    });

    t.test('DEL goes on with what came where stdin does not end or is too long', { buffered: true }, async (t) => {
      using relay = install(program);
      const got: Buffer[] = [];
      await using _server = await serve(relay, async ({ stdin }) => {
        got.push(Buffer.from(stdin));
        return { stdout: '', exitCode: 0 };
      });
      const env = envOf(relay, 'DEL');
      const open = await runInShell('(printf "{}"; sleep 7) | "$0"', relay.path, { env });
      t.match(open, { code: 0, stdout: Buffer.alloc(0) });
      const long = await run(relay.path, { env, stdin: Buffer.alloc(STDIN_BYTES_MAX + 1, 'abc') });
      t.match(long, { code: 0, stdout: Buffer.alloc(0) });
      const directory = await runInShell('exec "$0" </', relay.path, { env });
      t.match(directory, { code: 0, stdout: Buffer.alloc(0) });
      t.equal(got.length, 3);
      t.equal(got[0]?.toString(), '{}');
    });
  });
}
