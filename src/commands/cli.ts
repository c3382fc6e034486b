// The command line. Only the command that is asked for is loaded; the others stand in the help by name and sentence.
import { Command, CommanderError } from 'commander';
import { registerVersion, VERSION } from './version.ts';

interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly register: (program: Command) => Promise<void>;
}

const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'agent',
    summary: 'the node agent: resident, until it is told to end',
    register: async (program) => (await import('./agent.ts')).registerAgentCommand(program, { version: VERSION }),
  },
  {
    name: 'check',
    summary: 'what is wrong on this node or with one pod, and what to do about it',
    register: async (program) => (await import('./check.ts')).registerCheck(program),
  },
  {
    name: 'envoy-bootstrap',
    summary: "print a bootstrap for the node's Envoy",
    register: async (program) => (await import('./envoy-bootstrap.ts')).registerEnvoyBootstrap(program),
  },
  {
    name: 'pods',
    summary: 'the pods that the agent has',
    register: async (program) => (await import('./list-pods.ts')).registerPods(program),
  },
  {
    name: 'explain',
    summary: 'what a destination means to a pod of this node',
    register: async (program) => (await import('./explain.ts')).registerExplain(program),
  },
  {
    name: 'rules',
    summary: 'print the capture rules of a pod, as they would be or as the kernel has them',
    register: async (program) => (await import('./rules.ts')).registerRules(program),
  },
  {
    name: 'services',
    summary: 'the services that the agent knows',
    register: async (program) => (await import('./list-services.ts')).registerServices(program),
  },
  {
    name: 'snapshot',
    summary: 'what the agent serves to Envoy, and what Envoy made of it',
    register: async (program) => (await import('./list-snapshot.ts')).registerSnapshot(program),
  },
  { name: 'version', summary: 'print the version', register: async (program) => registerVersion(program) },
];

/** Runs one command; `args` without node and script. Gives the exit code: 0 fine, 1 failed, 2 wrong use. */
export async function runCli(args: readonly string[]): Promise<number> {
  const program = new Command('aether-cni')
    .description('CNI plugin and mesh node agent: per-port protocols on one mesh service')
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError('(add --help to see how it is used)');
  const asked = args[0] === 'help' ? args[1] : args[0];
  for (const entry of COMMANDS) {
    if (entry.name === asked) await entry.register(program);
    else program.command(entry.name).description(entry.summary).allowUnknownOption();
  }
  for (const command of program.commands) command.exitOverride();
  try {
    await program.parseAsync([...args], { from: 'user' });
    return typeof process.exitCode === 'number' ? process.exitCode : 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    throw error;
  }
}
