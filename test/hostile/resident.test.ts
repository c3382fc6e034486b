// The resident path from a caller's seat: whose files are looked at, what the event loop's own thread never does, and what is
// left to the standalone file.
import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { EXECUTABLE, RELAY } from '../../scripts/lab/places.ts';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { configOf, makePod, makePods, runCall, startNodeAgent, variablesOf } from '../support/hostile-node.ts';
import { PLACES, ROOM_DIR, t } from '../support/hostile-room.ts';
import { rulesetOf } from '../support/hostile-state.ts';

t.setTimeout(300_000);

/** The relay with no standalone file beside it: what it answers is the agent's answer. */
const LONE_RELAY = join(ROOM_DIR, 'bin-alone', 'aether-cni');
mkdirSync(join(ROOM_DIR, 'bin-alone'));
copyFileSync(RELAY, LONE_RELAY);

await t.test('a call is answered with a namespace that only its caller can see', async (t) => {
  const agent = await startNodeAgent();
  t.teardown(() => agent.stop());
  const pod = makePod();
  // As a runtime in a mount namespace of its own: the path leads to another file there, and to nothing here.
  const hidden = { ...pod, netns: join(ROOM_DIR, 'hidden/ns') };
  mkdirSync(join(ROOM_DIR, 'hidden'));
  const prepare = `mount -t tmpfs none ${ROOM_DIR}/hidden && touch ${hidden.netns} && mount --bind ${pod.netns} ${hidden.netns}`;
  const call = (verb: 'ADD' | 'CHECK' | 'DEL'): string =>
    execFileSync('unshare', ['--mount', 'sh', '-ec', `${prepare}; exec ${LONE_RELAY}`], {
      encoding: 'utf8',
      input: JSON.stringify(configOf(hidden)),
      env: { PATH: process.env['PATH'], AETHER_RELAY_SOCKET: PLACES.relaySocket, ...variablesOf(verb, hidden) },
    });
  t.match(JSON.parse(call('ADD')), { ips: [{}] });
  t.match(rulesetOf(pod.netns), /table inet aether /, 'the rules are there');
  t.equal(call('CHECK'), '');
  t.equal(call('DEL'), '');
  t.notMatch(rulesetOf(pod.netns), /table inet aether /);
});

/** What enters namespaces, mounts, speaks netlink or waits for the disk. With a relay it speaks, and never waits. */
const OF_RELAY = /^(sendto|recvfrom)\(.*\bMSG_DONTWAIT\b/;
const NEVER = /^(setns|unshare|mount|umount2?|move_mount|send(to|msg|mmsg)|recv(from|msg|mmsg)|f(data)?sync)$/;

await t.test("the event loop's thread does none of a call's work at the kernel", async (t) => {
  const agent = await startNodeAgent();
  t.teardown(() => agent.stop());
  const pods = makePods(8);
  const trace = join(ROOM_DIR, 'main-thread.log');
  // Without -f: this thread alone.
  const strace = spawn('strace', ['-o', trace, '-p', String(agent.pid)], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  strace.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const ended = new Promise((resolve) => strace.once('close', resolve));
  await waitUntil('strace', () => said.includes('attached'), { timeoutMs: 20_000 });
  for (const verb of ['ADD', 'CHECK', 'DEL'] as const) {
    const runs = await Promise.all(pods.map((pod) => runCall('relay', verb, { pod })));
    t.strictSame(new Set(runs.map(({ exit, stdout }) => (exit === 0 ? 'fine' : stdout))), new Set(['fine']), verb);
  }
  strace.kill('SIGINT');
  await ended;
  const calls = readFileSync(trace, 'utf8')
    .split('\n')
    .filter((line) => !OF_RELAY.test(line))
    .flatMap((line) => /^\w+/.exec(line)?.[0] ?? []);
  t.ok(calls.filter((name) => name === 'accept4').length >= 24, 'the calls are in the trace');
  t.strictSame([...new Set(calls.filter((name) => NEVER.test(name)))], []);
});

await t.test('the threads that answer calls come before ordinary work, and only one of V8 beside them', async (t) => {
  // Whatever the tests are run with.
  setPriority(0);
  const agent = await startNodeAgent();
  t.teardown(() => agent.stop());
  const pods = makePods(8);
  for (const verb of ['ADD', 'DEL'] as const) await Promise.all(pods.map((pod) => runCall('relay', verb, { pod })));
  const threads = listThreads(agent.pid);
  const ours = threads.filter(({ name }) => name === 'aether-cni');
  t.ok(ours.length > 1, 'the loop and those that do kernel work');
  t.strictSame(new Set(ours.map(({ nice }) => nice)), new Set([-5]));
  t.equal(threads.filter(({ name }) => name === 'V8Worker').length, 1);
});

function listThreads(pid: number): readonly { readonly name: string; readonly nice: number }[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    try {
      const [, name = '', rest = ''] =
        /\((.*)\) (.*)/.exec(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')) ?? [];
      return [{ name, nice: Number(rest.split(' ')[16]) }];
    } catch {
      return []; // ended meanwhile
    }
  });
}

await t.test("an agent that cannot see its callers' processes leaves pods to the standalone file", async (t) => {
  // As in a container without hostPID: a number that it is told of a caller is 0.
  const apart = ['unshare', '--pid', '--fork', '--kill-child', EXECUTABLE] as const;
  const agent = await startNodeAgent({ program: apart });
  t.teardown(() => agent.stop('SIGKILL'));
  const pod = makePod();
  const add = await runCall('relay', 'ADD', { pod });
  t.equal(add.exit, 0, add.stdout);
  t.match(rulesetOf(pod.netns), /table inet aether /);
  t.match(readFileSync(agent.logFile, 'utf8'), /cannot be seen from here.*relay\.call\.refused/);
  const status = execFileSync(LONE_RELAY, {
    encoding: 'utf8',
    input: JSON.stringify(configOf(pod)),
    env: { AETHER_RELAY_SOCKET: PLACES.relaySocket, CNI_COMMAND: 'STATUS', CNI_PATH: '/opt/cni/bin' },
  });
  t.equal(status, '', 'STATUS needs no namespace: the agent answers it');
  t.equal((await runCall('relay', 'DEL', { pod })).exit, 0);
  t.notMatch(rulesetOf(pod.netns), /table inet aether /);
});
