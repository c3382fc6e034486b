// The bootstrap of the node's Envoy as plain JSON: where it fetches its configuration, how it names itself, how its
// counters are labelled. Nothing about pods or services stands in it. Fields: envoy/config/bootstrap/v3/bootstrap.proto.

/** Name of the static cluster that leads to the agent's xDS socket. */
export const AGENT_CLUSTER = 'agent_xds';

/** `region`, `zone` and `adminSocket` are left out of the bootstrap when absent or empty. */
export interface BootstrapOptions {
  /** Envoy's node id; the agent serves the node of this name. */
  readonly nodeName: string;
  /** Envoy wants one to subscribe at all; `aether` when absent or empty. */
  readonly clusterName?: string;
  readonly region?: string;
  readonly zone?: string;
  /** Path of the agent's xDS socket. */
  readonly xdsSocket: string;
  /** Path of a socket for Envoy's admin interface; without it Envoy has none. */
  readonly adminSocket?: string;
}

/** JSON that `envoy -c` and `envoy --mode validate -c` read: `{ node, admin?, dynamic_resources, static_resources, … }`. */
export type Bootstrap = Readonly<Record<string, unknown>>;

/** Builds the bootstrap. Delta ADS only: clusters and listeners are subscribed to by wildcard, the rest by name. */
export function buildBootstrap(options: BootstrapOptions): Bootstrap {
  return {
    node: buildNode(options),
    ...(options.adminSocket ? { admin: { address: { pipe: { path: options.adminSocket, mode: 0o600 } } } } : {}),
    dynamic_resources: {
      ads_config: {
        api_type: 'DELTA_GRPC',
        transport_api_version: 'V3',
        set_node_on_first_message_only: true,
        grpc_services: [
          {
            envoy_grpc: {
              cluster_name: AGENT_CLUSTER,
              // Envoy's own back-off grows to half a minute: after an agent restart the node would wait that long.
              retry_policy: { retry_back_off: { base_interval: '0.1s', max_interval: '1s' } },
            },
          },
        ],
      },
      cds_config: { resource_api_version: 'V3', ads: {} },
      lds_config: { resource_api_version: 'V3', ads: {} },
    },
    static_resources: { clusters: [agentCluster(options.xdsSocket)] },
    stats_config: STATS_CONFIG,
  };
}

function buildNode(options: BootstrapOptions): Record<string, unknown> {
  const locality = {
    ...(options.region ? { region: options.region } : {}),
    ...(options.zone ? { zone: options.zone } : {}),
  };
  return {
    id: options.nodeName,
    cluster: options.clusterName || 'aether',
    ...(Object.keys(locality).length > 0 ? { locality } : {}),
  };
}

// The keepalive notices an agent that hangs without closing its socket.
function agentCluster(xdsSocket: string): Record<string, unknown> {
  return {
    name: AGENT_CLUSTER,
    type: 'STATIC',
    connect_timeout: '1s',
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
        explicit_http_config: {
          http2_protocol_options: { connection_keepalive: { interval: '15s', timeout: '5s' } },
        },
      },
    },
    load_assignment: {
      cluster_name: AGENT_CLUSTER,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: xdsSocket } } } }] }],
    },
  };
}

// Tags as the Go mesh has them, so that its dashboards read our counters. What is left out multiplies by pods times
// services and tells nothing: certificate gauges, counters of health checks.
const STATS_CONFIG = {
  stats_tags: [
    { tag_name: 'aether.cluster', regex: '^cluster\\.(([^.]+)\\.)' },
    { tag_name: 'aether.pod', regex: '^listener\\.(?:inbound|out_http|capture(?:_tcp|_shim)?)(_([^.]+))\\.' },
  ],
  stats_matcher: {
    exclusion_list: {
      patterns: [
        { contains: 'ssl.certificate.' },
        { safe_regex: { regex: '^cluster\\..*\\.health_check\\..*' } },
        // All of them but membership_healthy, _degraded and _total: the health gateway reads its answer off these gauges.
        {
          safe_regex: {
            regex: '^cluster\\.health_.*\\.(?:[a-ln-z][a-z0-9_]*|max_host_weight|membership_(?:change|excluded))$',
          },
        },
      ],
    },
  },
};
