// `aether-cni rules render`: the rules that a pod would get, as nft text. Nothing is asked and nothing is changed.
// `aether-cni rules list` is in rules-list.ts.

import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { planMeshTable } from '../capture/mesh-table.ts';
import { parseCaptureDefaults, parseCapturePolicy } from '../capture/parse-policy.ts';
import { planPluginTable } from '../capture/plugin-table.ts';
import type { CapturePolicy } from '../capture/policy.ts';
import { knownRange } from '../capture/shared-rules.ts';
import { findEntries, PLUGIN_TYPE } from '../cni/conf-list.ts';
import { findMember } from '../cni/json.ts';
import { type ConfigSource, decodeNetConfig, type NetConfig, readNetConfig } from '../cni/net-config.ts';
import { DEFAULT_RECORD_DIR } from '../core/default-paths.ts';
import { InputError, messageOf, StoreError } from '../core/errors.ts';
import { formatProblem, type Parsed, type Problem } from '../core/problems.ts';
import { formatTable } from '../nft/text.ts';
import { addAdminSocket } from './admin-command.ts';
import { DEFAULT_RANGES } from './agent-settings.ts';
import type { RulesListFlags } from './rules-list.ts';

const TABLES = ['plugin', 'mesh', 'both'] as const;

export interface RenderFlags {
  /** A network configuration, or a list with an entry of ours. */
  readonly config?: string;
  /** `key=value` each. */
  readonly annotation?: readonly string[];
  readonly table: string;
}

/** Adds the subcommand. */
export function registerRules(program: Command): void {
  const rules = program.command('rules').description('the capture rules');
  rules
    .command('render')
    .description('print the rules that a pod would get, for nft -f')
    .option('--config <FILE>', 'network configuration, or conflist (default: no key set)')
    .option('--annotation <K=V...>', "one of the pod's annotations; may be repeated", collect)
    .option('--table <NAME>', 'plugin, mesh (without elements, default ranges) or both', 'plugin')
    .action((flags: RenderFlags) => {
      process.exitCode = runRender(flags);
    });
  const list = rules
    .command('list')
    .description('print the rules that the kernel has for a pod')
    .argument('<POD>', 'NAMESPACE/POD or a container id')
    .option('--record-dir <DIR>', 'pod records, where the agent is away', DEFAULT_RECORD_DIR);
  addAdminSocket(list).action(async (pod: string, flags: RulesListFlags) => {
    await (await import('./rules-list.ts')).runRulesList(pod, flags);
  });
}

function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

function runRender(flags: RenderFlags): number {
  try {
    const { text, warnings } = renderRules(flags);
    for (const warning of warnings) process.stderr.write(`aether-cni rules: ${formatProblem(warning)}\n`);
    process.stdout.write(text);
    return 0;
  } catch (error) {
    process.stderr.write(`aether-cni rules: ${messageOf(error)}\n`);
    return error instanceof InputError ? 2 : 1;
  }
}

/** Throws InputError, DecodeError, or StoreError for a file that cannot be read. */
export function renderRules(flags: RenderFlags): { readonly text: string; readonly warnings: readonly Problem[] } {
  const table = TABLES.find((name) => name === flags.table);
  if (table === undefined)
    throw new InputError('--table', [{ path: '', message: `must be one of ${TABLES.join(', ')}` }]);
  const annotations = parseAnnotations(flags.annotation ?? []);
  const { config, warnings } = readConfig(flags.config);
  const defaults = takeValue(parseCaptureDefaults(config), 'reading the network configuration');
  const policy = takeValue(
    parseCapturePolicy({ ...config.podAnnotations, ...annotations }, defaults.value),
    'annotations',
  );
  return {
    text: planTables(policy.value, table).map(formatTable).join('\n'),
    warnings: [...warnings, ...defaults.warnings, ...policy.warnings],
  };
}

// The agent's table as an agent with its default ranges makes it.
function planTables(policy: CapturePolicy, table: (typeof TABLES)[number]) {
  const mesh = planMeshTable(policy, { tcp: [], vip: [], shim: [] }, { unanswered: DEFAULT_RANGES.map(knownRange) });
  const plugin = planPluginTable(policy);
  if (table === 'both') return [plugin, mesh];
  return [table === 'mesh' ? mesh : plugin];
}

function parseAnnotations(pairs: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const equals = pair.indexOf('=');
      if (equals > 0) return [pair.slice(0, equals), pair.slice(equals + 1)];
      throw new InputError('--annotation', [{ path: '', message: `must be KEY=VALUE, got ${JSON.stringify(pair)}` }]);
    }),
  );
}

function readConfig(file: string | undefined): { readonly config: NetConfig; readonly warnings: readonly Problem[] } {
  const reading = readNetConfig(pickEntry(decodeNetConfig(file === undefined ? Buffer.from('{}') : readBytes(file))));
  // An entry of a list has no name of its own.
  const problems = reading.problems.filter(({ path }) => path !== 'name');
  if (problems.length > 0) throw new InputError('reading the network configuration', problems);
  return reading;
}

// A conflist holds our entry under `plugins`.
function pickEntry(source: ConfigSource): ConfigSource {
  if (findMember(source.root, 'plugins')?.value.kind !== 'array') return source;
  const [root] = findEntries(source);
  if (root !== undefined) return { ...source, root };
  throw new InputError('reading the conflist', [{ path: 'plugins', message: `has no entry of type "${PLUGIN_TYPE}"` }]);
}

function readBytes(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new StoreError(`reading ${file}: ${messageOf(error)}`, { cause: error });
  }
}

function takeValue<T>(parsed: Parsed<T>, what: string): Extract<Parsed<T>, { kind: 'value' }> {
  if (parsed.kind === 'value') return parsed;
  throw new InputError(what, parsed.problems);
}
