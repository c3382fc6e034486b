// `aether-cni explain`: what a destination means to a pod of this node. The agent answers, over its admin socket.
// Exit codes: 0 it leads somewhere now, 1 it does not, not yet, or nobody can say, 2 wrong use.
import type { Command } from 'commander';
import { callAdmin } from '../adapters/grpc/admin-tool.ts';
import { explanationFromMessage } from '../adapters/grpc/proto-explanation.ts';
import { createNodeProbe } from '../adapters/host/node-probe.ts';
import { readDestination } from '../agent/explain.ts';
import { readConfDir } from '../cni/conf-list.ts';
import { AgentError } from '../core/errors.ts';
import { AdminService } from '../gen/aether/admin/v1/admin_pb.js';
import { DESTINATION_FORMS } from '../mesh/destination.ts';
import { formatExplanation } from '../mesh/format-explanation.ts';
import { findPassThroughReason } from '../plugin/pass-through.ts';
import {
  type AdminFlags,
  addAdminSocket,
  addConfDir,
  assertRoot,
  parseSubject,
  printOrFail,
  readAll,
} from './admin-command.ts';

interface ExplainFlags extends AdminFlags {
  readonly from: string;
  readonly cniConfDir: string;
}

const TIMEOUT_MS = 5000;

/** Adds the subcommand. `--json` is an Explanation, as src/mesh/explanation.ts documents it. */
export function registerExplain(program: Command): void {
  const command = program
    .command('explain')
    .description(
      'what a destination means to a pod: rule, listener, chain, cluster, endpoints; or why it leads nowhere',
    )
    .argument('<DEST>', DESTINATION_FORMS)
    .requiredOption('--from <POD>', 'who dials: NAMESPACE/POD or a container id')
    .option('--json', 'for machines');
  addAdminSocket(command);
  addConfDir(command).action(async (destination: string, flags: ExplainFlags) => {
    let resolved = false;
    await printOrFail('explain', async () => {
      // Before anybody is asked: what is no destination is wrong use also without an agent.
      const [pod] = readAll(
        () => parseSubject(flags.from),
        () => readDestination(destination),
      );
      assertRoot();
      const call = { socketPath: flags.adminSocket, timeoutMs: TIMEOUT_MS, what: 'asking the agent' };
      const explanation = explanationFromMessage(
        await callAdmin(AdminService.method.explain, { pod, destination }, call).catch(async (error: unknown) => {
          throw await withPassThroughReason(error, pod, flags.cniConfDir);
        }),
      );
      resolved = explanation.resolved;
      return flags.json === true ? `${JSON.stringify(explanation, null, 2)}\n` : formatExplanation(explanation);
    });
    if (process.exitCode === 0 && !resolved) process.exitCode = 1;
  });
}

// The agent has no word about a pod that the plugin passes by: what says so is the plugin's own rule and configuration.
async function withPassThroughReason(error: unknown, pod: string, confDir: string): Promise<unknown> {
  if (!(error instanceof AgentError) || !pod.includes('/')) return error;
  const [podNamespace = '', podName = ''] = pod.split('/');
  const probe = createNodeProbe({ probeKernel: async () => [] });
  const files = await probe.readConfFiles(confDir).catch(() => undefined);
  const active = readConfDir(files ?? []).active;
  const config = active?.entries[0]?.config;
  const reason = config && findPassThroughReason({ podNamespace, podName }, config);
  if (active === undefined || reason === undefined) return error;
  const sentence = `the plugin lets this pod pass by: ${reason} (${confDir}/${active.file})`;
  return new AgentError(error.problem, `${error.message}; ${sentence}`, { cause: error });
}
