// What an agent says of itself after its work.
import { callAdmin } from '../../src/adapters/grpc/admin-tool.ts';
import { AdminService, type LoopDelay } from '../../src/gen/aether/admin/v1/admin_pb.js';
import type { BenchAgent } from './plugins.ts';

/** Undefined: it had little to do lately. */
export async function readLoopDelay({ places }: BenchAgent): Promise<LoopDelay | undefined> {
  const options = { socketPath: places.adminSocket, timeoutMs: 5000, what: 'asking for its status' };
  return (await callAdmin(AdminService.method.status, {}, options)).loopDelay;
}
