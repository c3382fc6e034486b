// Connections of the capture chains, counted by service: the chains are the same for all services, so their own counters
// cannot tell. `aether_tcp.connections` with the tags service (`tcp_demo/shop_9000`, the cluster's stat key) and chain.
import { create } from '@bufbuild/protobuf';
import { type AccessLog, AccessLogSchema } from '../gen/envoy/config/accesslog/v3/accesslog_pb.js';
import { ConfigSchema as StatsLoggerSchema } from '../gen/envoy/extensions/access_loggers/stats/v3/stats_pb.js';
import { filter } from './envoy-values.ts';

/** An access logger that adds one for each connection that ends. */
export function countConnections(chain: string): AccessLog {
  const tags = [
    { name: 'service', valueFormat: '%UPSTREAM_CLUSTER%' },
    { name: 'chain', valueFormat: chain },
  ];
  return create(
    AccessLogSchema,
    filter('envoy.access_loggers.stats', StatsLoggerSchema, {
      statPrefix: 'aether_tcp',
      counters: [{ stat: { name: 'connections', tags }, valueFixed: 1n }],
    }),
  );
}
