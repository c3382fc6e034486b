// STATUS: could an ADD succeed now? Asked every few seconds, so it only looks.
import { CniError, CODE_LIMITED, CODE_UNAVAILABLE } from '../cni/error-object.ts';
import { AgentError, messageOf } from '../core/errors.ts';
import type { CallContext } from './call-context.ts';
import type { AgentStatus, NodeDeps } from './deps.ts';

const STATUS_TIMEOUT_MS = 1000;

/**
 * Throws CniError: 50 the agent is away or the kernel lacks something, 51 the agent is there but not ready. What an ADD can
 * succeed with (no proxy connected yet) is a warning only: a runtime that is told more marks the whole node as not ready.
 */
export async function reportStatus({ config, deps, warn }: CallContext<NodeDeps>): Promise<void> {
  let missing: readonly string[];
  try {
    missing = await deps.probeKernel();
  } catch (cause) {
    const message = `status: asking the kernel whether it takes the rules: ${messageOf(cause)}`;
    throw new CniError(CODE_UNAVAILABLE, message, { cause });
  }
  if (missing.length > 0) throw new CniError(CODE_UNAVAILABLE, `status: ${missing.join('; ')}`);
  let status: AgentStatus;
  try {
    status = await deps.admin.status({ timeoutMs: Math.min(STATUS_TIMEOUT_MS, config.agentTimeoutMs) });
  } catch (cause) {
    if (!(cause instanceof AgentError)) throw cause;
    throw new CniError(CODE_UNAVAILABLE, cause.message, { cause });
  }
  if (!status.ready) {
    throw new CniError(CODE_LIMITED, `status: the node agent is not ready: ${status.problems.join('; ')}`);
  }
  for (const problem of status.problems) warn(problem);
}
