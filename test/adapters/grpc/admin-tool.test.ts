// The agent as the tool meets it: there, away, old, of another kind, or silent. Every answer comes in bounded time.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server as NetServer } from 'node:net';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type UntypedHandleCall } from '@grpc/grpc-js';
import t from 'tap';
import { callAdmin, createToolAgent, findObstacle } from '../../../src/adapters/grpc/admin-tool.ts';
import { findingToMessage } from '../../../src/adapters/grpc/proto-finding.ts';
import { unaryMethod } from '../../../src/adapters/grpc/unary-method.ts';
import {
  AdminService,
  CheckResponseSchema,
  type Finding_Status,
  type StatusResponse,
  StatusResponseSchema,
} from '../../../src/gen/aether/admin/v1/admin_pb.js';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

function makeDir(t: TearsDown): string {
  const dir = mkdtempSync('/tmp/ae-tool-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const { method } = AdminService;
const STATUS = create(StatusResponseSchema, {
  ...{ version: '0.9', nodeName: 'node-a', ready: true, podCount: 3 },
  places: { cniSocket: '/r/cni.sock', netnsPinDir: '/r/netns', meshDns: ['10.0.0.1:18054', 'nonsense'] },
});

const answerWith =
  <T>(response: T): UntypedHandleCall =>
  (_call: unknown, callback: (error: null, response: T) => void) =>
    callback(null, response);

async function serve(t: TearsDown, handlers: Readonly<Record<string, UntypedHandleCall>>): Promise<string> {
  const path = join(makeDir(t), 'admin.sock');
  const server = new Server();
  const all = { status: unaryMethod(method.status), check: unaryMethod(method.check) };
  const served = Object.fromEntries(Object.entries(all).filter(([name]) => name in handlers));
  server.addService(served, { ...handlers });
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    ),
  );
  t.teardown(() => server.forceShutdown());
  return path;
}

async function listen(t: TearsDown, path: string): Promise<NetServer> {
  const server = createServer(() => {}).listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => server.close());
  return server;
}

const agentAt = (adminSocket: string, cniSocket = '/nowhere/cni.sock') => createToolAgent({ adminSocket, cniSocket });

t.test('status() reads what the agent says of itself', async (t) => {
  const path = await serve(t, { status: answerWith<StatusResponse>(STATUS) });
  t.match(await agentAt(path).status(), {
    ...{ kind: 'status', version: '0.9', nodeName: 'node-a', ready: true, podCount: 3, startedAt: undefined },
    places: {
      ...{ adminSocket: path, cniSocket: '/r/cni.sock', relaySocket: undefined, pinDir: '/r/netns' },
      meshDns: [{ address: { text: '10.0.0.1' }, port: 18054 }],
    },
  });
});

t.test('status() of an agent from before it told its places', async (t) => {
  const path = await serve(t, { status: answerWith(create(StatusResponseSchema, { nodeName: 'node-a' })) });
  t.match(await agentAt(path).status(), { kind: 'status', nodeName: 'node-a', places: undefined });
});

t.test('check() of an older agent is unsupported, of a newer one a warning where its words are new', async (t) => {
  const old = await serve(t, { status: answerWith(STATUS) });
  t.strictSame(await agentAt(old).check(''), { kind: 'unsupported' });
  await t.rejects(callAdmin(method.check, {}, { socketPath: old, timeoutMs: 1000, what: 'checking' }), {
    message: 'checking: this agent is of an older version and cannot say it',
  });
  const ok = { status: 'ok', area: 'a', subject: 's', message: 'm', remedy: '' } as const;
  const strange = { ...findingToMessage(ok), status: 9 as Finding_Status };
  const path = await serve(t, {
    check: answerWith(create(CheckResponseSchema, { findings: [findingToMessage(ok), strange] })),
  });
  t.strictSame(await agentAt(path).check(''), { kind: 'findings', findings: [ok, { ...ok, status: 'warn' }] });
});

t.test('status() says why there is no agent', async (t) => {
  const dir = makeDir(t);
  const admin = join(dir, 'admin.sock');
  t.match(await agentAt(admin).status(), { kind: 'away', reason: /admin\.sock is not there: is the agent running/ });
  writeFileSync(admin, '');
  t.match(await agentAt(admin).status(), { kind: 'away', reason: /nobody answers on .*admin\.sock/ });
});

t.test('status() tells an agent of another kind from none', async (t) => {
  const dir = makeDir(t);
  await listen(t, join(dir, 'cni.sock'));
  const agent = agentAt(join(dir, 'admin.sock'), join(dir, 'cni.sock'));
  t.match(await agent.status(), { kind: 'away', reason: /something answers on .*cni\.sock: an agent of the Go mesh/ });
  t.equal(await agent.listRecords(), undefined);
});

t.test('an agent that accepts and is silent costs bounded time', async (t) => {
  const path = join(makeDir(t), 'admin.sock');
  const server = await listen(t, path);
  const sockets = new Set<{ destroy(): void }>();
  server.on('connection', (socket) => sockets.add(socket));
  const begin = Date.now();
  const call = callAdmin(method.status, {}, { socketPath: path, timeoutMs: 400, what: 'asking' });
  await t.rejects(call, {
    code: 'E_AGENT',
    problem: 'unavailable',
    message: /^asking: no answer on .*admin\.sock within 0\.4 s/,
  });
  t.ok(Date.now() - begin < 10_000);
  for (const socket of sockets) socket.destroy();
});

t.test('findObstacle() is silent about a socket that accepts', async (t) => {
  const path = join(makeDir(t), 's.sock');
  await listen(t, path);
  t.equal(await findObstacle(path), undefined);
  t.match(await findObstacle('/proc/version/x'), /is not there/);
});
