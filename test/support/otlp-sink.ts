// A collector of OTLP log records on a Unix socket, as small as it can be.
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import {
  ExportLogsServiceRequestSchema,
  ExportLogsServiceResponseSchema,
} from '../../src/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js';
import type { AnyValue } from '../../src/gen/opentelemetry/proto/common/v1/common_pb.js';

export interface OtlpRecord {
  readonly log: string;
  readonly body: string;
  readonly attributes: Readonly<Record<string, string>>;
}

/** `records` grows as they come. */
export async function startOtlpSink(
  t: { teardown(fn: () => unknown): unknown },
  socketPath: string,
): Promise<{ readonly records: readonly OtlpRecord[] }> {
  const records: OtlpRecord[] = [];
  const server = new Server();
  server.addService(
    {
      Export: {
        path: '/opentelemetry.proto.collector.logs.v1.LogsService/Export',
        requestStream: false,
        responseStream: false,
        requestSerialize: (message: Uint8Array) => Buffer.from(message),
        requestDeserialize: (bytes: Buffer) => new Uint8Array(bytes),
        responseSerialize: (message: Uint8Array) => Buffer.from(message),
        responseDeserialize: (bytes: Buffer) => new Uint8Array(bytes),
      },
    },
    {
      Export: (call: { request: Uint8Array }, done: (error: null, answer: Uint8Array) => void) => {
        records.push(...readRecords(call.request));
        done(null, toBinary(ExportLogsServiceResponseSchema, { $typeName: RESPONSE }));
      },
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socketPath}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  t.teardown(() => server.forceShutdown());
  return { records };
}

const RESPONSE = 'opentelemetry.proto.collector.logs.v1.ExportLogsServiceResponse';

function readRecords(bytes: Uint8Array): readonly OtlpRecord[] {
  return fromBinary(ExportLogsServiceRequestSchema, bytes).resourceLogs.flatMap(({ resource, scopeLogs }) => {
    const of = new Map(resource?.attributes.map(({ key, value }) => [key, textOf(value)]));
    return scopeLogs.flatMap(({ logRecords }) =>
      logRecords.map((record) => ({
        log: of.get('log_name') ?? '',
        body: textOf(record.body),
        attributes: Object.fromEntries(record.attributes.map(({ key, value }) => [key, textOf(value)])),
      })),
    );
  });
}

function textOf(value: AnyValue | undefined): string {
  return value?.value.case === 'stringValue' ? value.value.value : '';
}
