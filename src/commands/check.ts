// `aether-cni check`: what is wrong on this node and what to do about it. Exit codes: 0 nothing failed, 1 something did,
// 2 wrong use. It always ends, also when the agent, the kernel or a file system does not answer.

import type { Command } from 'commander';
import { createToolAgent } from '../adapters/grpc/admin-tool.ts';
import { createNodeProbe } from '../adapters/host/node-probe.ts';
import type { HostProbe, PodKernel } from '../agent/node-check-deps.ts';
import type { ToolPlaces } from '../agent/node-check-look.ts';
import { checkFromTool, type ToolCheck } from '../agent/node-check-tool.ts';
import { DEFAULT_CNI_BIN_DIR } from '../core/default-paths.ts';
import { InputError, messageOf } from '../core/errors.ts';
import { formatFindings, formatFindingsJson, isFine, joinFineSubjects, summariseFindings } from '../core/finding.ts';
import { type AdminFlags, addAdminSocket, addConfDir, parseSubject, writeOut } from './admin-command.ts';

interface CheckFlags extends AdminFlags {
  readonly cniConfDir: string;
  readonly cniBinDir: string;
  readonly recordDir?: string;
  readonly netnsPinDir?: string;
  readonly deleteQueueDir?: string;
}

const STEP_MS = 5000;
const PODS_MS = 15_000;

/** Adds the subcommand. */
export function registerCheck(program: Command): void {
  const command = program
    .command('check')
    .description('what is wrong on this node or with one pod, and what to do about it')
    .argument('[POD]', 'NAMESPACE/POD or a container id (default: the node and all its pods)')
    .option('--json', '{"ok","findings":[{"status","area","subject","message","remedy"}]}');
  addAdminSocket(command);
  addConfDir(command)
    .option('--cni-bin-dir <DIR>', "the runtime's plugins", DEFAULT_CNI_BIN_DIR)
    .option('--record-dir <DIR>', 'pod records (default: as the agent says)')
    .option('--netns-pin-dir <DIR>', 'pins of network namespaces (default: as the agent says)')
    .option('--delete-queue-dir <DIR>', 'removals that wait for the agent (default: as the agent says)')
    .action(async (pod: string | undefined, flags: CheckFlags) => {
      const code = await runCheck(pod, flags);
      // A call into the kernel that never comes back would keep the process.
      process.exit(code);
    });
}

async function runCheck(pod: string | undefined, flags: CheckFlags): Promise<number> {
  try {
    const subject = pod === undefined ? '' : parseSubject(pod);
    const check = await checkFromTool({
      subject,
      places: placesOf(flags),
      agent: createToolAgent({ adminSocket: flags.adminSocket, cniSocket: besides(flags.adminSocket, 'cni.sock') }),
      ...openHost(),
      stepMs: STEP_MS,
      podsMs: PODS_MS,
    });
    await print(check, { subject, json: flags.json === true });
    return isFine(check.findings) ? 0 : 1;
  } catch (error) {
    process.stderr.write(`aether-cni check: ${messageOf(error)}\n`);
    return error instanceof InputError ? 2 : 1;
  }
}

// A pod in order is one line, unless it was asked for. Machines get everything.
async function print(
  { findings, pods }: ToolCheck,
  { subject, json }: { readonly subject: string; readonly json: boolean },
): Promise<void> {
  if (json) {
    await writeOut(formatFindingsJson(findings));
    return;
  }
  await writeOut(formatFindings(subject === '' ? joinFineSubjects(findings, pods) : findings));
  process.stderr.write(`${summariseFindings(findings)}\n`);
}

function placesOf(flags: CheckFlags): ToolPlaces {
  return {
    adminSocket: flags.adminSocket,
    confDir: flags.cniConfDir,
    binDir: flags.cniBinDir,
    recordDir: flags.recordDir,
    pinDir: flags.netnsPinDir,
    deleteQueueDir: flags.deleteQueueDir,
  };
}

function besides(path: string, name: string): string {
  return path.replace(/[^/]*$/, name);
}

// Loaded at the first question: what cannot be loaded is then the finding about the kernel, not the end of the check.
function openHost(): { readonly host: HostProbe; readonly kernel: PodKernel } {
  let opening: ReturnType<typeof loadKernel> | undefined;
  const open = () => {
    opening ??= loadKernel();
    return opening;
  };
  return {
    host: createNodeProbe({ probeKernel: async () => (await open()).probe() }),
    kernel: {
      namespaces: { assertUsable: async (path) => (await open()).namespaces.assertUsable(path) },
      rules: { readTable: async (netns, planned) => (await open()).rules.readTable(netns, planned) },
    },
  };
}

async function loadKernel() {
  const { openKernel } = await import('./open-kernel.ts');
  const { createKernelProbe } = await import('../adapters/kernel/probe-kernel.ts');
  const kernel = openKernel();
  return { ...kernel, probe: createKernelProbe(kernel.native) };
}
