// Clients of the agent's four sockets that send garbage, half a frame, a gigabyte of length or nothing are gone within five
// seconds, without a trace on others; who is not root is refused; idle connections stop nobody; a hostile ADS client ends its
// own stream and nothing else.
import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { waitUntil } from '../../scripts/lab/processes.ts';
import { typeUrlOf } from '../../src/adapters/grpc/ads-messages.ts';
import { encodeRequest, RELAY_FRAME_VERSION, RELAY_MAGIC } from '../../src/cni/relay-frame.ts';
import { connectEnvoy, encodeAsk, type HostileStream, openHostileStream } from '../support/hostile-ads.ts';
import { hostileGrpcClients, PING, sendAndWait } from '../support/hostile-http2.ts';
import { configOf, makePod, renewed, runCall, startNodeAgent, variablesOf } from '../support/hostile-node.ts';
import { PLACES, t } from '../support/hostile-room.ts';
import { readSettledHoldings, readSettledState, waitForState } from '../support/hostile-state.ts';

t.setTimeout(600_000);
const agent = await startNodeAgent();
t.teardown(() => agent.stop());
const bystander = makePod();
const pod = makePod();
await runCall('relay', 'ADD', { pod: bystander });
// Once each way, so that everything is loaded that stays open.
for (const form of ['full', 'relay'] as const) await runLife(form);
const pods = [bystander, pod];
const before = await readSettledState(pods);
const holdings = await readSettledHoldings(agent.pid);

const GRPC = [
  { name: 'cni.sock', path: PLACES.cniSocket, method: '/aether.cni.v1.CNIService/AddPod' },
  { name: 'admin.sock', path: PLACES.adminSocket, method: '/aether.admin.v1.AdminService/Status' },
  {
    name: 'xds.sock',
    path: PLACES.xdsSocket,
    method: '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources',
  },
] as const;

/** A pod comes and goes; what failed, nothing else. */
async function runLife(form: 'full' | 'relay'): Promise<readonly string[]> {
  const one = renewed(pod);
  const failures: string[] = [];
  for (const verb of ['ADD', 'CHECK', 'DEL'] as const) {
    const { exit, stdout, stderr } = await runCall(form, verb, { pod: one });
    if (exit !== 0) failures.push(`${verb}: ${exit} ${stdout}${stderr}`);
  }
  return failures;
}

async function takeInAndOut(t: Test, form: 'full' | 'relay'): Promise<void> {
  t.strictSame(await runLife(form), [], `a pod meanwhile, ${form}`);
}

async function checkUntouched(t: Test): Promise<void> {
  t.strictSame(await waitForState(before, pods), before, 'nothing has changed');
  const { descriptors } = await readSettledHoldings(agent.pid);
  t.strictSame(descriptors, holdings.descriptors, 'and nothing stays open');
}

/** What a bad client of the relay's socket sends. */
function hostileRelayClients(): Readonly<Record<string, Buffer>> {
  const whole = encodeRequest(variables('STATUS'), Buffer.from('{}'));
  const header = (envBytes: number, stdinBytes: number): Buffer => {
    const bytes = Buffer.alloc(16);
    [RELAY_MAGIC, RELAY_FRAME_VERSION, envBytes, stdinBytes].forEach((value, index) => {
      bytes.writeUInt32LE(value, 4 * index);
    });
    return bytes;
  };
  return {
    nothing: Buffer.alloc(0),
    garbage: Buffer.from('GET / HTTP/1.1\r\n\r\n'),
    zeros: Buffer.alloc(4096),
    'half a header': whole.subarray(0, 9),
    'half a request': whole.subarray(0, whole.length - 3),
    '1 GiB of variables': header(2 ** 30, 0),
    '1 GiB of stdin': header(0, 2 ** 30),
    '4 GiB of everything': header(2 ** 32 - 1, 2 ** 32 - 1),
    'variables that are none': Buffer.concat([header(4, 0), Buffer.from('PATH')]),
    'another version': Buffer.concat([whole.subarray(0, 4), Buffer.of(9, 0, 0, 0), whole.subarray(8)]),
    'more than a request': Buffer.concat([whole, Buffer.alloc(100_000)]),
  };
}

