// `aether-cni envoy-bootstrap`: prints a bootstrap for the node's Envoy. It asks nobody and changes nothing.

import { hostname } from 'node:os';
import { isAbsolute } from 'node:path';
import type { Command } from 'commander';
import { DEFAULT_XDS_SOCKET } from '../core/default-paths.ts';
import { InputError } from '../core/errors.ts';
import { ProblemList, quoteValue } from '../core/problems.ts';
import { buildBootstrap } from '../xds/bootstrap.ts';
import { printOrFail } from './admin-command.ts';

interface EnvoyBootstrapFlags {
  readonly nodeName: string;
  readonly clusterName?: string;
  readonly region?: string;
  readonly zone?: string;
  readonly xdsSocket: string;
  readonly adminSocket?: string;
  readonly json?: boolean;
}

/** Adds the subcommand. It writes indented JSON, which is YAML too; with `--json` all on one line. */
export function registerEnvoyBootstrap(program: Command): void {
  program
    .command('envoy-bootstrap')
    .description("print a bootstrap for the node's Envoy")
    .option('--node-name <name>', 'node id of this Envoy', process.env['AETHER_NODE_NAME'] || hostname())
    .option('--cluster-name <name>', "the node's cluster", process.env['AETHER_CLUSTER_NAME'])
    .option('--region <region>', 'region of the node', process.env['AETHER_REGION'])
    .option('--zone <zone>', 'zone of the node', process.env['AETHER_ZONE'])
    .option('--xds-socket <path>', "the agent's xDS socket", process.env['AETHER_XDS_SOCKET'] || DEFAULT_XDS_SOCKET)
    .option('--admin-socket <path>', "socket of Envoy's admin interface (none without it)")
    .option('--json', 'on one line')
    .action((flags: EnvoyBootstrapFlags) =>
      printOrFail('envoy-bootstrap', async () => {
        const { json, ...options } = flags;
        assertGood(options);
        return `${JSON.stringify(buildBootstrap(options), null, json ? 0 : 2)}\n`;
      }),
    );
}

// Envoy takes a relative path as one of wherever it is started, and no name as one that no agent serves.
function assertGood({ nodeName, xdsSocket, adminSocket }: EnvoyBootstrapFlags): void {
  const list = new ProblemList();
  if (nodeName === '') list.add('--node-name', 'must be the name of the agent');
  for (const [flag, path] of [
    ['--xds-socket', xdsSocket],
    ['--admin-socket', adminSocket],
  ] as const) {
    if (path === undefined || isAbsolute(path)) continue;
    list.add(flag, `must be an absolute path, got ${quoteValue(path)}`);
  }
  if (list.problems.length > 0) throw new InputError('reading the flags', list.problems);
}
