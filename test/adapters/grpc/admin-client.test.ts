// What STATUS, CHECK and GC ask over admin.sock, and what they do where an agent has none.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import t from 'tap';
import { createAdminClient } from '../../../src/adapters/grpc/admin-client.ts';
import { handler } from '../../../src/adapters/grpc/cni-server.ts';
import { unaryMethod } from '../../../src/adapters/grpc/unary-method.ts';
import { AgentError } from '../../../src/core/errors.ts';
import type { ContainerId } from '../../../src/core/identifiers.ts';
import {
  AdminService,
  type CollectRequest,
  type CollectResponse,
  CollectResponseSchema,
  type ListPodsRequest,
  type ListPodsResponse,
  ListPodsResponseSchema,
  type StatusRequest,
  type StatusResponse,
  StatusResponseSchema,
} from '../../../src/gen/aether/admin/v1/admin_pb.js';
import { RecordingLog } from '../../support/recording-log.ts';

const dir = mkdtempSync('/tmp/ae-admin-');
t.teardown(() => rmSync(dir, { recursive: true, force: true }));
const containerId = 'c1' as ContainerId;
const TIME = { timeoutMs: 1000 };
const asked: CollectRequest[] = [];
let isFailing = false;

async function startServer(): Promise<string> {
  const { method } = AdminService;
  const log = new RecordingLog();
  const server = new Server();
  server.addService(
    {
      status: unaryMethod(method.status),
      listPods: unaryMethod(method.listPods),
      collect: unaryMethod(method.collect),
    },
    {
      status: handler<StatusRequest, StatusResponse>({ what: 'Status', log }, async () => {
        if (isFailing) throw new AgentError('failed', 'x: broken');
        return { response: create(StatusResponseSchema, { ready: false, problems: ['it starts'] }) };
      }),
      listPods: handler<ListPodsRequest, ListPodsResponse>({ what: 'ListPods', log }, async ({ request }) => {
        const pods = [{ record: { containerId, name: 'shop-0', namespace: 'demo' }, problems: ['not registered'] }];
        const wanted = pods.filter(({ record }) => record.containerId === request.containerId);
        return { response: create(ListPodsResponseSchema, { pods: wanted }) };
      }),
      collect: handler<CollectRequest, CollectResponse>({ what: 'Collect', log }, async ({ request }) => {
        asked.push(request);
        return { response: create(CollectResponseSchema) };
      }),
    },
  );
  const path = join(dir, 'admin.sock');
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  t.teardown(() => server.forceShutdown());
  return path;
}

const client = createAdminClient({ adminSocket: await startServer(), agentSocket: join(dir, 'absent.sock') });

t.test('status() gives readiness and sentences', async (t) => {
  t.strictSame(await client.status(TIME), { ready: false, problems: ['it starts'] });
  isFailing = true;
  await t.rejects(client.status(TIME), { code: 'E_AGENT', problem: 'failed', message: /broken/ });
  isFailing = false;
});

t.test('findRecord() gives the record of one container', async (t) => {
  t.match(await client.findRecord(containerId, TIME), {
    kind: 'record',
    record: { name: 'shop-0', namespace: 'demo', containerId: 'c1' },
    problems: ['not registered'],
  });
  t.strictSame(await client.findRecord('c2' as ContainerId, TIME), { kind: 'none' });
});

t.test('collect() hands on network and attachments', async (t) => {
  const attachments = [{ containerId: 'c1', ifname: 'eth0' }];
  t.equal(await client.collect({ network: 'net', attachments }, TIME), true);
  t.match(asked, [{ network: 'net', validAttachments: attachments }]);
});

t.test('without an admin socket, cni.sock says whether the agent is there', async (t) => {
  const agentSocket = join(dir, 'cni.sock');
  const old = createAdminClient({ adminSocket: join(dir, 'absent.sock'), agentSocket });
  await t.rejects(old.status(TIME), { code: 'E_AGENT', problem: 'unavailable', message: /ENOENT/ });
  t.strictSame(await old.findRecord(containerId, TIME), { kind: 'unknowable' });
  t.equal(await old.collect({ network: 'net', attachments: [] }, TIME), false);
  const server = createServer((socket) => socket.on('error', () => {})).listen(agentSocket);
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => server.close());
  t.strictSame(await old.status(TIME), { ready: true, problems: [] });
});
