// askAgent() against the real server and against servers that misbehave: above all, when it says that nothing was done.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { type AskOptions, askAgent } from '../../../src/adapters/relay/ask-agent.ts';
import { encodeAnswer, encodeRequest, MARKER_REFUSED, MARKER_TAKEN } from '../../../src/cni/relay-frame.ts';
import { serveRaw } from '../../native/relay-servers.ts';
import { openWorld } from './relay-world.ts';

const REQUEST = encodeRequest({ CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c1' }, Buffer.from('{"a":1}'));
const LONG = { takeMs: 20_000, answerMs: 20_000 };

const dir = mkdtempSync('/tmp/ae-ask-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
let servers = 0;

/** Asks a server that does this with a connection once it has the request. */
async function askServer(behave: (socket: Socket) => void, times: Omit<AskOptions, 'socketPath'> = LONG) {
  const socketPath = join(dir, `${servers++}.sock`);
  await using _server = await serveRaw({ socketPath }, behave);
  return await askAgent(REQUEST, { socketPath, ...times });
}

t.test('askAgent() gives what the agent answers, byte for byte', async (t) => {
  const stdout = Buffer.from([0, 255, 10, 128]);
  await using world = await openWorld(async ({ env, stdin }) => {
    t.match(env, { CNI_COMMAND: 'ADD', CNI_CONTAINERID: 'c1' });
    t.equal(stdin, '{"a":1}');
    return { stdout, stderr: 'a warning\n', exitCode: 7 };
  });
  const reply = await askAgent(REQUEST, { socketPath: world.socketPath, ...LONG });
  t.strictSame(reply, { kind: 'answer', stdout, stderr: Buffer.from('a warning\n'), exitCode: 7 });
});

t.test('askAgent() puts an answer together that comes a byte at a time', async (t) => {
  const bytes = encodeAnswer({ stdout: 'ok', exitCode: 0 });
  const reply = await askServer((socket) => {
    const send = (at: number): void => {
      if (at < bytes.length) socket.write(bytes.subarray(at, at + 1), () => setTimeout(send, 2, at + 1));
    };
    send(0);
  });
  t.match(reply, { kind: 'answer', stdout: Buffer.from('ok'), exitCode: 0 });
});

const OTHERS: readonly { readonly name: string; readonly behave: (socket: Socket) => void; readonly kind: string }[] = [
  { name: 'refuses', behave: (socket) => socket.end(Buffer.of(MARKER_REFUSED)), kind: 'undone' },
  { name: 'ends the connection without a word', behave: (socket) => socket.destroy(), kind: 'undone' },
  { name: 'takes the call and ends', behave: (socket) => socket.end(Buffer.of(MARKER_TAKEN)), kind: 'unknown' },
  { name: 'talks nonsense', behave: (socket) => socket.end('HTTP/1.1 400'), kind: 'unknown' },
  { name: 'refuses and goes on', behave: (socket) => socket.end(Buffer.of(MARKER_REFUSED, 0)), kind: 'unknown' },
];
for (const { name, behave, kind } of OTHERS) {
  t.test(`askAgent() says "${kind}" of an agent that ${name}`, async (t) => {
    t.strictSame(await askServer(behave), { kind });
  });
}

t.test('askAgent() waits for an agent that took the call, and no longer than it may', async (t) => {
  const take = (socket: Socket): unknown => socket.write(Buffer.of(MARKER_TAKEN));
  t.strictSame(await askServer(take, { takeMs: 10_000, answerMs: 200 }), { kind: 'unknown' });
  const answerLate = (socket: Socket): void => {
    take(socket);
    setTimeout(() => socket.end(encodeAnswer({ stdout: 'late', exitCode: 0 }, true)), 1300);
  };
  t.match(await askServer(answerLate, { takeMs: 1000, answerMs: 20_000 }), { stdout: Buffer.from('late') });
});

t.test('askAgent() does not know what a silent agent did', async (t) => {
  t.strictSame(await askServer(() => {}, { takeMs: 100, answerMs: 20_000 }), { kind: 'unknown' });
});

t.test('askAgent() says "undone" where nobody listens', async (t) => {
  t.strictSame(await askAgent(REQUEST, { socketPath: join(dir, 'none'), ...LONG }), { kind: 'undone' });
  const left = join(dir, 'left.sock');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(left, resolve));
  await new Promise<void>((resolve) => server.close(() => resolve()));
  t.strictSame(await askAgent(REQUEST, { socketPath: left, ...LONG }), { kind: 'undone' });
  t.strictSame(await askAgent(REQUEST, { socketPath: join(dir, 'x'.repeat(200)), ...LONG }), { kind: 'undone' });
});
