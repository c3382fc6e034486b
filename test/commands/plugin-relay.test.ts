// The full file as a plugin beside an agent: what it asks at relay.sock, and what it does itself.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ENV_BYTES_MAX, MARKER_REFUSED, MARKER_TAKEN, STDIN_BYTES_MAX } from '../../src/cni/relay-frame.ts';
import { isForAgent, planRelayCall } from '../../src/commands/plugin-relay.ts';
import { openWorld } from '../adapters/relay/relay-world.ts';
import { pluginPlaces } from '../support/plugin-places.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');
const SOCKET = { AETHER_RELAY_SOCKET: '/x/relay.sock' };
const dir = mkdtempSync('/tmp/ae-plugin-relay-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

/** A pod of an excluded namespace: what is done for it here leaves nothing, and ADD prints `prevResult`. */
const CONFIG = {
  cniVersion: '1.1.0',
  name: 'net',
  type: 'aether-cni',
  ...pluginPlaces(dir),
  log_file: join(dir, 'plugin.log'),
  agent_timeout_ms: 300,
  prevResult: { cniVersion: '1.1.0', ips: [{ address: '10.1.2.3/24' }] },
};
const POD = {
  CNI_CONTAINERID: 'c1',
  CNI_NETNS: '/run/netns/none',
  CNI_IFNAME: 'eth0',
  CNI_ARGS: 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=x',
  CNI_PATH: '/opt/cni/bin',
};

async function run(verb: string, env: Readonly<Record<string, string>>, argv0 = '/opt/cni/bin/aether-cni') {
  const variables = { PATH: '/usr/bin', CNI_COMMAND: verb, ...POD, ...env };
  const child = spawn(process.execPath, [MAIN], { argv0, env: variables, stdio: 'pipe' });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  child.stdin.on('error', () => {}).end(JSON.stringify(CONFIG));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { stdout, stderr, code };
}

t.test('the full file hands a call to the agent, and prints its answer', { buffered: true }, async (t) => {
  const seen: unknown[] = [];
  await using world = await openWorld(async ({ env, stdin }) => {
    seen.push([
      env['CNI_COMMAND'],
      env['CNI_CONTAINERID'],
      env['AETHER_RELAY_SOCKET'],
      JSON.parse(Buffer.from(stdin).toString()),
    ]);
    return { stdout: `answer to ${env['CNI_COMMAND']}\n`, stderr: 'said\n', exitCode: 5 };
  });
  for (const verb of ['ADD', 'DEL', 'CHECK', 'GC', 'STATUS']) {
    const done = await run(verb, { AETHER_RELAY_SOCKET: world.socketPath });
    t.strictSame(done, { stdout: `answer to ${verb}\n`, stderr: 'said\n', code: 5 });
    t.strictSame(seen.pop(), [verb, 'c1', undefined, CONFIG]);
  }
  t.match(await run('VERSION', { AETHER_RELAY_SOCKET: world.socketPath }), { stdout: /supportedVersions/, code: 0 });
  t.strictSame(seen, [], 'VERSION is no call for the agent');
});

t.test('an answer comes whole through a full stdout that does not block', { buffered: true }, async (t) => {
  const stdout = Buffer.alloc(2_000_000, 'a line of an answer\n');
  await using world = await openWorld(async () => ({ stdout, exitCode: 0 }));
  const env = { CNI_COMMAND: 'STATUS', AETHER_RELAY_SOCKET: world.socketPath };
  // Node's own spawn makes what it hands on block.
  const unblock = 'import os,sys; os.set_blocking(1, False); os.execv(sys.argv[1], sys.argv[1:])';
  const child = spawn('/usr/bin/python3', ['-c', unblock, process.execPath, MAIN], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  // Nothing is read until then, so it fills.
  await once(child.stdout, 'readable');
  await sleep(300);
  t.equal((await text(child.stdout)).length, stdout.length);
  t.equal(await ended, 0);
});

t.test('the relay starts it under a name by which it asks nobody', { buffered: true }, async (t) => {
  await using world = await openWorld(async () => {
    t.fail('asked');
    return { stdout: '', exitCode: 1 };
  });
  const done = await run('ADD', { AETHER_RELAY_SOCKET: world.socketPath }, '/opt/cni/bin/aether-cni-standalone');
  t.match(done, { stdout: /10\.1\.2\.3/, code: 0 });
});

/** An agent that does this with every connection. */
async function misbehave(name: string, behave: (socket: Socket) => void) {
  const socketPath = join(dir, `${name}.sock`);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).once('data', () => behave(socket));
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return {
    env: { AETHER_RELAY_SOCKET: socketPath },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

t.test('the full file does itself what the agent refuses', { buffered: true }, async (t) => {
  await using agent = await misbehave('refuses', (socket) => socket.end(Buffer.of(MARKER_REFUSED)));
  t.match(await run('ADD', agent.env), { stdout: /10\.1\.2\.3/, code: 0 });
  t.match(await run('DEL', agent.env), { stdout: '', code: 0 });
  t.match(JSON.parse((await run('STATUS', agent.env)).stdout), { code: 50 });
});

t.test('the full file does no ADD that the agent may have done half', { buffered: true }, async (t) => {
  await using agent = await misbehave('breaks', (socket) => socket.end(Buffer.of(MARKER_TAKEN)));
  const { stdout, code } = await run('ADD', agent.env);
  t.match(JSON.parse(stdout), { code: 11, msg: /try again later/ });
  t.equal(code, 1);
  t.match(await run('DEL', agent.env), { stdout: '', code: 0 }, 'what may be repeated is');
  t.match(JSON.parse((await run('STATUS', agent.env)).stdout), { code: 50 });
});

t.test(
  'a hanging agent holds up neither DEL nor STATUS, and is no reason to do an ADD twice',
  { buffered: true },
  async (t) => {
    await using agent = await misbehave('hangs', () => {});
    t.match(await run('DEL', agent.env), { code: 0 });
    t.match(JSON.parse((await run('STATUS', agent.env)).stdout), { code: 50 });
    t.match(JSON.parse((await run('ADD', agent.env)).stdout), { code: 11, msg: /gave no answer/ });
  },
);

t.test('isForAgent() knows verbs and the name that the relay uses', async (t) => {
  t.equal(isForAgent({ CNI_COMMAND: 'ADD' }, ['/a/aether-cni', '/a/node']), true);
  t.equal(isForAgent({ CNI_COMMAND: 'ADD' }, ['/a/aether-cni', '/a/aether-cni-standalone']), false);
  for (const verb of ['VERSION', 'add', '', undefined]) t.equal(isForAgent({ CNI_COMMAND: verb }, []), false);
});

t.test('planRelayCall() takes times from the configuration as the relay does', async (t) => {
  const times = (verb: string, config: string, env = {}) => {
    const plan = planRelayCall({ CNI_COMMAND: verb, ...SOCKET, ...env }, Buffer.from(config));
    return [plan?.takeMs, plan?.answerMs];
  };
  t.strictSame(times('ADD', '{}'), [5000, 15_000]);
  t.strictSame(times('ADD', 'no JSON'), [5000, 15_000]);
  t.strictSame(times('CHECK', '{"agent_timeout_ms":700}'), [700, 10_700]);
  t.strictSame(times('DEL', '{"agent_timeout_ms":7000}'), [1000, 17_000]);
  t.strictSame(times('STATUS', '{}', { AETHER_RELAY_TIMEOUT_MS: '300' }), [1000, 300]);
  for (const wrong of ['0', '-1', '1.5', '"9"', '600001'])
    t.strictSame(times('ADD', `{"agent_timeout_ms":${wrong}}`), [5000, 15_000], wrong);
});

t.test('planRelayCall() asks the agent that is meant', async (t) => {
  const socketOf = (config: object, env = {}) =>
    planRelayCall({ CNI_COMMAND: 'ADD', ...env }, Buffer.from(JSON.stringify(config)))?.socketPath;
  t.equal(socketOf({}), '/run/aether/relay.sock');
  t.equal(socketOf({ agent_cni_path: '/run/aether/cni.sock' }), '/run/aether/relay.sock');
  t.equal(socketOf({ agent_cni_path: '/elsewhere/cni.sock' }), undefined, 'another one is asked by its own socket');
  t.equal(socketOf({ agent_cni_path: '/elsewhere/cni.sock' }, SOCKET), '/x/relay.sock');
  t.equal(socketOf({}, { AETHER_RELAY_SOCKET: '' }), '/run/aether/relay.sock');
});

t.test('planRelayCall() sends no more variables than a request may hold', async (t) => {
  const plan = (bytes: number) => planRelayCall({ ...SOCKET, CNI_ARGS: 'x'.repeat(bytes) }, Buffer.from('{}'));
  const fitting = 64 * 1024 - 'CNI_ARGS=\0'.length;
  const lengths = [plan(fitting)?.request.readUInt32LE(8), plan(fitting)?.request.readUInt32LE(12)];
  t.strictSame(lengths, [ENV_BYTES_MAX, 2]);
  t.equal(plan(fitting + 1), undefined);
  t.ok(STDIN_BYTES_MAX > 4 * 1024 * 1024 + 1, 'and stdin is never too long: the plugin reads less');
});
