// The agent as STATUS, CHECK and GC of the full file ask it: aether.admin.v1 over admin.sock. An agent of the Go mesh has
// no such socket: then its cni.sock at least says whether it is there.

import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { AgentError } from '../../core/errors.ts';
import {
  AdminService,
  CollectRequestSchema,
  ListPodsRequestSchema,
  StatusRequestSchema,
} from '../../gen/aether/admin/v1/admin_pb.js';
import type { AgentAdmin } from '../../plugin/deps.ts';
import { podRecordFromMessage } from './proto-pod.ts';
import { agentErrorFromStatus } from './status-errors.ts';
import { callUnary } from './unary-client.ts';

export interface AdminClientOptions {
  readonly adminSocket: string;
  readonly agentSocket: string;
}

/** Connects at the first call and closes after each: nothing to dispose. Its calls throw AgentError only. */
export function createAdminClient({ adminSocket, agentSocket }: AdminClientOptions): AgentAdmin {
  const hasAdmin = (): boolean => existsSync(adminSocket);
  return {
    async status({ timeoutMs }) {
      if (!hasAdmin()) {
        await assertListening(agentSocket, timeoutMs);
        return { ready: true, problems: [] };
      }
      const call = callUnary(AdminService.method.status, create(StatusRequestSchema), {
        socketPath: adminSocket,
        timeoutMs,
      });
      const { response } = await call.catch(rethrow('asking the agent for its status'));
      return { ready: response.ready, problems: response.problems };
    },

    async findRecord(containerId, { timeoutMs }) {
      if (!hasAdmin()) return { kind: 'unknowable' };
      const request = create(ListPodsRequestSchema, { containerId });
      const call = callUnary(AdminService.method.listPods, request, { socketPath: adminSocket, timeoutMs });
      const { response } = await call.catch(rethrow('asking the agent for the record'));
      const pod = response.pods.find(({ record }) => record?.containerId === containerId);
      if (pod?.record === undefined) return { kind: 'none' };
      const { problems, tableDifferences } = pod;
      return { kind: 'record', record: podRecordFromMessage(pod.record), problems, tableDifferences };
    },

    async collect({ network, attachments }, { timeoutMs }) {
      if (!hasAdmin()) return false;
      const validAttachments = attachments.map(({ containerId, ifname }) => ({ containerId, ifname }));
      const request = create(CollectRequestSchema, { network, validAttachments });
      const call = callUnary(AdminService.method.collect, request, { socketPath: adminSocket, timeoutMs });
      await call.catch(rethrow('asking the agent to collect garbage'));
      return true;
    },
  };
}

function rethrow(what: string): (error: unknown) => never {
  return (error) => {
    throw agentErrorFromStatus(error, what);
  };
}

function assertListening(socketPath: string, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (reason: string): void =>
      reject(
        new AgentError('unavailable', `asking the agent for its status: the node agent is not available (${reason})`),
      );
    const socket = connect({ path: socketPath });
    socket.setTimeout(timeoutMs, () => {
      socket.destroy();
      fail('no answer in time');
    });
    socket.on('error', (error) => fail(error.message));
    socket.on('connect', () => {
      socket.destroy();
      resolve();
    });
  });
}
