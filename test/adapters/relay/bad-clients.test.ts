// Clients of relay.sock that send nothing, nonsense, too much or too slowly, or are too many: each is gone in time, with a word in
// the log and none to itself, and the others are served.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { ListenRelay } from '../../../src/adapters/relay/relay-listener.ts';
import { ENV_BYTES_MAX, encodeRequest, MARKER_TAKEN, STDIN_BYTES_MAX } from '../../../src/cni/relay-frame.ts';
import { openNative } from '../../support/native.ts';
import { call, holdCalls, openClient, openWorld, sleep, until } from './relay-world.ts';

const add = { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c1' };
const request = encodeRequest(add, Buffer.from('{}'));
const ok = async () => ({ stdout: 'fine', exitCode: 0 });

/** A header that announces `stdinBytes`. */
function announce(stdinBytes: number): Buffer {
  const bytes = encodeRequest({}, Buffer.alloc(0));
  bytes.writeUInt32LE(stdinBytes, 12);
  return bytes;
}

t.test('createRelayServer() drops bad clients without a word, and goes on', async (t) => {
  const cases: readonly [string, Buffer][] = [
    ['garbage', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['a gigabyte of length', announce(1 << 30)],
    ['all bits set', Buffer.alloc(64, 0xff)],
    ['variables that are none', Buffer.concat([announce(0).fill(4, 8, 9), Buffer.from('X=1\0')])],
    ['two requests', Buffer.concat([request, request])],
  ];
  const halves: readonly [string, Buffer][] = [
    ['nothing at all', Buffer.alloc(0)],
    ['half a header', request.subarray(0, 9)],
    ['half a frame', request.subarray(0, -1)],
  ];
  const seen: string[] = [];
  await using world = await openWorld(
    async ({ env }) => {
      seen.push(env['CNI_CONTAINERID'] ?? '');
      return ok();
    },
    { limits: { requestMs: 2000 } },
  );
  // All at once: they must not disturb each other either.
  const fates = [...cases, ...halves].map(async ([name, bytes]) => {
    const client = await openClient(world.socketPath);
    client.socket.write(bytes);
    return { name, received: client.received };
  });
  for (const fate of fates) {
    const { name, received } = await fate;
    await t.test(name, async (t) => {
      t.equal((await call(world.socketPath, { ...add, CNI_CONTAINERID: 'good' })).kind, 'answer', 'others go on');
      t.equal((await received).length, 0, 'not a byte came back');
    });
  }
  const reasons = world.log.events.map(({ fields }) => fields['reason']).filter((reason) => reason !== undefined);
  t.equal(reasons.length, cases.length + halves.length, 'a word about each in the log');
  const late = reasons.filter((reason) => reason === 'no whole request in time');
  t.equal(late.length, halves.length, 'who may still send the rest has time, the others none');
  t.same(new Set(seen), new Set(['good']), 'no bad request was acted on');
});

t.test('createRelayServer() lets a client that drips bytes have no more time', async (t) => {
  await using world = await openWorld(ok, { limits: { requestMs: 600 } });
  const start = performance.now();
  const client = await openClient(world.socketPath);
  let sent = 0;
  const drip = setInterval(() => client.socket.write(request.subarray(sent, ++sent)), 50);
  await client.closed;
  clearInterval(drip);
  const ms = performance.now() - start;
  t.ok(ms > 500, `gone after ${Math.round(ms)} ms`);
  t.ok(sent < request.length, 'before it was through');
  t.match(world.log.events.at(-1), { fields: { reason: 'no whole request in time', pid: process.pid } });
});

t.test('createRelayServer() says why it drops a client', async (t) => {
  await using world = await openWorld(ok);
  const reasonOf = async (bytes: Buffer): Promise<unknown> => {
    const client = await openClient(world.socketPath);
    client.socket.write(bytes);
    await client.closed;
    const { event, fields } = world.log.events.at(-1) ?? {};
    t.equal(event, 'relay.client.dropped');
    return fields?.['reason'];
  };
  const header = (envBytes: number, stdinBytes: number): Buffer => announce(stdinBytes).fill(envBytes, 8, 9);
  const tooMuch = announce(0);
  tooMuch.writeUInt32LE(ENV_BYTES_MAX + 1, 8);
  t.equal(await reasonOf(Buffer.from('G')), 'must start with 4145524c01000000');
  t.equal(await reasonOf(Buffer.concat([request.subarray(0, 4), Buffer.of(9)])), 'must start with 4145524c01000000');
  t.equal(await reasonOf(tooMuch), 'environment of 65537 bytes is too large');
  t.equal(await reasonOf(announce(STDIN_BYTES_MAX + 1)), 'stdin of 16777217 bytes is too large');
  t.equal(await reasonOf(announce(0xffff_ffff)), 'stdin of 4294967295 bytes is too large');
  t.equal(await reasonOf(Buffer.concat([request, request])), 'more than one request');
  t.equal(await reasonOf(Buffer.concat([header(4, 0), Buffer.from('PATH')])), 'environment does not end in NUL');
});

t.test('createRelayServer() drops a client that sends more than its request', async (t) => {
  const gate = Promise.withResolvers<void>();
  const ends: string[] = [];
  await using world = await openWorld(
    async ({ env, signal }) => {
      await gate.promise;
      ends.push(`${env['CNI_CONTAINERID']} ${signal.aborted ? 'aborted' : 'wanted'}`);
      return ok();
    },
    { limits: { maxRunning: 2 } },
  );
  const send = async (verb: string, id: string) => {
    const client = await openClient(world.socketPath);
    client.socket.write(encodeRequest({ CNI_COMMAND: verb, CNI_CONTAINERID: id }, Buffer.from('{}')));
    return client;
  };
  const [running, del] = [await send('ADD', 'a'), await send('DEL', 'd')];
  t.same([await running.firstByte, await del.firstByte], [MARKER_TAKEN, MARKER_TAKEN]);
  const waiting = await send('ADD', 'w');
  await until(() => world.requests() === 3);
  for (const client of [running, waiting, del]) client.socket.write('x');
  t.equal((await running.received).length, 1);
  t.equal((await waiting.received).length, 0);
  gate.resolve();
  t.equal((await del.received).length, 1, 'finished, and seen with the answer');
  t.same(ends, ['a aborted', 'd wanted'], 'the one that waited is not begun');
  const dropped = world.log.events.filter(({ fields }) => fields['reason'] === 'more than one request');
  t.equal(dropped.length, 3);
});

/** Connects, sends its request and makes a file then; after a byte of stdin one byte more. */
const CLIENT = `const [, path, hex, file] = process.argv;
const noteSent = () => require('node:fs').writeFileSync(file, '');
const socket = require('node:net').connect(path, () => socket.write(Buffer.from(hex, 'hex'), noteSent));
let received = 0;
process.stdin.once('data', () => socket.write('x', () => process.stdout.write('sent ')));
socket.on('data', ({ length }) => { received += length; });
socket.on('error', () => {}).on('close', () => { process.stdout.write('got ' + received); process.stdin.destroy(); });`;

t.test('createRelayServer() gives no answer to a client that has sent more meanwhile', async (t) => {
  const { handle, began, letGo } = holdCalls();
  await using world = await openWorld(handle);
  const whole = encodeRequest({ CNI_COMMAND: 'DEL', CNI_CONTAINERID: 'c1' }, Buffer.from('{}'));
  const sent = join(world.dir, 'sent');
  const client = spawn(process.execPath, ['-e', CLIENT, world.socketPath, whole.toString('hex'), sent]);
  t.teardown(() => client.kill('SIGKILL'));
  let said = '';
  client.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  // The request is there when the client is let in, as a relay's is: nothing about it is watched.
  const end = performance.now() + 20_000;
  while (!existsSync(sent) && performance.now() < end) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  await until(began);
  client.stdin.write('1');
  await until(() => said === 'sent ');
  letGo();
  await until(() => said === 'sent got 1');
  await once(client, 'close');
  t.match(world.log.events.at(-1), { event: 'relay.client.dropped', fields: { reason: 'more than one request' } });
});

t.test('createRelayServer() waits where it has no descriptor for a client, without turning round', async (t) => {
  await using world = await openWorld(ok);
  const limit = readFileSync('/proc/self/limits', 'utf8').match(/Max open files +(\d+)/)?.[1] ?? '1024';
  const setLimit = (soft: string) => execFileSync('prlimit', ['--pid', String(process.pid), `--nofile=${soft}:`]);
  t.teardown(() => setLimit(limit));
  setLimit('200');
  const fillers: number[] = [];
  t.teardown(() => fillers.splice(0).forEach(closeSync));
  const fill = (): void => {
    try {
      while (fillers.length < 300) fillers.push(openSync('/dev/null', 'r'));
    } catch {}
  };
  fill();
  t.ok(fillers.length > 0 && fillers.length < 200, 'no descriptor is left');
  closeSync(fillers.pop() ?? -1);
  const answer = call(world.socketPath, add);
  fill();
  await until(() => world.log.events.some(({ event }) => event === 'relay.server.failed'));
  const before = process.cpuUsage();
  await sleep(600);
  const { user, system } = process.cpuUsage(before);
  t.ok(user + system < 300_000, `${(user + system) / 1000} ms of processor time in 600`);
  t.equal(world.log.events.filter(({ event }) => event === 'relay.server.failed').length, 1, 'said once');
  t.match(world.log.events.at(-1), { fields: { error: 'accept: EMFILE' } });
  fillers.splice(0).forEach(closeSync);
  t.equal((await answer).kind, 'answer');
});

t.test('createRelayServer() gives a bad client less than five seconds where nothing else is said', async (t) => {
  const bounds: number[] = [];
  const listen: ListenRelay = (options) => {
    bounds.push(options.requestMs);
    return openNative().listenRelay(options);
  };
  await using world = await openWorld(ok, { listen });
  t.ok((bounds[0] ?? 5000) <= 4000, `${bounds} ms, and a second to act on it`);
  const start = performance.now();
  await (await openClient(world.socketPath)).closed;
  t.ok(performance.now() - start > 1000, 'that is when it goes');
});

t.test('createRelayServer() answers while 1000 clients idle, and drops the oldest beyond its bound', async (t) => {
  await using world = await openWorld(ok, { limits: { requestMs: 20_000, maxPending: 1000 } });
  const idle = await Promise.all(Array.from({ length: 1000 }, () => openClient(world.socketPath)));
  const start = performance.now();
  t.equal((await call(world.socketPath, add)).kind, 'answer');
  t.ok(performance.now() - start < 15_000, 'before they go');
  const gone = () => idle.filter(({ socket }) => socket.destroyed).length;
  const before = gone();
  const [last] = await Promise.all([openClient(world.socketPath), openClient(world.socketPath)]);
  await until(() => gone() >= before + 2);
  // One for each that came; and perhaps one for the call, which may have connected before it was written.
  t.equal(gone(), before + 2);
  t.notOk(last.socket.destroyed, 'the oldest goes');
});
