// Access logs: a record for each connection of raw TCP and each HTTP request, at both ends of the mesh hop. Names and fields
// as the Go mesh has them (log names `aether_access_logs`, `aether_l4_access_logs`), on stdout or in a file as a JSON line
// each, with the log's name as `log`; to a collector over OTLP.
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type AccessLog,
  type AccessLogFilterSchema,
  AccessLogSchema,
  ComparisonFilter_Op,
} from '../gen/envoy/config/accesslog/v3/accesslog_pb.js';
import { FileAccessLogSchema } from '../gen/envoy/extensions/access_loggers/file/v3/file_pb.js';
import { OpenTelemetryAccessLogConfigSchema } from '../gen/envoy/extensions/access_loggers/open_telemetry/v3/logs_service_pb.js';
import { StdoutAccessLogSchema } from '../gen/envoy/extensions/access_loggers/stream/v3/stream_pb.js';
import { FractionalPercent_DenominatorType } from '../gen/envoy/type/v3/percent_pb.js';
import { HTTP_ACCESS_LOG, OTEL_COLLECTOR_CLUSTER, TCP_ACCESS_LOG } from '../mesh/names.ts';
import { HTTP_FIELDS, type LogFields, TCP_FIELDS } from './access-log-fields.ts';
import { filter, milliseconds } from './envoy-values.ts';
import type { AccessLogSettings, AccessLogSink, NodePod, NodeSettings } from './input.ts';

/** Which end of the hop speaks: what the pod sends, or what it receives. */
export type Reporter = 'source' | 'destination';

/** What stands before the paths that the mesh answers itself. */
const INTERNAL_PATH = '/-/-/';
const FLUSH_MS = 1000;

/** The loggers of an HTTP connection manager of the pod; none where the node has no access log. */
export function httpAccessLog(pod: NodePod, node: NodeSettings, reporter: Reporter): AccessLog[] {
  const { accessLog } = node;
  if (accessLog === undefined) return [];
  const wanted = anyOf(failed(), serverError(), sampled(accessLog));
  return [
    logger(accessLog, {
      name: HTTP_ACCESS_LOG,
      body: '%RESPONSE_CODE% %RESPONSE_FLAGS% %REQ(:METHOD)% %REQ(:AUTHORITY)%%REQ(:PATH)%',
      fields: { ...describe(pod, reporter), ...HTTP_FIELDS },
      filter: allOf({ filterSpecifier: { case: 'notHealthCheckFilter', value: {} } }, noInternalPath(), wanted),
    }),
  ];
}

/** The loggers of a TCP proxy of the pod: failures, and successes as they are sampled. */
export function tcpAccessLog(pod: NodePod, node: NodeSettings, reporter: Reporter): AccessLog[] {
  const { accessLog } = node;
  if (accessLog === undefined) return [];
  return [
    logger(accessLog, {
      name: TCP_ACCESS_LOG,
      body: '%RESPONSE_FLAGS% %UPSTREAM_CLUSTER%',
      fields: { ...describe(pod, reporter), ...TCP_FIELDS },
      filter: anyOf(failed(), sampled(accessLog)),
    }),
  ];
}

// `<ns>_<pod>`: a namespace holds no "_".
function describe({ resourceName, netnsPath }: NodePod, reporter: Reporter): LogFields {
  const at = resourceName.indexOf('_');
  return {
    reporter,
    pod_namespace: literal(resourceName.slice(0, at)),
    pod_name: literal(resourceName.slice(at + 1)),
    ...(reporter === 'source' ? { source_netns: literal(netnsPath) } : {}),
  };
}

interface LoggerOptions {
  readonly name: string;
  readonly body: string;
  readonly fields: LogFields;
  readonly filter: Filter;
}

function logger({ sink }: AccessLogSettings, options: LoggerOptions): AccessLog {
  return create(AccessLogSchema, { ...writer(sink, options), filter: options.filter });
}

function writer(sink: AccessLogSink, options: LoggerOptions) {
  const { name, fields } = options;
  const json = { format: { case: 'jsonFormat' as const, value: { log: name, ...fields } } };
  const lines = { case: 'logFormat' as const, value: json };
  switch (sink.kind) {
    case 'stdout':
      return filter('envoy.access_loggers.stdout', StdoutAccessLogSchema, { accessLogFormat: lines });
    case 'file':
      return filter('envoy.access_loggers.file', FileAccessLogSchema, { path: sink.path, accessLogFormat: lines });
    case 'otlp':
      return filter('envoy.access_loggers.open_telemetry', OpenTelemetryAccessLogConfigSchema, otlp(options));
  }
}

function otlp({ name, body, fields }: LoggerOptions): MessageInitShape<typeof OpenTelemetryAccessLogConfigSchema> {
  const text = (value: string) => ({ value: { case: 'stringValue' as const, value } });
  return {
    logName: name,
    grpcService: { targetSpecifier: { case: 'envoyGrpc', value: { clusterName: OTEL_COLLECTOR_CLUSTER } } },
    bufferFlushInterval: milliseconds(FLUSH_MS),
    body: text(body),
    attributes: { values: Object.entries(fields).map(([key, value]) => ({ key, value: text(value) })) },
  };
}

// Envoy takes "%" for the beginning of a command.
function literal(text: string): string {
  return text.replaceAll('%', '%%');
}

type Filter = MessageInitShape<typeof AccessLogFilterSchema>;

/** Any response flag: no upstream, reset, refused, timed out. */
function failed(): Filter {
  return { filterSpecifier: { case: 'responseFlagFilter', value: {} } };
}

function serverError(): Filter {
  const comparison = {
    op: ComparisonFilter_Op.GE,
    value: { defaultValue: 500, runtimeKey: 'aether.access_log.min_status' },
  };
  return { filterSpecifier: { case: 'statusCodeFilter', value: { comparison } } };
}

function sampled({ successPercent }: AccessLogSettings): Filter {
  return {
    filterSpecifier: {
      case: 'runtimeFilter',
      value: {
        runtimeKey: 'aether.access_log.success',
        percentSampled: {
          numerator: Math.round(successPercent * 100),
          denominator: FractionalPercent_DenominatorType.TEN_THOUSAND,
        },
        useIndependentRandomness: true,
      },
    },
  };
}

function noInternalPath(): Filter {
  return {
    filterSpecifier: {
      case: 'headerFilter',
      value: {
        header: {
          name: ':path',
          invertMatch: true,
          headerMatchSpecifier: {
            case: 'stringMatch',
            value: { matchPattern: { case: 'prefix', value: INTERNAL_PATH } },
          },
        },
      },
    },
  };
}

function allOf(...filters: Filter[]): Filter {
  return { filterSpecifier: { case: 'andFilter', value: { filters } } };
}

function anyOf(...filters: Filter[]): Filter {
  return { filterSpecifier: { case: 'orFilter', value: { filters } } };
}
