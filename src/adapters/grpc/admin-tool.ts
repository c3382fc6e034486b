// The agent as the admin's tool asks it, over admin.sock: bounded calls, and a sentence a person can use where one fails.
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf';
import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { AgentAnswer, NodePlaces, ToolAgent } from '../../agent/node-check-deps.ts';
import { AgentAbsentError, AgentError, messageOf } from '../../core/errors.ts';
import { parseSocketAddress } from '../../core/socket-address.ts';
import { AdminService, type StatusResponse } from '../../gen/aether/admin/v1/admin_pb.js';
import { findingFromMessage } from './proto-finding.ts';
import { podRecordFromMessage } from './proto-pod.ts';
import { agentErrorFromStatus, GRPC_DEADLINE_EXCEEDED, GRPC_UNIMPLEMENTED, isStatusCode } from './status-errors.ts';
import { callUnary } from './unary-client.ts';

const STATUS_MS = 3000;
const LIST_MS = 5000;
/** More than the agent gives itself. */
const CHECK_MS = 10_000;

export interface AdminCallOptions {
  readonly socketPath: string;
  readonly timeoutMs: number;
  /** What is attempted: `listing the pods`. */
  readonly what: string;
}

/** Throws AgentError: its message says what a person can do; `cause` is the status. */
export async function callAdmin<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  request: MessageInitShape<I>,
  { socketPath, timeoutMs, what }: AdminCallOptions,
): Promise<MessageShape<O>> {
  const reason = await findObstacle(socketPath);
  if (reason !== undefined) throw new AgentAbsentError(`${what}: ${reason}`);
  try {
    return (await callUnary(method, create(method.input, request), { socketPath, timeoutMs })).response;
  } catch (error) {
    if (isStatusCode(error, GRPC_UNIMPLEMENTED)) {
      throw new AgentError('failed', `${what}: this agent is of an older version and cannot say it`, { cause: error });
    }
    if (isStatusCode(error, GRPC_DEADLINE_EXCEEDED)) {
      const reason = `no answer on ${socketPath} within ${timeoutMs / 1000} s: is the agent stopped, or very busy?`;
      throw new AgentError('unavailable', `${what}: ${reason}`, { cause: error });
    }
    throw agentErrorFromStatus(error, what);
  }
}

/** The agent behind one socket; `cniSocket` tells an agent without an admin socket from none. */
export function createToolAgent({
  adminSocket,
  cniSocket,
}: {
  readonly adminSocket: string;
  readonly cniSocket: string;
}): ToolAgent {
  const call = { socketPath: adminSocket };
  return {
    async status() {
      try {
        const options = { ...call, timeoutMs: STATUS_MS, what: 'asking for its status' };
        return readStatus(await callAdmin(AdminService.method.status, {}, options), adminSocket);
      } catch (error) {
        const isOther = !existsSync(adminSocket) && (await findObstacle(cniSocket)) === undefined;
        const reason = isOther
          ? `${adminSocket} is not there, but something answers on ${cniSocket}: an agent of the Go mesh, or one with another --admin-socket`
          : messageOf(error);
        return { kind: 'away', reason };
      }
    },
    async check(subject) {
      try {
        const options = { ...call, timeoutMs: CHECK_MS, what: 'checking' };
        const { findings } = await callAdmin(AdminService.method.check, { subject }, options);
        return { kind: 'findings', findings: findings.map(findingFromMessage) };
      } catch (error) {
        const isOlder = error instanceof AgentError && isStatusCode(error.cause, GRPC_UNIMPLEMENTED);
        return isOlder ? { kind: 'unsupported' } : { kind: 'failed', reason: messageOf(error) };
      }
    },
    async listRecords() {
      try {
        const options = { ...call, timeoutMs: LIST_MS, what: 'listing the pods' };
        const { pods } = await callAdmin(AdminService.method.listPods, {}, options);
        return pods.flatMap(({ record }) => (record === undefined ? [] : [podRecordFromMessage(record)]));
      } catch {
        return undefined;
      }
    },
  };
}

function readStatus(status: StatusResponse, adminSocket: string): AgentAnswer {
  const { version, nodeName, ready, problems, podCount, serviceCount, startedAt } = status;
  return {
    kind: 'status',
    ...{ version, nodeName, ready, problems, podCount, serviceCount },
    startedAt: startedAt === undefined ? undefined : timestampDate(startedAt),
    places: readPlaces(status, adminSocket),
  };
}

function readPlaces({ places }: StatusResponse, adminSocket: string): NodePlaces | undefined {
  if (places === undefined) return undefined;
  const { cniSocket, relaySocket, xdsSocket, xdsSocketMode, recordDir, meshDomain } = places;
  return {
    ...{ adminSocket, cniSocket, xdsSocket, xdsSocketMode, recordDir, meshDomain },
    relaySocket: relaySocket === '' ? undefined : relaySocket,
    pinDir: places.netnsPinDir,
    deleteQueueDir: places.deleteQueueDir,
    meshDns: places.meshDns.flatMap((text) => parseSocketAddress(text) ?? []),
  };
}

const CONNECT_MS = 1000;

/** Why the socket cannot be used, for people; undefined: somebody accepts connections there. */
export function findObstacle(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const finish = (reason?: string): void => {
      socket.destroy();
      resolve(reason);
    };
    socket.setTimeout(CONNECT_MS, () => finish(`nobody accepts connections on ${path}`));
    socket.on('connect', () => finish());
    socket.on('error', (error) => finish(explainConnect(path, 'code' in error ? String(error.code) : error.message)));
  });
}

function explainConnect(path: string, code: string): string {
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return `${path} is not there: is the agent running, with this --admin-socket?`;
  if (code === 'ECONNREFUSED') return `nobody answers on ${path}: the agent has ended`;
  if (code === 'EACCES' || code === 'EPERM') return `${path} is root's alone: run this as root`;
  return `connecting to ${path}: ${code}`;
}
