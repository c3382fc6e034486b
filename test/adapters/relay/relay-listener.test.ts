// The listener by itself: its file's mode, and its end with the thread or the process that has it.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { locateNativeLibraries } from '../../../src/adapters/host/native-assets.ts';
import { EVENT_REQUEST, type OnRelayEvent } from '../../../src/adapters/relay/relay-listener.ts';
import { encodeRequest } from '../../../src/cni/relay-frame.ts';
import { openNative } from '../../support/native.ts';

const run = promisify(execFile);
const { listenRelay } = openNative();
const BOUNDS = { mode: 0o600, backlog: 16, requestMs: 1000, answerMs: 1000, maxPending: 10 };

function makeDir(t: Test): string {
  const dir = mkdtempSync('/tmp/ae-listener-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

t.test('listenRelay() makes a file that has its mode from the first moment', (t) => {
  const socketPath = join(makeDir(t), 's');
  const umask = process.umask(0);
  const listener = listenRelay({ ...BOUNDS, socketPath, onEvent: () => {} });
  process.umask(umask);
  t.equal(statSync(socketPath).mode & 0o777, 0o600);
  listener.stop();
  t.end();
});

t.test('listenRelay() says what keeps it from listening', (t) => {
  const dir = makeDir(t);
  const listen = (socketPath: string) => listenRelay({ ...BOUNDS, socketPath, onEvent: () => {} });
  const listener = listen(join(dir, 's'));
  t.throws(() => listen(join(dir, 's')), { code: 'EADDRINUSE', message: /^bind: EADDRINUSE/ });
  t.throws(() => listen(join(dir, 'none', 's')), { code: 'ENOENT' });
  t.throws(() => listen(join(dir, 'x'.repeat(120))), { code: 'ENAMETOOLONG' });
  listener.stop();
  t.end();
});

t.test('a listener knows no connection that is not its caller’s', async (t) => {
  const socketPath = join(makeDir(t), 's');
  const told: number[] = [];
  const onEvent: OnRelayEvent = (event) => void told.push(event);
  const listener = listenRelay({ ...BOUNDS, socketPath, onEvent });
  const client = connect(socketPath);
  await new Promise((resolve) => client.on('connect', resolve));
  // It has no request yet, whatever its number is.
  for (let fd = -1; fd < 100; fd++) {
    for (const act of [
      () => listener.take(fd),
      () => listener.drop(fd),
      () => listener.answer(fd, Buffer.alloc(1), 1),
    ]) {
      if (!t.throws(act, { message: 'relay: no such connection' })) return;
    }
  }
  listener.stop();
  await new Promise((resolve) => client.on('close', resolve));
  listener.stop();
  t.throws(() => listener.take(5), { message: 'relay: no such connection' });
  t.same(told, []);
});

const CROWD = `
const { connect } = require('node:net');
const [path, request, count] = process.argv.slice(1);
let sent = 0;
const end = () => ++sent === Number(count) && process.exit();
for (let i = 0; i < Number(count); i++) connect(path).write(Buffer.from(request, 'base64'), end);
`;

t.test('a listener hands over one request in a turn of the event loop', async (t) => {
  const socketPath = join(makeDir(t), 's');
  const all = Promise.withResolvers<void>();
  const turns: number[] = [];
  let turn = 0;
  const onEvent: OnRelayEvent = (event, fd) => {
    if (event !== EVENT_REQUEST) return;
    turns.push(turn);
    listener.drop(fd);
    if (turns.length === 6) all.resolve();
  };
  const listener = listenRelay({ ...BOUNDS, socketPath, onEvent });
  const request = encodeRequest({ CNI_COMMAND: 'STATUS' }, Buffer.from('{}')).toString('base64');
  // All of them are there before the loop turns.
  execFileSync(process.execPath, ['-e', CROWD, socketPath, request, '6'], { timeout: 20_000 });
  const count = (): void => {
    turn++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  await all.promise;
  clearImmediate(next);
  listener.stop();
  t.equal(new Set(turns).size, 6);
});

const PROGRAM = `
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { connect } = require('node:net');
const [library, path, how] = isMainThread ? process.argv.slice(2) : workerData;
const open = () => {
  const addon = { exports: {} };
  process.dlopen(addon, library);
  const listener = addon.exports.relayListen(path, 0o600, 16, 5000, 5000, 10, () => {});
  if (how === 'stop') addon.exports.relayStop(listener);
  const client = connect(path).on('error', () => {});
  if (how !== 'stop') client.write('AERL');
  setTimeout(() => how === 'exit' && process.exit(), 50);
};
if (!isMainThread || how !== 'worker') open();
else {
  const worker = new Worker(__filename, { argv: [], workerData: process.argv.slice(2) });
  setTimeout(() => worker.terminate().then(() => console.log('terminated')), 300);
}
`;

t.test('a listener ends with the thread or the process that has it', async (t) => {
  const dir = makeDir(t);
  const file = join(dir, 'program.cjs');
  writeFileSync(file, PROGRAM);
  const { libaether, libmnl, libnftnl } = locateNativeLibraries();
  const env = { ...process.env, LD_PRELOAD: `${process.env['LD_PRELOAD'] ?? ''} ${libmnl} ${libnftnl}`.trim() };
  for (const how of ['worker', 'exit', 'stop']) {
    // A process that crashes or stays makes this fail.
    const ended = await run(process.execPath, [file, libaether, join(dir, how), how], { env, timeout: 20_000 });
    t.equal(ended.stdout, how === 'worker' ? 'terminated\n' : '', how);
  }
});
