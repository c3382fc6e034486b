// `aether-cni services`: the services that the agent knows: addresses, typed ports, endpoints.
import { toJsonString } from '@bufbuild/protobuf';
import type { Command } from 'commander';
import { callAdmin } from '../adapters/grpc/admin-tool.ts';
import { formatColumns } from '../core/columns.ts';
import {
  AdminService,
  type ListServicesResponse,
  ListServicesResponseSchema,
  type ServiceView,
} from '../gen/aether/admin/v1/admin_pb.js';
import { Service_Protocol, ServiceEndpoint_Health } from '../gen/aether/registry/v1/service_pb.js';
import { type AdminFlags, addAdminSocket, assertRoot, printOrFail } from './admin-command.ts';

const TIMEOUT_MS = 5000;

/** Adds the subcommand. `--json` is the ListServicesResponse of aether.admin.v1 as proto3 JSON. */
export function registerServices(program: Command): void {
  const command = program
    .command('services')
    .description('the services that the agent knows')
    .option('--json', 'everything, for machines');
  addAdminSocket(command).action((flags: AdminFlags) =>
    printOrFail('services', async () => {
      assertRoot();
      const call = { socketPath: flags.adminSocket, timeoutMs: TIMEOUT_MS, what: 'listing the services' };
      const response = await callAdmin(AdminService.method.listServices, {}, call);
      if (flags.json !== true) return formatServices(response);
      return `${toJsonString(ListServicesResponseSchema, response, { alwaysEmitImplicit: true, prettySpaces: 2 })}\n`;
    }),
  );
}

const HEADER = ['SERVICE', 'ADDRESSES', 'PORTS', 'HEALTHY', 'NAME'];

/** Aligned columns. Ports as `8080/http*`: the star marks the default of its protocol. Healthy as `2/3` endpoints. */
export function formatServices({ services }: Pick<ListServicesResponse, 'services'>): string {
  return formatColumns(HEADER, services.map(describeService));
}

function describeService(view: ServiceView): readonly string[] {
  // Nothing is known against one whose registry does not say.
  const healthy = view.endpoints.filter(
    ({ health }) => health === ServiceEndpoint_Health.HEALTHY || health === ServiceEndpoint_Health.HEALTH_UNSPECIFIED,
  ).length;
  return [
    view.key,
    view.addresses.join(',') || '-',
    formatPorts(view) || '-',
    `${healthy}/${view.endpoints.length}`,
    view.fqdn,
  ];
}

function formatPorts({ ports, defaultHttpPort, defaultTcpPort }: ServiceView): string {
  return ports
    .map(({ number, protocol }) => {
      const [name, standard] = protocol === Service_Protocol.TCP ? ['tcp', defaultTcpPort] : ['http', defaultHttpPort];
      return `${number}/${name}${number === standard ? '*' : ''}`;
    })
    .join(',');
}