function variables(verb: 'STATUS'): Record<string, string> {
  const given = Object.entries(variablesOf(verb, pod));
  return Object.fromEntries(given.filter((pair): pair is [string, string] => pair[1] !== undefined));
}

/** All bad clients of one socket at once; how each fared. */
async function sendAll(socket: (typeof SOCKETS)[number]): Promise<readonly string[]> {
  const { name, path, clients, drip } = socket;
  const cases = [...Object.entries(clients), ['bytes without end', drip.first] as const];
  const fates = cases.map(async ([what, bytes]) => {
    const more = what === 'bytes without end' ? { drip: drip.next } : {};
    const { closed, ms } = await sendAndWait(path, bytes, { patienceMs: 9000, ...more });
    // The five seconds, and two that a busy machine may take.
    return closed && ms < 7000 ? '' : `${name}, ${what}: ${closed ? 'closed' : 'open'} after ${Math.round(ms)} ms`;
  });
  return (await Promise.all(fates)).filter((flaw) => flaw !== '');
}

const SOCKETS = [
  ...GRPC.map(({ name, path, method }) => {
    const clients = hostileGrpcClients(method);
    return { name, path, clients, drip: { first: clients['settings alone'] ?? PING, next: PING } };
  }),
  {
    ...{ name: 'relay.sock', path: PLACES.relaySocket, clients: hostileRelayClients() },
    drip: { first: Buffer.alloc(0), next: Buffer.of(0) },
  },
];

await t.test('bad clients of all four sockets are gone within five seconds', async (t) => {
  const fates = SOCKETS.map(sendAll);
  for (const form of ['relay', 'full'] as const) await takeInAndOut(t, form);
  for (const [index, { name }] of SOCKETS.entries()) t.strictSame(await fates[index], [], name);
  await checkUntouched(t);
});

await t.test('1000 idle connections to each of the four sockets stop no pod', async (t) => {
  const idle = SOCKETS.flatMap(({ path }) => Array.from({ length: 1000 }, () => connect(path).on('error', () => {})));
  await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  for (const form of ['relay', 'full'] as const) await takeInAndOut(t, form);
  await Promise.all(idle.map((socket) => new Promise((resolve) => socket.resume().once('close', resolve))));
  await checkUntouched(t);
});

await t.test('who is not root is refused', async (t) => {
  const program = `const { connect } = require('node:net');
    const socket = connect(process.argv[1]);
    let received = 0;
    socket.on('error', ({ code }) => { console.log(code); });
    socket.on('data', (chunk) => { received += chunk.length; });
    socket.on('close', () => { console.log('closed after ' + received); });
    socket.write(Buffer.from(process.argv[2], 'base64'));`;
  const asNobody = (path: string, bytes: Buffer): string => {
    const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', '--inh-caps=-all'];
    const command = [process.execPath, '-e', program, path, bytes.toString('base64')];
    return spawnSync('setpriv', [...nobody, ...command], { encoding: 'utf8', timeout: 20_000 }).stdout;
  };
  const call = encodeRequest(variables('STATUS'), Buffer.from(JSON.stringify(configOf(pod))));
  for (const { name, path } of SOCKETS) t.match(asNobody(path, call), /^EACCES/, name);
  // The mode is not all that keeps others from starting CNI calls.
  chmodSync(PLACES.relaySocket, 0o666);
  t.match(asNobody(PLACES.relaySocket, call), /closed after 0/, 'relay.sock with a wrong mode');
  chmodSync(PLACES.relaySocket, 0o600);
  await checkUntouched(t);
});

const cluster = typeUrlOf('cluster');
const listener = typeUrlOf('listener');
const manyNames = Array.from({ length: 50_000 }, (_, index) => `name-${index}-${'x'.repeat(50)}`);

