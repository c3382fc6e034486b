// `aether-cni pods`: the pods that the agent has, a line each, and a line for each thing that is wrong with one.
import { toJsonString } from '@bufbuild/protobuf';
import type { Command } from 'commander';
import { callAdmin } from '../adapters/grpc/admin-tool.ts';
import { formatColumns } from '../core/columns.ts';
import { AgentError } from '../core/errors.ts';
import { onOneLine } from '../core/one-line.ts';
import { isNamedBy, SHORT_ID_LENGTH } from '../core/pod-subject.ts';
import {
  AdminService,
  type ListPodsResponse,
  ListPodsResponseSchema,
  type Pod,
} from '../gen/aether/admin/v1/admin_pb.js';
import { ServiceEndpoint_Health } from '../gen/aether/registry/v1/service_pb.js';
import { ANNOTATION_REDIRECT_ALL } from '../mesh/constants.ts';
import { parseWorkloadPorts } from '../mesh/port-protocols.ts';
import { type AdminFlags, addAdminSocket, assertRoot, parseSubject, printOrFail } from './admin-command.ts';

const TIMEOUT_MS = 5000;

/** Adds the subcommand. `--json` is the ListPodsResponse of aether.admin.v1 as proto3 JSON. */
export function registerPods(program: Command): void {
  const command = program
    .command('pods')
    .description('the pods that the agent has')
    .argument('[POD]', 'NAMESPACE/POD or a container id (default: all)')
    .option('--json', 'everything, for machines');
  addAdminSocket(command).action((pod: string | undefined, flags: AdminFlags) =>
    printOrFail('pods', async () => {
      const subject = pod === undefined ? '' : parseSubject(pod);
      assertRoot();
      const call = { socketPath: flags.adminSocket, timeoutMs: TIMEOUT_MS, what: 'listing the pods' };
      const all = await callAdmin(AdminService.method.listPods, {}, call);
      const pods = all.pods.filter(({ record }) => isNamed(record, subject));
      if (subject !== '' && pods.length === 0) {
        throw new AgentError('rejected', `the agent has no pod "${subject}"; "aether-cni pods" lists what it has`);
      }
      const response = { ...all, pods };
      return flags.json === true ? formatJson(response) : formatPods(response);
    }),
  );
}

function isNamed(record: Pod['record'], subject: string): boolean {
  return subject === '' || (record !== undefined && isNamedBy(record, subject));
}

function formatJson(response: ListPodsResponse): string {
  return `${toJsonString(ListPodsResponseSchema, response, { alwaysEmitImplicit: true, prettySpaces: 2 })}\n`;
}

const HEADER = ['POD', 'SERVICE', 'IP', 'PORTS', 'CAPTURE', 'HEALTH', 'REGISTERED', 'PROXY', 'CONTAINER'];

/** Aligned columns; below them, indented, what is wrong. */
export function formatPods({ pods }: Pick<ListPodsResponse, 'pods'>): string {
  const [header = '', ...lines] = formatColumns(HEADER, pods.map(describePod)).split(/(?<=\n)/);
  const bodies = pods.map(({ problems }, index) =>
    [lines[index] ?? '', ...problems.map((problem) => `  problem: ${onOneLine(problem)}\n`)].join(''),
  );
  return [header, ...bodies].join('');
}

function describePod({ record, service, health, registered, proxyReady }: Pod): readonly string[] {
  return [
    `${record?.namespace}/${record?.name}`,
    service,
    record?.ips.join(',') ?? '',
    formatPorts(record?.annotations ?? {}),
    describeCapture(record?.annotations[ANNOTATION_REDIRECT_ALL]),
    (ServiceEndpoint_Health[health] ?? String(health)).toLowerCase().replace('health_unspecified', '-'),
    registered ? 'yes' : 'no',
    proxyReady ? 'ready' : 'not ready',
    record?.containerId.slice(0, SHORT_ID_LENGTH) ?? '',
  ];
}

/** `8080*,9000=tcp`: the primary with a star, HTTP/2 with `=h2`. */
function formatPorts(annotations: Readonly<Record<string, string>>): string {
  const parsed = parseWorkloadPorts(annotations);
  if (parsed.kind === 'problems') return '?';
  const { primary, served } = parsed.value;
  return served
    .map((entry) => {
      const suffix = entry.protocol === 'tcp' ? '=tcp' : entry.codec === 'h2' ? '=h2' : '';
      return `${entry.port}${suffix}${entry.port === primary ? '*' : ''}`;
    })
    .join(',');
}

function describeCapture(redirectAll: string | undefined): string {
  if (redirectAll === 'true') return 'all';
  return redirectAll === 'false' ? 'scoped' : 'default';
}
