// `aether-cni explain`: what a destination means to a pod of this node. The agent answers, over its admin socket.
// Exit codes: 0 it leads somewhere now, 1 it does not, not yet, or nobody can say, 2 wrong use.
import type { Command } from 'commander';
import { callAdmin } from '../adapters/grpc/admin-tool.ts';
import { explanationFromMessage } from '../adapters/grpc/proto-explanation.ts';
import { readDestination } from '../agent/explain.ts';
import { AdminService } from '../gen/aether/admin/v1/admin_pb.js';
import { DESTINATION_FORMS } from '../mesh/destination.ts';
import { formatExplanation } from '../mesh/format-explanation.ts';
import { type AdminFlags, addAdminSocket, assertRoot, parseSubject, printOrFail } from './admin-command.ts';

interface ExplainFlags extends AdminFlags {
  readonly from: string;
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
  addAdminSocket(command).action(async (destination: string, flags: ExplainFlags) => {
    let resolved = false;
    await printOrFail('explain', async () => {
      const pod = parseSubject(flags.from);
      // Before anybody is asked: what is no destination is wrong use also without an agent.
      readDestination(destination);
      assertRoot();
      const call = { socketPath: flags.adminSocket, timeoutMs: TIMEOUT_MS, what: 'asking the agent' };
      const explanation = explanationFromMessage(
        await callAdmin(AdminService.method.explain, { pod, destination }, call),
      );
      resolved = explanation.resolved;
      return flags.json === true ? `${JSON.stringify(explanation, null, 2)}\n` : formatExplanation(explanation);
    });
    if (process.exitCode === 0 && !resolved) process.exitCode = 1;
  });
}