/** `ends`: the server must end it; else it may stay, and must be of no consequence. */
const HOSTILE_STREAMS: readonly {
  readonly what: string;
  readonly ends: boolean;
  readonly act: (stream: HostileStream) => void;
}[] = [
  { what: 'bytes that are no message', ends: true, act: (stream) => stream.write(Buffer.alloc(100, 0xff)) },
  { what: 'a cut message', ends: true, act: (stream) => stream.write(encodeAsk({ typeUrl: cluster }).subarray(0, 9)) },
  { what: 'a message of 80 MB', ends: true, act: (stream) => stream.write(Buffer.alloc(80 * 1024 * 1024, 0x0a)) },
  {
    what: 'garbage after a good request',
    ends: true,
    act: (stream) => {
      stream.write(encodeAsk({ typeUrl: cluster }));
      stream.write(Buffer.alloc(50, 0xfe));
    },
  },
  { what: 'nothing', ends: true, act: () => {} },
  {
    what: 'types that nobody serves',
    ends: false,
    act: (stream) => {
      for (let n = 0; n < 200; n++) stream.write(encodeAsk({ typeUrl: `type.googleapis.com/no.such.Type${n}` }));
    },
  },
  {
    what: 'nonces that were never given',
    ends: false,
    act: (stream) => {
      for (let n = 0; n < 200; n++) stream.write(encodeAsk({ typeUrl: cluster, responseNonce: `n${n}` }));
    },
  },
  {
    what: '50 000 names',
    ends: false,
    act: (stream) => {
      stream.write(encodeAsk({ typeUrl: cluster, resourceNamesSubscribe: manyNames }));
      stream.write(encodeAsk({ typeUrl: cluster, resourceNamesUnsubscribe: manyNames }));
    },
  },
  {
    what: 'versions that it cannot have',
    ends: false,
    act: (stream) => {
      const initialResourceVersions = Object.fromEntries(manyNames.slice(0, 5000).map((name) => [name, '1']));
      stream.write(encodeAsk({ typeUrl: listener, initialResourceVersions }));
    },
  },
  {
    what: 'no reading',
    ends: false,
    act: (stream) => {
      stream.pause();
      for (let n = 0; n < 500; n++) stream.write(encodeAsk({ typeUrl: cluster, resourceNamesSubscribe: ['*'] }));
    },
  },
];

for (const { what, ends, act } of HOSTILE_STREAMS) {
  await t.test(`an ADS client that sends ${what} ends its own stream and nothing else`, async (t) => {
    using good = connectEnvoy(PLACES.xdsSocket);
    await waitUntil('a snapshot', () => (good.held.get('listener')?.size ?? 0) > 0, { timeoutMs: 10_000 });
    const stream = openHostileStream(PLACES.xdsSocket);
    act(stream);
    if (ends) {
      const ended = await Promise.race([stream.ended, sleep(5000, 'still open')]);
      t.not(ended, 'still open', ended);
    }
    // A pod comes: the good one is told, and it goes again.
    const one = renewed(pod);
    const add = await runCall('relay', 'ADD', { pod: one });
    t.equal(add.exit, 0, add.stdout);
    const name = `inbound_demo_${pod.name}`;
    const isHeld = () => good.held.get('listener')?.has(name) === true;
    await waitUntil(name, isHeld, { timeoutMs: 10_000 }).catch(() => {});
    t.ok(isHeld(), 'another Envoy gets what it needs');
    t.equal((await runCall('relay', 'DEL', { pod: one })).exit, 0);
    await waitUntil('its end', () => !isHeld(), { timeoutMs: 10_000 }).catch(() => {});
    t.notOk(isHeld());
    t.ok(good.isOpen(), 'and keeps its stream');
    stream[Symbol.dispose]();
    t.ok(agent.isAlive());
  });
}

await t.test('1000 ADS streams that are opened and given up at once leave nothing', async (t) => {
  for (let round = 0; round < 10; round++) {
    const streams = Array.from({ length: 100 }, () => openHostileStream(PLACES.xdsSocket));
    for (const stream of streams) stream.write(encodeAsk({ typeUrl: cluster }));
    await sleep(20);
    for (const stream of streams) stream[Symbol.dispose]();
  }
  await takeInAndOut(t, 'relay');
  await checkUntouched(t);
  const { residentBytes } = await readSettledHoldings(agent.pid);
  t.ok(residentBytes < 1024 ** 3, `${Math.round(residentBytes / 1024 ** 2)} MiB`);
});
