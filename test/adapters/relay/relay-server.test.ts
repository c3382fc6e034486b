// The whole server on a real socket, with handlers of the test's own: what becomes of a call when either side goes, or when
// there are too many. Clients that send nonsense: bad-clients.test.ts.
import { chmodSync, existsSync, linkSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import t from 'tap';
import type { RelayCall } from '../../../src/adapters/relay/relay-connection.ts';
import { createRelayServer } from '../../../src/adapters/relay/relay-server.ts';
import { decodeAnswer, encodeRequest, MARKER_TAKEN, STDIN_BYTES_MAX } from '../../../src/cni/relay-frame.ts';
import { openNative } from '../../support/native.ts';
import { call, holdCalls, openClient, openWorld, SELF, sleep, until } from './relay-world.ts';

const add = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c1' };
const request = encodeRequest(add, Buffer.from('{}'));
const ok = async () => ({ stdout: 'fine', exitCode: 0 });

/** The CNI code in an answer, and its exit code. */
function codeOf(answer: Awaited<ReturnType<typeof call>>): readonly [number, number] {
  if (answer.kind !== 'answer') throw new Error(`no answer: ${answer.kind}`);
  return [(JSON.parse(answer.stdout.toString()) as { code: number }).code, answer.exitCode];
}

t.test('createRelayServer() hands over variables, stdin and peer, and sends the answer back', async (t) => {
  const calls: RelayCall[] = [];
  await using world = await openWorld(async (call) => {
    calls.push(call);
    return { stdout: Buffer.from([0, 255, 10]), stderr: 'a warning\n', exitCode: 7 };
  });
  const answer = await call(world.socketPath, { ...add, CNI_ARGS: 'A=ü;B=2' }, '{"name":"x"}');
  t.same(answer, {
    kind: 'answer',
    stdout: Buffer.from([0, 255, 10]),
    stderr: Buffer.from('a warning\n'),
    exitCode: 7,
  });
  t.strictSame(calls[0]?.env, { ...add, CNI_NETNS: undefined, CNI_IFNAME: undefined, CNI_ARGS: 'A=ü;B=2' });
  t.equal(calls[0]?.stdin, '{"name":"x"}');
  t.same(calls[0]?.peer, SELF);
  t.equal(statSync(world.socketPath).mode & 0o777, 0o600, 'mode of the socket');
});

t.test('createRelayServer() hands over stdin as text where it is ASCII, else as it came', async (t) => {
  const seen: (string | Uint8Array)[] = [];
  await using world = await openWorld(async ({ stdin }) => {
    seen.push(stdin);
    return { stdout: '', exitCode: 0 };
  });
  const inputs = ['', '{"a":1}\0\x7f\n', 'x'.repeat(200_000), 'ü', '\ufeff{}', Buffer.of(0x7b, 0xff, 0x7d)];
  for (const input of inputs) await call(world.socketPath, add, input);
  t.strictSame(seen.slice(0, 3), inputs.slice(0, 3));
  for (const index of [3, 4, 5]) {
    t.ok(seen[index] instanceof Uint8Array);
    t.ok(Buffer.from(inputs[index] ?? '').equals(Buffer.from(seen[index] ?? '')), `input ${index}`);
  }
});

const VARIABLES = [
  ['none', '', {}],
  ['an empty value', 'CNI_NETNS=\0', { CNI_NETNS: '' }],
  ['equals signs in a value', 'CNI_ARGS=A=1;B==\0', { CNI_ARGS: 'A=1;B==' }],
  ['the first of two', 'CNI_COMMAND=ADD\0CNI_COMMAND=DEL\0', { CNI_COMMAND: 'ADD' }],
  ['what has a meaning', 'CNI_PATH=/x\0CNI_IFNAME=e\0CNI_IFNAMES=f\0CNI_=\0', { CNI_IFNAME: 'e' }],
  ['bytes that are no UTF-8', Buffer.from('CNI_ARGS=a\xffb\0', 'latin1'), { CNI_ARGS: 'a\ufffdb' }],
  ['no NUL at the end', 'CNI_COMMAND=ADD\0CNI_ARGS=1', 'environment does not end in NUL'],
  ['no equals sign', 'CNI_X\0', 'environment holds something else than CNI_* variables'],
  ['an equals sign in the next one alone', 'CNI_X\0CNI_Y=1\0', 'environment holds something else than CNI_* variables'],
  ['another name', 'CNI_X=1\0PATH=/bin\0', 'environment holds something else than CNI_* variables'],
  ['an empty entry', '\0', 'environment holds something else than CNI_* variables'],
] as const;
t.test('createRelayServer() takes CNI_* variables and nothing else', async (t) => {
  let seen: unknown;
  await using world = await openWorld(async ({ env }) => {
    seen = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
    return { stdout: '', exitCode: 0 };
  });
  for (const [name, variables, expected] of VARIABLES) {
    seen = undefined;
    const bytes = Buffer.from(variables);
    const frame = encodeRequest({}, Buffer.concat([bytes, Buffer.from('{}')]));
    // Of what would be stdin the first part is variables.
    frame.writeUInt32LE(bytes.length, 8);
    frame.writeUInt32LE(2, 12);
    const client = await openClient(world.socketPath);
    client.socket.write(frame);
    await client.closed;
    t.strictSame(seen ?? world.log.events.at(-1)?.fields['reason'], expected, name);
  }
});

t.test('createRelayServer() opens the view of a caller for its call, and closes it afterwards', async (t) => {
  const events: string[] = [];
  await using world = await openWorld(
    async ({ view }) => {
      events.push(`handle ${view?.resolve('/x')}`);
      return { stdout: '', exitCode: 0 };
    },
    {
      openView: ({ env, peer, socketFd }) => {
        events.push(`open ${env['CNI_CONTAINERID']} ${peer.pid === process.pid} ${socketFd > 2}`);
        return { resolve: (path) => `seen${path}`, [Symbol.dispose]: () => void events.push('close') };
      },
    },
  );
  await call(world.socketPath, add, '{}');
  t.strictSame(events, ['open c1 true true', 'handle seen/x', 'close']);
});

t.test('createRelayServer() refuses a call whose caller cannot be looked at, before anything is done', async (t) => {
  let handled = 0;
  const handle = async () => {
    handled += 1;
    return { stdout: '', exitCode: 0 };
  };
  const openView = () => {
    throw new Error('its process cannot be seen from here');
  };
  await using world = await openWorld(handle, { openView });
  t.same(await call(world.socketPath, add, '{}'), { kind: 'refused' });
  t.equal(handled, 0);
  t.match(world.log.events.at(-1), { event: 'relay.call.refused', fields: { containerId: 'c1' } });
});

t.test('createRelayServer() takes a request in any pieces, and the largest', async (t) => {
  await using world = await openWorld(async ({ stdin }) => ({ stdout: Buffer.from(stdin), exitCode: 0 }));
  const client = await openClient(world.socketPath);
  client.socket.setNoDelay();
  for (const byte of request) {
    client.socket.write(Buffer.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal((await client.received).subarray(-2).toString(), '{}');
  const large = Buffer.alloc(STDIN_BYTES_MAX, 'x');
  const answer = await call(world.socketPath, add, large);
  t.ok(answer.kind === 'answer' && answer.stdout.equals(large), '16 MiB there and back');
});

t.test('createRelayServer() gives a call more time than a client without one', async (t) => {
  const work = async () => {
    await sleep(1300);
    return { stdout: 'slow', exitCode: 0 };
  };
  await using world = await openWorld(work, { limits: { requestMs: 1000 } });
  t.equal((await call(world.socketPath, add)).kind, 'answer');
});

t.test('createRelayServer() sends the marker of STATUS with its answer', async (t) => {
  const { handle, began, letGo } = holdCalls();
  await using world = await openWorld(handle);
  const client = await openClient(world.socketPath);
  client.socket.write(encodeRequest({ CNI_COMMAND: 'STATUS' }, Buffer.from('{}')));
  let seen = 0;
  client.socket.on('data', (chunk) => {
    seen += chunk.length;
  });
  await until(began);
  // What was sent before the handler began can be read now: a whole turn of the event loop reads it.
  for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
  t.equal(seen, 0);
  letGo();
  t.match(decodeAnswer(await client.received), { kind: 'answer', exitCode: 0 });
});

t.test('createRelayServer() refuses who is not root', async (t) => {
  let handled = 0;
  const handle = async () => {
    handled++;
    return ok();
  };
  await using world = await openWorld(handle, { mode: 0o666 });
  chmodSync(world.dir, 0o755);
  // The kernel notes who connects at that moment, which is within connect().
  process.seteuid?.(65534);
  const refused = call(world.socketPath, add);
  process.seteuid?.(0);
  t.equal((await refused).kind, 'nothing');
  t.equal(handled, 0);
  t.match(world.log.events.at(-1), { event: 'relay.client.refused', fields: { pid: process.pid, uid: 65534 } });
  t.equal((await call(world.socketPath, add)).kind, 'answer');
});

t.test('createRelayServer() runs a bounded number at once, and refuses beyond the line', async (t) => {
  let running = 0;
  let most = 0;
  const gate = Promise.withResolvers<void>();
  await using world = await openWorld(
    async () => {
      most = Math.max(most, ++running);
      await gate.promise;
      running--;
      return { stdout: '', exitCode: 0 };
    },
    { limits: { maxRunning: 4, maxWaiting: 6 } },
  );
  const answers = Array.from({ length: 12 }, (_, i) => call(world.socketPath, { ...add, CNI_CONTAINERID: `c${i}` }));
  await until(() => running === 4 && world.requests() === 12);
  gate.resolve();
  const kinds = (await Promise.all(answers)).map(({ kind }) => kind);
  t.equal(most, 4);
  t.same(
    [kinds.filter((kind) => kind === 'answer').length, kinds.filter((kind) => kind === 'refused').length],
    [10, 2],
  );
});

t.test('createRelayServer() lets a DEL end the ADD of its container, at work and in line', async (t) => {
  const order: string[] = [];
  await using world = await openWorld(async ({ env, signal }) => {
    const verb = env['CNI_COMMAND'] ?? '';
    order.push(`${verb} begins`);
    if (verb === 'ADD') await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    order.push(`${verb} ends`);
    return { stdout: '', exitCode: 0 };
  });
  const first = call(world.socketPath, add);
  await until(() => order.length === 1);
  const second = call(world.socketPath, add);
  await until(() => world.requests() === 2);
  const del = call(world.socketPath, { ...add, CNI_COMMAND: 'DEL' });
  t.same(codeOf(await first), [11, 1]);
  t.same(codeOf(await second), [11, 1], 'answered, not refused: a relay would do it by itself');
  t.equal((await del).kind, 'answer');
  t.same(order, ['ADD begins', 'DEL begins', 'DEL ends']);
});

t.test('createRelayServer() aborts an ADD whose relay is gone, and finishes a DEL', async (t) => {
  const ends: string[] = [];
  await using world = await openWorld(async ({ env, signal }) => {
    if (env['CNI_COMMAND'] === 'ADD') await until(() => signal.aborted).catch(() => {});
    else await sleep(200);
    ends.push(`${env['CNI_COMMAND']} ${signal.aborted ? 'aborted' : 'wanted'}`);
    return ok();
  });
  for (const verb of ['ADD', 'DEL']) {
    const client = await openClient(world.socketPath);
    client.socket.write(encodeRequest({ ...add, CNI_COMMAND: verb }, Buffer.from('{}')));
    t.equal(await client.firstByte, MARKER_TAKEN, 'the marker comes before the answer');
    client.socket.destroy();
    await until(() => ends.length > 0);
    t.same(ends.splice(0), [verb === 'ADD' ? 'ADD aborted' : 'DEL wanted']);
  }
});

t.test('createRelayServer() never starts a call whose relay is gone before its turn', async (t) => {
  const seen: string[] = [];
  const gate = Promise.withResolvers<void>();
  await using world = await openWorld(
    async ({ env }) => {
      seen.push(env['CNI_CONTAINERID'] ?? '');
      await gate.promise;
      return ok();
    },
    { limits: { maxRunning: 1, maxWaiting: 1 } },
  );
  const first = call(world.socketPath, add);
  await until(() => seen.length === 1);
  const gone = await openClient(world.socketPath);
  gone.socket.write(encodeRequest({ ...add, CNI_CONTAINERID: 'gone' }, Buffer.from('{}')));
  await until(() => world.requests() === 2);
  gone.socket.destroy();
  await until(() => world.ended() === 1);
  const last = call(world.socketPath, { ...add, CNI_CONTAINERID: 'last' });
  await until(() => world.requests() === 3);
  gate.resolve();
  t.same([(await first).kind, (await last).kind], ['answer', 'answer'], 'its place in line is free');
  t.same(seen, ['c1', 'last']);
});

t.test('createRelayServer() makes an error object of whatever a handler throws', async (t) => {
  await using world = await openWorld(async ({ env }) => {
    if (env['CNI_COMMAND'] === 'ADD') throw new Error('boom');
    return { stdout: '', exitCode: 1000 };
  });
  t.same(codeOf(await call(world.socketPath, add)), [999, 1]);
  t.same(codeOf(await call(world.socketPath, { CNI_COMMAND: 'GC' })), [999, 1], 'an exit code that cannot be');
  t.equal(world.log.events.filter(({ event }) => event === 'relay.call.failed').length, 2);
});

t.test('createRelayServer() drops a client that does not take its answer', async (t) => {
  const answer = async ({ env }: RelayCall) => ({
    stdout: Buffer.alloc(env['CNI_COMMAND'] === 'ADD' ? 8 << 20 : 0),
    exitCode: 0,
  });
  await using world = await openWorld(answer, { limits: { answerMs: 200 } });
  const client = await openClient(world.socketPath);
  client.socket.pause();
  client.socket.write(request);
  await until(() => world.log.events.some(({ event }) => event === 'relay.client.dropped'));
  client.socket.destroy();
  t.equal((await call(world.socketPath, { CNI_COMMAND: 'STATUS' })).kind, 'answer');
});

t.test('createRelayServer() replaces a dead socket file and nothing else', async (t) => {
  await using world = await openWorld(ok);
  const open = (socketPath: string) =>
    createRelayServer({ socketPath, mode: 0o600, listen: openNative().listenRelay, handle: ok, log: world.log });
  await t.rejects(open(world.socketPath), { code: 'E_STORE', message: /another agent answers there/ });
  t.equal((await call(world.socketPath, add)).kind, 'answer', 'the first one lives on');

  writeFileSync(`${world.dir}/file`, 'mine');
  await t.rejects(open(`${world.dir}/file`), { code: 'E_STORE', message: /something else than a socket/ });
  t.equal(readFileSync(`${world.dir}/file`, 'utf8'), 'mine');
  await t.rejects(open(`${world.dir}/${'x'.repeat(100)}`), { code: 'E_STORE', message: /107 bytes/ });
  await t.rejects(open(`${world.dir}/file/relay.sock`), { code: 'E_STORE' });

  // A second name of the socket outlives its server.
  linkSync(world.socketPath, `${world.dir}/stale`);
  await world.server.close();
  await using second = await open(`${world.dir}/stale`);
  t.equal((await call(second.socketPath, add)).kind, 'answer');
});

t.test('close() lets calls at work end, refuses the rest, and leaves no file', async (t) => {
  const { handle, began, letGo } = holdCalls('done');
  await using world = await openWorld(handle, { limits: { maxRunning: 1 } });
  const working = call(world.socketPath, add);
  await until(began);
  // Let in before who comes after it.
  const idle = await openClient(world.socketPath);
  const waiting = call(world.socketPath, { ...add, CNI_CONTAINERID: 'c2' });
  await until(() => world.requests() === 2);
  const closing = world.server.close();
  t.equal((await waiting).kind, 'refused');
  t.equal((await idle.received).length, 0);
  t.notOk(existsSync(world.socketPath));
  letGo();
  await closing;
  const answer = await working;
  t.equal(answer.kind === 'answer' && answer.stdout.toString(), 'done');
});

t.test('close() aborts calls that take too long, and ends even where a handler does not listen', async (t) => {
  const signals: AbortSignal[] = [];
  await using world = await openWorld(
    ({ signal }) => {
      signals.push(signal);
      return new Promise(() => {});
    },
    { limits: { closeMs: 100 } },
  );
  const working = call(world.socketPath, { ...add, CNI_COMMAND: 'DEL' });
  await until(() => signals.length === 1);
  const start = performance.now();
  await world.server.close();
  t.ok(performance.now() - start < 5000, 'sooner than without limits of its own');
  t.equal(signals[0]?.aborted, true);
  t.equal((await working).kind, 'taken', 'the relay sees that it was taken and not answered');
});
