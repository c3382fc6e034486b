// `aether-cni snapshot`: what the agent serves to Envoy, and what Envoy made of each resource. Secrets are left out by the
// agent already.
import type { Command } from 'commander';
import { callAdmin } from '../adapters/grpc/admin-tool.ts';
import { kindOfTypeUrl } from '../adapters/grpc/ads-messages.ts';
import { formatColumns } from '../core/columns.ts';
import { AdminService, type GetSnapshotResponse, type SnapshotResource } from '../gen/aether/admin/v1/admin_pb.js';
import { formatResource } from '../xds/format-resource.ts';
import { type AdminFlags, addAdminSocket, assertRoot, printOrFail } from './admin-command.ts';

const TIMEOUT_MS = 20_000;

/** Adds the subcommand. `--json`: `{"resources":[{"kind","name","version","acknowledged","rejected","resource"}]}`. */
export function registerSnapshot(program: Command): void {
  const command = program
    .command('snapshot')
    .description('what the agent serves to Envoy, and what Envoy made of it')
    .option('--json', "every resource in Envoy's own JSON, without secrets");
  addAdminSocket(command).action((flags: AdminFlags) =>
    printOrFail('snapshot', async () => {
      assertRoot();
      const call = { socketPath: flags.adminSocket, timeoutMs: TIMEOUT_MS, what: 'reading the snapshot' };
      const response = await callAdmin(AdminService.method.getSnapshot, {}, call);
      return flags.json === true ? formatSnapshotJson(response) : formatSnapshot(response);
    }),
  );
}

/** One line a resource in push order; `refused: …` has Envoy's words. */
export function formatSnapshot({ resources }: Pick<GetSnapshotResponse, 'resources'>): string {
  return formatColumns(
    ['KIND', 'VERSION', 'ENVOY', 'NAME'],
    resources.map((item) => [kindOf(item), item.version, describeAck(item), item.name]),
  );
}

/** Indented JSON of all resources. */
export function formatSnapshotJson({ resources }: Pick<GetSnapshotResponse, 'resources'>): string {
  const all = resources.map((item) => {
    const { name, version, acknowledged, rejected } = item;
    return { kind: kindOf(item), name, version, acknowledged, rejected, resource: readResource(item) };
  });
  return `${JSON.stringify({ resources: all }, null, 2)}\n`;
}

function describeAck({ acknowledged, rejected }: SnapshotResource): string {
  if (rejected !== '') return `refused: ${rejected}`;
  return acknowledged ? 'has it' : 'waiting';
}

function kindOf({ resource }: SnapshotResource): string {
  return kindOfTypeUrl(resource?.typeUrl ?? '') ?? resource?.typeUrl ?? '?';
}

function readResource({ name, version, resource }: SnapshotResource): unknown {
  const kind = kindOfTypeUrl(resource?.typeUrl ?? '');
  // A kind of a later agent: it is not known how to read it.
  if (kind === undefined || kind === 'secret' || resource === undefined) return null;
  return formatResource({ kind, name, version, bytes: resource.value });
}
