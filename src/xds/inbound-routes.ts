// The inline route table of an inbound chain: everything to the one port that the chain stands for.
import { create } from '@bufbuild/protobuf';
import { type RouteConfiguration, RouteConfigurationSchema } from '../gen/envoy/config/route/v3/route_pb.js';
import { CATCH_ALL_HOST, INBOUND_ROUTES } from '../mesh/names.ts';
import { milliseconds } from './envoy-values.ts';

/** No time-out: Envoy's default of 15 s would cut long answers and streams. */
export function inboundRoutes(cluster: string): RouteConfiguration {
  return create(RouteConfigurationSchema, {
    name: INBOUND_ROUTES,
    validateClusters: false,
    virtualHosts: [
      {
        name: CATCH_ALL_HOST,
        domains: ['*'],
        routes: [
          {
            match: { pathSpecifier: { case: 'prefix', value: '/' } },
            action: {
              case: 'route',
              value: { clusterSpecifier: { case: 'cluster', value: cluster }, timeout: milliseconds(0) },
            },
          },
        ],
      },
    ],
  });
}
