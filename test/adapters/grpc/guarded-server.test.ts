// Nobody can sit on a gRPC socket, and who has a call at work is left alone.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { sendUnaryData } from '@grpc/grpc-js';
import t from 'tap';
import { GuardedServer } from '../../../src/adapters/grpc/guarded-server.ts';
import { callUnary } from '../../../src/adapters/grpc/unary-client.ts';
import { unaryMethod } from '../../../src/adapters/grpc/unary-method.ts';
import {
  CNIService,
  RemovePodRequestSchema,
  type RemovePodResponse,
  RemovePodResponse_Result,
  RemovePodResponseSchema,
} from '../../../src/gen/aether/cni/v1/cni_pb.js';
import { hostileGrpcClients, PING, sendAndWait } from '../../support/hostile-http2.ts';

interface TearsDown {
  teardown(fn: () => unknown): unknown;
}

/** A service that answers after a time. */
async function serve(t: TearsDown, answerMs: number): Promise<string> {
  const dir = mkdtempSync('/tmp/ae-guard-');
  const socketPath = join(dir, 's.sock');
  const server = new GuardedServer();
  server.grpc.addService(
    { removePod: unaryMethod(CNIService.method.removePod) },
    {
      removePod: (_call: unknown, done: sendUnaryData<RemovePodResponse>) => {
        setTimeout(done, answerMs, null, create(RemovePodResponseSchema, { result: RemovePodResponse_Result.SUCCESS }));
      },
    },
  );
  await server.listen({ socketPath, mode: 0o600 });
  t.teardown(async () => {
    await server.close({ graceMs: 100 });
    rmSync(dir, { recursive: true, force: true });
  });
  return socketPath;
}

const REMOVE = create(RemovePodRequestSchema, { containerId: 'c1', name: 'a', namespace: 'b' });
const removePod = (socketPath: string) =>
  callUnary(CNIService.method.removePod, REMOVE, { socketPath, timeoutMs: 20_000 });

t.test('GuardedServer cuts a connection without a call within five seconds', { timeout: 60_000 }, async (t) => {
  const socketPath = await serve(t, 0);
  t.equal(statSync(socketPath).mode & 0o777, 0o600);
  const clients = Object.entries(hostileGrpcClients('/aether.cni.v1.CNIService/RemovePod')).map(
    ([name, bytes]) => [name, bytes, undefined] as const,
  );
  const idle = hostileGrpcClients('')['settings alone'] ?? PING;
  await Promise.all(
    [...clients, ['pings without end', idle, PING] as const].map(async ([name, bytes, drip]) => {
      const { closed, ms } = await sendAndWait(socketPath, bytes, {
        patienceMs: 8000,
        ...(drip === undefined ? {} : { drip }),
      });
      t.ok(closed && ms < 5000, `${name}: ${closed ? 'closed' : 'open'} after ${Math.round(ms)} ms`);
    }),
  );
  t.ok(await removePod(socketPath), 'and a good one is answered');
});

t.test('GuardedServer leaves a call at work alone', { timeout: 60_000 }, async (t) => {
  const { response } = await removePod(await serve(t, 5500));
  t.equal(response.result, RemovePodResponse_Result.SUCCESS);
});

t.test('GuardedServer answers while 1000 connections idle', { timeout: 60_000 }, async (t) => {
  const socketPath = await serve(t, 0);
  const idle = Array.from({ length: 1000 }, () => connect(socketPath).on('error', () => {}));
  await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  let gone = 0;
  const closed = idle.map((socket) => new Promise((resolve) => socket.resume().once('close', resolve)));
  for (const socket of idle) socket.once('close', () => gone++);
  await removePod(socketPath);
  t.ok(gone < idle.length, `before they are gone: ${gone}`);
  await Promise.all(closed);
});

t.test('close() of a GuardedServer waits for a call at work and not for idle ones', { timeout: 60_000 }, async (t) => {
  const dir = mkdtempSync('/tmp/ae-guard-');
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const server = new GuardedServer();
  await server.listen({ socketPath: join(dir, 's.sock'), mode: 0o600 });
  const half = sendAndWait(join(dir, 's.sock'), hostileGrpcClients('/x')['half a frame'] ?? PING, { patienceMs: 5000 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  const start = performance.now();
  await server.close({ graceMs: 200 });
  t.ok(performance.now() - start < 2700, 'sooner than idle ones are cut');
  t.ok((await half).closed);
});
