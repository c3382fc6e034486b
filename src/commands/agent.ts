// `aether-cni agent`: the resident process, until SIGTERM or SIGINT. Exit codes: 0 ended as asked, 1 failed, 2 wrong use.
import { closeSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { type Command, Option } from 'commander';
import { findHostAddress } from '../adapters/host/host-address.ts';
import { loadFfi } from '../adapters/host/load-ffi.ts';
import { locateNativeLibraries } from '../adapters/host/native-assets.ts';
import { raisePriority } from '../adapters/host/raise-priority.ts';
import { NetlinkVipRoutes } from '../adapters/host/routes.ts';
import { createNamespaces } from '../adapters/kernel/namespaces.ts';
import { openNativeLibrary, type ResidentLibrary } from '../adapters/kernel/native-library.ts';
import { openPeerView } from '../adapters/kernel/peer-view.ts';
import { createKernelProbe } from '../adapters/kernel/probe-kernel.ts';
import { createRules } from '../adapters/kernel/rules.ts';
import { createSmallFiles } from '../adapters/kernel/small-files.ts';
import { createThreshold } from '../adapters/kernel/threshold.ts';
import { trimMemory } from '../adapters/kernel/trim-memory.ts';
import { messageOf } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { formatProblem } from '../core/problems.ts';
import { createAgentLog } from './agent-log.ts';
import { type KernelDeps, openAgentProcess } from './agent-process.ts';
import { AGENT_SETTINGS, type AgentSettings, parseAgentSettings } from './agent-settings.ts';
import { type SettingRow, variableOf } from './setting-source.ts';
import { sharePinDir } from './share-pin-dir.ts';

/** Adds the subcommand. `version` is what the status says. */
export function registerAgentCommand(program: Command, options: { readonly version: string }): void {
  const command = program.command('agent').description('the node agent: resident, until it is told to end');
  command.option('--config <FILE>', 'JSON with settings, names with "_" for "-" (AETHER_CONFIG)');
  for (const row of AGENT_SETTINGS) command.addOption(optionOf(row));
  command.action(async (flags: Readonly<Record<string, unknown>>) => {
    process.exitCode = await runAgent({ flags, environment: process.env, version: options.version });
  });
}

export interface AgentInvocation {
  /** As commander names them: `cniSocket`. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly version: string;
}

/** Runs until a signal; gives the exit code. */
export async function runAgent(invocation: AgentInvocation): Promise<number> {
  const settings = await readSettings(invocation);
  if (settings === undefined) return 2;
  // Else the process is called after Node's main thread.
  process.title = 'aether-cni';
  // Sockets, records and keys are root's alone, also in the moment before their mode is set.
  process.umask(0o077);
  const log = createAgentLog(settings.logLevel);
  const unraised = raisePriority();
  if (unraised !== undefined) log.info('agent.priority.as_it_was', { reason: unraised });
  try {
    const native = openNativeLibrary(locateNativeLibraries(), loadFfi());
    await sharePinDir(native, { pinDir: settings.netnsPinDir, log });
    const agent = await openAgentProcess({
      settings,
      kernel: createKernel(native, log),
      log,
      version: invocation.version,
    });
    const signal = await waitForSignal();
    log.info('agent.ending', { signal });
    await agent.close();
    return 0;
  } catch (error) {
    log.error('agent.failed', { reason: messageOf(error) });
    process.stderr.write(`aether-cni agent: ${messageOf(error)}\n`);
    return 1;
  }
}

function createKernel(native: ResidentLibrary, log: Log): KernelDeps {
  const rules = createRules(native);
  return {
    namespaces: createNamespaces(native),
    tables: rules,
    routes: new NetlinkVipRoutes(log),
    files: createSmallFiles(native),
    trimMemory: () => trimMemory(native),
    relay: {
      rules,
      threshold: createThreshold(native, rules),
      listen: native.listenRelay,
      openPeerView: ({ fd, pid }) => openPeerView(native, { fd, pid, close: closeSync }),
      probeKernel: createKernelProbe(native),
    },
  };
}

function optionOf(row: SettingRow): Option {
  const name = row.value === undefined ? `--${row.name}` : `--${row.name} <${row.value}>`;
  const option = new Option(name, `${row.help} (${variableOf(row.name)}; default: ${row.fallback ?? 'none'})`);
  // Kept as a list: a setting that was given twice is told so, not silently taken last.
  if (row.value !== undefined)
    option.argParser((text: string, before: unknown) => [...(isTexts(before) ? before : []), text]);
  return option;
}

async function readSettings({ flags, environment }: AgentInvocation): Promise<AgentSettings | undefined> {
  const config = typeof flags['config'] === 'string' ? flags['config'] : environment['AETHER_CONFIG'];
  let file: { readonly path: string; readonly text: string } | undefined;
  try {
    if (config !== undefined && config !== '') file = { path: config, text: readFileSync(config, 'utf8') };
  } catch (error) {
    return refuse([`--config: ${messageOf(error)}`]);
  }
  const host = { hostname: hostname(), hostIp: await findHostAddress() };
  const parsed = parseAgentSettings(
    { flags: textsOf(flags), environment, ...(file === undefined ? {} : { file }) },
    host,
  );
  return parsed.kind === 'value' ? parsed.value : refuse(parsed.problems.map(formatProblem));
}

function refuse(problems: readonly string[]): undefined {
  for (const problem of problems) process.stderr.write(`aether-cni agent: ${problem}\n`);
  return undefined;
}

function textsOf(flags: Readonly<Record<string, unknown>>): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const { name } of AGENT_SETTINGS) {
    const value = flags[name.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())];
    if (isTexts(value)) found.set(name, value);
    else if (typeof value === 'boolean') found.set(name, [String(value)]);
  }
  return found;
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function waitForSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, resolve);
  });
}
