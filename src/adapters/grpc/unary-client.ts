// One unary gRPC call over a unix socket, on a channel of its own that is gone afterwards: what is called from a process
// that ends with its call, and what is tried again, must not meet the back-off of an older channel.
import type { DescMessage, DescMethodUnary, MessageShape } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type StatusObject } from '@grpc/grpc-js';
import { unaryMethod } from './unary-method.ts';

const CHANNEL_OPTIONS = {
  'grpc.enable_retries': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  // Else a subchannel that has just failed is shared, with its wait before the next connection.
  'grpc.use_local_subchannel_pool': 1,
  // A snapshot of a large node is beyond the usual 4 MiB.
  'grpc.max_receive_message_length': -1,
} as const;

export interface UnaryCallOptions {
  readonly socketPath: string;
  readonly timeoutMs: number;
  readonly metadata?: Readonly<Record<string, string>>;
}

export interface UnaryAnswer<Response> {
  readonly response: Response;
  readonly trailers: Metadata;
}

/** Rejects with grpc-js's ServiceError: `code`, `details`. */
export async function callUnary<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  request: MessageShape<I>,
  { socketPath, timeoutMs, metadata = {} }: UnaryCallOptions,
): Promise<UnaryAnswer<MessageShape<O>>> {
  const { path, requestSerialize, responseDeserialize } = unaryMethod(method);
  const client = new Client(`unix:${socketPath}`, credentials.createInsecure(), CHANNEL_OPTIONS);
  const headers = new Metadata();
  for (const [name, value] of Object.entries(metadata)) headers.set(name, value);
  try {
    return await new Promise((resolve, reject) => {
      let response: MessageShape<O> | undefined;
      const call = client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        headers,
        { deadline: Date.now() + timeoutMs },
        (error, value) => {
          if (error !== null) reject(error);
          else response = value;
        },
      );
      call.on('status', ({ metadata: trailers }: StatusObject) => {
        if (response !== undefined) resolve({ response, trailers });
      });
    });
  } finally {
    client.close();
  }
}
