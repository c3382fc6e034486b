// An endpoint between the domain's value and the message of the registry (aether.registry.v1.ServiceEndpoint).
import { create } from '@bufbuild/protobuf';
import {
  Service_Protocol,
  type ServiceEndpoint,
  ServiceEndpoint_Health,
  ServiceEndpoint_HealthCheckMode,
  ServiceEndpointSchema,
} from '../../gen/aether/registry/v1/service_pb.js';
import type { Endpoint, Health, HealthCheckMode } from '../../mesh/endpoint.ts';
import type { Protocol } from '../../mesh/port-protocols.ts';

const HEALTH: Readonly<Record<Health, ServiceEndpoint_Health>> = {
  unspecified: ServiceEndpoint_Health.HEALTH_UNSPECIFIED,
  healthy: ServiceEndpoint_Health.HEALTHY,
  unhealthy: ServiceEndpoint_Health.UNHEALTHY,
  draining: ServiceEndpoint_Health.DRAINING,
};

const HEALTH_CHECK_MODE: Readonly<Record<HealthCheckMode, ServiceEndpoint_HealthCheckMode>> = {
  unspecified: ServiceEndpoint_HealthCheckMode.UNSPECIFIED,
  active: ServiceEndpoint_HealthCheckMode.ACTIVE,
  eds: ServiceEndpoint_HealthCheckMode.EDS,
};

export function protocolToMessage(protocol: Protocol): Service_Protocol {
  return protocol === 'http' ? Service_Protocol.HTTP : Service_Protocol.TCP;
}

export function healthToMessage(health: Health): ServiceEndpoint_Health {
  return HEALTH[health];
}

export function endpointToMessage(endpoint: Endpoint): ServiceEndpoint {
  return create(ServiceEndpointSchema, {
    ip: endpoint.ip,
    clusterName: endpoint.clusterName,
    port: endpoint.port,
    weight: endpoint.weight,
    locality: { ...endpoint.locality },
    metadata: { ...endpoint.metadata },
    containerMetadata: { containerId: endpoint.containerId, networkNamespace: endpoint.netnsPath },
    kubernetesMetadata: {
      namespace: endpoint.namespace,
      podName: endpoint.podName,
      nodeName: endpoint.nodeName,
      nodeIp: endpoint.nodeIp,
    },
    health: healthToMessage(endpoint.health),
    healthCheckMode: HEALTH_CHECK_MODE[endpoint.healthCheckMode],
    ports: [...endpoint.ports],
    portProtocols: Object.fromEntries(
      [...endpoint.portProtocols].map(([port, protocol]) => [port, protocolToMessage(protocol)]),
    ),
  });
}
