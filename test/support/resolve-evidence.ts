// Evidence of what Envoy did with each connection: every listener and every HTTP connection manager of a snapshot is made to
// write a line of JSON, which names chain, cluster and both ends. Only the log is added; what is decided stays.
import { readFileSync } from 'node:fs';
import { create, fromBinary } from '@bufbuild/protobuf';
import { anyPack, anyUnpack } from '@bufbuild/protobuf/wkt';
import { type AccessLog, AccessLogSchema } from '../../src/gen/envoy/config/accesslog/v3/accesslog_pb.js';
import type { Filter } from '../../src/gen/envoy/config/listener/v3/listener_components_pb.js';
import { type Listener, ListenerSchema } from '../../src/gen/envoy/config/listener/v3/listener_pb.js';
import { FileAccessLogSchema } from '../../src/gen/envoy/extensions/access_loggers/file/v3/file_pb.js';
import { HttpConnectionManagerSchema } from '../../src/gen/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager_pb.js';
import { encodeListener } from '../../src/xds/encode-resource.ts';
import { filter } from '../../src/xds/envoy-values.ts';
import type { Snapshot } from '../../src/xds/resource.ts';
import { hash } from './xds-example.ts';

/** One line; Envoy writes `-` for what there is not. Addresses are `ip:port`, IPv6 in brackets. */
export interface LogLine {
  readonly kind: 'connection' | 'request';
  readonly listener: string;
  readonly chain: string;
  /** Who dialled, and what. */
  readonly remote: string;
  readonly local: string;
  readonly cluster: string;
  /** Where Envoy went, and from where. */
  readonly upstream: string;
  readonly source: string;
  /** Of requests. */
  readonly status: string;
  readonly path: string;
}

const OF_CONNECTION = {
  chain: '%FILTER_CHAIN_NAME%',
  remote: '%DOWNSTREAM_REMOTE_ADDRESS%',
  local: '%DOWNSTREAM_LOCAL_ADDRESS%',
  cluster: '%UPSTREAM_CLUSTER_RAW%',
  upstream: '%UPSTREAM_REMOTE_ADDRESS%',
  source: '%UPSTREAM_LOCAL_ADDRESS%',
  status: '-',
  path: '-',
};
const OF_REQUEST = { ...OF_CONNECTION, status: '%RESPONSE_CODE%', path: '%REQ(:PATH)%' };

/** The snapshot with a log to `file` in every listener and connection manager. */
export function addEvidence(snapshot: Snapshot, file: string): Snapshot {
  const listener = new Map(
    [...snapshot.resources.listener].map(([name, resource]) => {
      const decorated = decorate(fromBinary(ListenerSchema, resource.bytes), file);
      return [name, encodeListener(decorated, hash)] as const;
    }),
  );
  // Not what the snapshot says of itself: the edit is a change more.
  const { change: _, ...whole } = snapshot;
  return { ...whole, resources: { ...snapshot.resources, listener } };
}

/** All complete lines behind the first `start` bytes. */
export function readEvidence(file: string, start: number): readonly LogLine[] {
  const text = readFileSync(file).toString('utf8', start);
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  return whole
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as LogLine); // written by Envoy in the format above
}

function decorate(listener: Listener, file: string): Listener {
  const log = (kind: LogLine['kind'], fields: object): AccessLog =>
    accessLog(file, `${JSON.stringify({ kind, listener: listener.name, ...fields })}\n`);
  const chains = [...listener.filterChains, ...(listener.defaultFilterChain ? [listener.defaultFilterChain] : [])];
  for (const chain of chains) {
    for (const filter of chain.filters) addToHttp(filter, log('request', { ...OF_REQUEST, chain: chain.name }));
  }
  listener.accessLog.push(log('connection', OF_CONNECTION));
  return listener;
}

function addToHttp({ configType }: Filter, log: AccessLog): void {
  if (configType.case !== 'typedConfig') return;
  const manager = anyUnpack(configType.value, HttpConnectionManagerSchema);
  if (manager === undefined) return;
  manager.accessLog.push(log);
  configType.value = anyPack(HttpConnectionManagerSchema, manager);
}

function accessLog(path: string, format: string): AccessLog {
  return create(
    AccessLogSchema,
    filter('envoy.access_loggers.file', FileAccessLogSchema, {
      path,
      accessLogFormat: {
        case: 'logFormat',
        value: { format: { case: 'textFormatSource', value: { specifier: { case: 'inlineString', value: format } } } },
      },
    }),
  );
}
