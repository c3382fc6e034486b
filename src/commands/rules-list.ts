// `aether-cni rules list`: both tables of a pod as its kernel has them, and what else is there. It asks the agent which
// namespace is the pod's, or the records where the agent is away.
import { createToolAgent } from '../adapters/grpc/admin-tool.ts';
import { listTables, type TableSummary } from '../adapters/kernel/list-tables.ts';
import { readRecords } from '../adapters/store/read-records.ts';
import { podSubject } from '../agent/node-check-rules.ts';
import { isMeant } from '../agent/node-check-tool.ts';
import { planMeshTable } from '../capture/mesh-table.ts';
import { planPluginTable } from '../capture/plugin-table.ts';
import { AgentError, InputError, StoreError } from '../core/errors.ts';
import { parseNetnsPath } from '../core/identifiers.ts';
import type { PodRecord } from '../mesh/workload.ts';
import { formatKernelTable } from '../nft/format-kernel-table.ts';
import type { Table } from '../nft/model.ts';
import { type AdminFlags, assertRoot, parseSubject, printOrFail } from './admin-command.ts';
import { openKernel, type ToolKernel } from './open-kernel.ts';

export interface RulesListFlags extends AdminFlags {
  readonly recordDir: string;
}

const POLICY = { redirectAll: false, excludePorts: [], excludeRanges: [] };
/** The agent's first: it looks first. */
const TABLES: readonly Table[] = [planMeshTable(POLICY, { tcp: [], vip: [], shim: [] }), planPluginTable(POLICY)];

/** Prints and sets the exit code, as printOrFail does. */
export async function runRulesList(pod: string, flags: RulesListFlags): Promise<void> {
  await printOrFail('rules list', async () => {
    const subject = parseSubject(pod);
    assertRoot();
    const records = (await listRecords(flags)).filter((record) => isMeant(record, subject));
    if (records.length === 0) {
      const message = `no pod of this node in the mesh is "${subject}"; "aether-cni pods" lists what there is`;
      throw new AgentError('rejected', message);
    }
    const kernel = openKernel();
    const parts: string[] = [];
    for (const record of records) parts.push(await describePod(record, kernel));
    return parts.join('\n');
  });
}

async function listRecords({ adminSocket, recordDir }: RulesListFlags): Promise<readonly PodRecord[]> {
  const agent = createToolAgent({ adminSocket, cniSocket: adminSocket });
  const known = await agent.listRecords();
  if (known !== undefined) return known;
  try {
    return (await readRecords(recordDir)).records;
  } catch (error) {
    const away = `the agent does not answer on ${adminSocket}, and ${recordDir} has no records`;
    throw new StoreError(`${away}: start the agent, or say where they are with --record-dir`, { cause: error });
  }
}

async function describePod(record: PodRecord, { native, rules }: ToolKernel): Promise<string> {
  const netns = parseNetnsPath(record.networkNamespace);
  if (typeof netns === 'object') throw new InputError('networkNamespace', [{ path: '', message: netns.problem }]);
  const parts = [`# ${podSubject(record)}, container ${record.containerId}, ${netns}\n`];
  for (const like of TABLES) {
    const found = await rules.readTable(netns, like);
    parts.push(found === undefined ? `# there is no table inet ${like.name}\n` : formatKernelTable(found, like));
  }
  return `${parts.join('')}${describeOthers(await listTables(native, netns))}`;
}

/** One comment line; none where all tables are ours. */
function describeOthers(tables: readonly TableSummary[]): string {
  const others = tables.filter(({ family, name }) => family !== 'inet' || !TABLES.some((table) => table.name === name));
  if (others.length === 0) return '';
  const names = others.map(({ family, name, ruleCount }) => `${family} ${name} (${ruleCount} rules)`);
  return `# ${others.length} ${others.length === 1 ? 'table' : 'tables'} of others: ${names.join(', ')}\n`;
}
