// Network filters: who is calling, which cluster a connection goes to, raw TCP.
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AccessLog } from '../gen/envoy/config/accesslog/v3/accesslog_pb.js';
import type { FilterStateValueSchema } from '../gen/envoy/extensions/filters/common/set_filter_state/v3/value_pb.js';
import { FilterStateValue_SharedWithUpstream } from '../gen/envoy/extensions/filters/common/set_filter_state/v3/value_pb.js';
import { ConfigSchema as SetFilterStateSchema } from '../gen/envoy/extensions/filters/network/set_filter_state/v3/set_filter_state_pb.js';
import { TcpProxySchema } from '../gen/envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy_pb.js';
import { TCP_MESH_PORT } from '../mesh/constants.ts';
import { tcpClusterName } from '../mesh/names.ts';
import { filter, fromAds, milliseconds } from './envoy-values.ts';

const SET_FILTER_STATE = 'envoy.filters.network.set_filter_state';
const IDENTITY_KEY = 'envoy.tls.certificate_mappers.on_demand_secret';
// A security setting: only hashable objects enter the key of the upstream pool. With `envoy.string` a pool shared by
// two pods sends one pod's requests under the other's certificate.
const HASHABLE_STRING = 'envoy.hashable_string';
const CLUSTER_KEY = 'envoy.tcp_proxy.cluster';
/** How long a dial waits for its cluster. */
const ON_DEMAND_MS = 2000;
const DIALLED_ADDRESS = '%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%';

/** Names the pod's identity to the upstream handshake: the certificate is fetched under this name. */
export function setIdentity(identity: string) {
  return setFilterState(identityValue(identity));
}

/** The same, and chooses the cluster by address and port dialled. */
export function setIdentityAndDial(identity: string) {
  return setFilterState(identityValue(identity), clusterValue('%DOWNSTREAM_LOCAL_PORT%'));
}

/** The same, and chooses the default TCP cluster of the address dialled, whatever the port was. */
export function setIdentityAndAddress(identity: string) {
  return setFilterState(identityValue(identity), clusterValue(TCP_MESH_PORT));
}

/** Raw TCP to a cluster, which an earlier filter may have overridden. Counters: `tcp.<statPrefix>.*`. */
export function tcpProxy(
  statPrefix: string,
  cluster: string,
  options: { readonly accessLog?: readonly AccessLog[]; readonly onDemand?: boolean } = {},
) {
  return filter('envoy.filters.network.tcp_proxy', TcpProxySchema, {
    statPrefix,
    accessLog: [...(options.accessLog ?? [])],
    clusterSpecifier: { case: 'cluster', value: cluster },
    // Always with a time-out: Envoy's own lets a dial to an unknown name hang 15 s, to a withdrawn one 60 s.
    ...(options.onDemand ? { onDemand: { odcdsConfig: fromAds(), timeout: milliseconds(ON_DEMAND_MS) } } : {}),
    // The default of one hour would cut idle database connections that TCP itself keeps; keepalive finds dead peers.
    idleTimeout: milliseconds(0),
  });
}

type Value = MessageInitShape<typeof FilterStateValueSchema>;

function identityValue(identity: string): Value {
  return {
    key: { case: 'objectKey', value: IDENTITY_KEY },
    factoryKey: HASHABLE_STRING,
    sharedWithUpstream: FilterStateValue_SharedWithUpstream.ONCE,
    value: format(identity.replaceAll('%', '%%')),
  };
}

function clusterValue(port: Parameters<typeof tcpClusterName>[1]): Value {
  return {
    key: { case: 'objectKey', value: CLUSTER_KEY },
    value: format(tcpClusterName(DIALLED_ADDRESS, port)),
  };
}

function setFilterState(...onNewConnection: Value[]) {
  return filter(SET_FILTER_STATE, SetFilterStateSchema, { onNewConnection });
}

function format(text: string) {
  return {
    case: 'formatString' as const,
    value: {
      format: {
        case: 'textFormatSource' as const,
        value: { specifier: { case: 'inlineString' as const, value: text } },
      },
    },
  };
}
